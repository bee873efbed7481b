"""`python -m gym_gui.background.env_probe ENV`: an environment's options, asked in a child process.

The window never imports an environment library; it starts this and reads one JSON document.
"""

import contextlib
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from typing import NotRequired

from mosaic.system.stoppable import Stoppable
from mosaic.workers.facts import AlgorithmFacts, ArgumentFacts

# The first import of a simulator can take this long on a slow disk.
_LIMIT_S = 60.0
_NOT_OFFERED = {"self", "render_mode", "kwargs", "args"}
_REGISTERING = ("ale_py", "minigrid")


class EnvironmentOptions(AlgorithmFacts):
    """What an environment can be made with, as arguments for a form, and its usual rate.

    With a `problem`, the environment is not there.
    """

    fps: int
    problem: NotRequired[str]


def probe(env_id: str, program: Stoppable) -> EnvironmentOptions:
    """The options of an environment and its usual rate; call it off the GUI thread.

    Args:
        env_id: The environment.
        program: Runs the child process.

    Raises:
        ValueError: The environment is not there, and why.
        StoppedError: The child process was stopped.
    """
    command = [sys.executable, "-m", "gym_gui.background.env_probe", env_id]
    done = program.run(command, _LIMIT_S)
    try:
        answer: EnvironmentOptions = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.strip().splitlines() or ["no answer"]
        raise ValueError(f"{env_id}: {lines[-1]}") from None
    if "problem" in answer:
        raise ValueError(f"{env_id}: {answer['problem']}")
    return answer


def _look(env_id: str) -> EnvironmentOptions:
    gymnasium = importlib.import_module("gymnasium")
    for name in _REGISTERING:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    try:
        spec = gymnasium.spec(env_id)
        kind = spec.entry_point
        if isinstance(kind, str):
            module, _, name = kind.partition(":")
            kind = getattr(importlib.import_module(module), name)
    except Exception as error:
        return {"problem": str(error), "fps": 0}
    metadata = getattr(kind, "metadata", {})
    rate = int(metadata.get("render_fps") or 15)
    return {"arguments": _options(kind, spec.kwargs), "fps": rate}


def _options(kind: Callable[..., object], preset: Mapping[str, object]) -> list[ArgumentFacts]:
    found: list[ArgumentFacts] = []
    for name, parameter in inspect.signature(kind).parameters.items():
        default = preset.get(name, parameter.default)
        if name in _NOT_OFFERED or not isinstance(default, (bool, int, float, str)):
            continue
        found.append(
            {
                "name": name,
                "type": type(default).__name__,
                "default": default,
                "help": f"the environment's own option {name}",
                "range": None,
            }
        )
    return found


if __name__ == "__main__":
    # Libraries greet on standard output, which has to hold nothing but the document.
    with contextlib.redirect_stdout(sys.stderr):
        result = _look(sys.argv[1])
    json.dump(result, sys.stdout)
