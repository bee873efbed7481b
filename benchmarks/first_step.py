"""CartPole that writes down when it was first stepped and when a given step was reached.

The environment is gymnasium's own `CartPole-v1` with a stopwatch on its `step`, so that everything
on the way to it is the real thing. The file is named by FIRST_STEP_FILE, the step by
FIRST_STEP_MARK. The clock is the monotonic one, which all processes of a machine share.
"""

import importlib.abc
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_CARTPOLE = "gymnasium.envs.classic_control.cartpole"


class Stopwatch:
    """Notes the moments of the first environment that is stepped in this process."""

    def __init__(self) -> None:
        self._owner: object = None
        self._steps = 0
        self._mark = int(os.environ.get("FIRST_STEP_MARK", "0"))
        self._moments: list[dict[str, float]] = []

    def stepped(self, environment: object) -> None:
        """One more step of an environment."""
        if self._owner is None:
            self._owner = environment
            self._mark = int(os.environ.get("FIRST_STEP_MARK", "0"))
        if self._owner is environment:
            self._steps += 1
            if self._steps in (1, self._mark):
                self._note()

    def _note(self) -> None:
        self._moments.append({"wall": time.monotonic(), "cpu": time.process_time()})
        path = os.environ.get("FIRST_STEP_FILE")
        if path:
            Path(f"{path}.new").write_text(json.dumps(self._moments))
            os.replace(f"{path}.new", path)


class _Patch(importlib.abc.MetaPathFinder):
    """Puts the stopwatch on CartPole when gymnasium imports it."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != _CARTPOLE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_patch(module: Any) -> None:
            execute(module)
            step = module.CartPoleEnv.step

            def timed_step(environment: Any, action: Any) -> Any:
                result = step(environment, action)
                _stopwatch.stepped(environment)
                return result

            module.CartPoleEnv.step = timed_step

        spec.loader.exec_module = execute_and_patch  # type: ignore[method-assign]
        return spec


def register() -> None:
    """Called when an interpreter of the benchmark starts."""
    sys.meta_path.insert(0, _Patch())


def install(folder: Path) -> str:
    """Make every interpreter with this PYTHONPATH use the stopwatch."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text("import first_step\n\nfirst_step.register()\n")
    return f"{folder}{os.pathsep}{Path(__file__).parent}"


_stopwatch = Stopwatch()
