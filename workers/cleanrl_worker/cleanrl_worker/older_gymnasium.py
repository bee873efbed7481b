"""What scripts for an older Gymnasium expect, on the installed one. For foreign scripts only.

Nothing of a script is changed. After `gymnasium` is imported, a few of its names get the behaviour
that they had when upstream's scripts were written:

- `SyncVectorEnv` and `AsyncVectorEnv` reset within the step that ends an episode and tell of it in
  `final_info` and `final_observation`, if the script reads these. A script that does not was
  written for the present behaviour and keeps it.
- wrappers have their old names, and `TransformObservation` needs no space.
- Atari's environments are registered if ale-py is installed.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cleanrl_worker.foreign_scripts import when_imported
from cleanrl_worker.kit.types import Array, Env, Space

if TYPE_CHECKING:
    from gymnasium.vector import AutoresetMode

# Arrays with a row for each environment, and dictionaries of them.
Infos: TypeAlias = Mapping[str, "Array | Infos"]
_READS_THE_OLD = ("final_info", "final_observation")
# Old name, new name, and the arguments that the new one needs in addition.
_RENAMED: dict[str, tuple[str, dict[str, object]]] = {
    "FrameStack": ("FrameStackObservation", {}),
    "GrayScaleObservation": ("GrayscaleObservation", {}),
}


def support(script: Path | None) -> None:
    """Prepare Gymnasium, now or when it is imported, for a script."""
    text = script.read_text(encoding="utf-8", errors="replace") if script else ""
    resets = any(word in text for word in _READS_THE_OLD)

    def adapt(module: ModuleType) -> None:
        _register_atari(module)
        _adapt_wrappers(module)
        if resets:
            _reset_within_the_step(module)

    when_imported(("gymnasium",), adapt)


def _register_atari(gym: ModuleType) -> None:
    if importlib.util.find_spec("ale_py") is not None:
        import ale_py

        gym.register_envs(ale_py)


def _adapt_wrappers(gym: ModuleType) -> None:
    wrappers = gym.wrappers
    for old, (new, options) in _RENAMED.items():
        if not hasattr(wrappers, old) and hasattr(wrappers, new):
            setattr(wrappers, old, functools.partial(getattr(wrappers, new), **options))
    original = wrappers.TransformObservation

    class TransformObservation(original):  # type: ignore[valid-type,misc]
        """With the signature `(env, function)`: the space stays the environment's."""

        def __init__(
            self, env: Env, func: Callable[[object], object], observation_space: Space | None = None
        ) -> None:
            super().__init__(env, func, observation_space or env.observation_space)

    wrappers.TransformObservation = TransformObservation


def _reset_within_the_step(gym: ModuleType) -> None:
    vector = gym.vector
    for name in ("SyncVectorEnv", "AsyncVectorEnv"):
        setattr(vector, name, _with_final_info(getattr(vector, name), vector.AutoresetMode))


def _with_final_info(original: Any, modes: type[AutoresetMode]) -> type:
    class VectorEnv(original):  # type: ignore[misc]
        """Tells of ended episodes as Gymnasium did before version 1."""

        def __init__(self, *arguments: object, **options: object) -> None:
            options.setdefault("autoreset_mode", modes.SAME_STEP)
            super().__init__(*arguments, **options)

        def step(self, actions: object) -> tuple[object, ...]:
            *outcome, infos = super().step(actions)
            return *outcome, with_old_names(infos, self.num_envs)

    # Libraries and error messages name a class; it is the same one for them.
    VectorEnv.__name__, VectorEnv.__qualname__ = original.__name__, original.__qualname__
    VectorEnv.__module__ = original.__module__
    return VectorEnv


def with_old_names(infos: Infos, count: int) -> dict[str, object]:
    """The infos of a step with one dictionary for each environment that ended its episode.

    Args:
        infos: As the present Gymnasium gives them when it resets within the step.
        count: How many environments there are.
    """
    told: dict[str, object] = dict(infos)
    ended, last = infos.get("_final_info"), infos.get("final_info")
    if "final_obs" in infos:
        told["final_observation"] = infos["final_obs"]
        told["_final_observation"] = infos["_final_obs"]
    if isinstance(ended, np.ndarray) and isinstance(last, Mapping):
        final = np.full(count, None, dtype=object)
        for number in np.flatnonzero(ended):
            final[number] = one_of(last, int(number))
        told["final_info"] = final
    return told


def one_of(infos: Infos, number: int) -> dict[str, object]:
    """What concerns one environment of several; `_name` says which have a value of `name`."""
    own: dict[str, object] = {}
    for name, value in infos.items():
        has = infos.get(f"_{name}")
        if name.startswith("_") or (isinstance(has, np.ndarray) and not has[number]):
            continue
        own[name] = row_of(value, number)
    return own


def row_of(value: Array | Infos, number: int) -> object:
    """One environment's part of a value that all have."""
    return one_of(value, number) if isinstance(value, Mapping) else value[number]
