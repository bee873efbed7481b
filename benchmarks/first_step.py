"""CartPole that writes down when it was first stepped and when a given step was reached.

Installed as a plugin of gymnasium it stands in for `CartPole-v1`, so that everything on the way
to the environment is the real thing. The file is named by FIRST_STEP_FILE, the step by
FIRST_STEP_MARK. The clock is the monotonic one, which all processes of a machine share.
"""

import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

_ENTRY_POINT = "[gymnasium.envs]\n__root__ = first_step:register\n"
_METADATA = "Metadata-Version: 2.1\nName: first-step\nVersion: 1.0\n"


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


def make(**kwargs: Any) -> Any:
    """A CartPole on the stopwatch."""
    from gymnasium.envs.classic_control.cartpole import CartPoleEnv

    class TimedCartPole(CartPoleEnv):
        def step(self, action: Any) -> Any:
            result = super().step(action)
            _stopwatch.stepped(self)
            return result

    return TimedCartPole(**kwargs)


def register() -> None:
    """What gymnasium calls when it is imported."""
    import gymnasium

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gymnasium.register(
            "CartPole-v1", entry_point=make, max_episode_steps=500, reward_threshold=475.0
        )


def install(folder: Path) -> str:
    """Make gymnasium find this plugin; the PYTHONPATH that does it."""
    package = folder / "first_step-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text(_METADATA)
    (package / "entry_points.txt").write_text(_ENTRY_POINT)
    return f"{folder}{os.pathsep}{Path(__file__).parent}"


_stopwatch = Stopwatch()
