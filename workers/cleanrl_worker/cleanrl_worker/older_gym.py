"""The module `gym` as scripts before Gymnasium expect it, made of Gymnasium; for foreign scripts.

Upstream's oldest scripts import `gym`, which no longer installs beside NumPy 2. Only what such a
script touches itself has to be old: `make`, the vector environments that it steps, and wrappers
around them. Everything below, libraries' wrappers included, is Gymnasium.

- `reset()` answers the observation alone, `step()` four values with one dictionary of infos for
  each environment; the last observation of an episode is in `terminal_observation`.
- `env.seed(n)` is kept for the first reset.
- a real `gym` that is installed is used instead.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cleanrl_worker.foreign_scripts import when_imported
from cleanrl_worker.kit.types import Array, Env
from cleanrl_worker.running.schema import read_schema

if TYPE_CHECKING:
    from cleanrl_worker.older_gymnasium import Infos

# Observations, rewards, whether the episodes ended, and infos: in a list, or EnvPool's arrays.
OldStep: TypeAlias = "tuple[Array, Array, Array, Mapping[str, object] | list[dict[str, object]]]"
NAME = "gym"
_VERSION = "0.23.1"


def stands_in_for(name: str) -> bool:
    """Whether a package that is not installed is provided by this module."""
    return name == NAME and importlib.util.find_spec("gymnasium") is not None


def provide(script: Path | None) -> None:
    """Put `gym` where a script that imports it finds it, unless the real one is installed."""
    # Libraries look whether there is a `gym` and then behave differently: only who asks gets it.
    asked = script is not None and NAME in read_schema(script).imports
    if not asked or NAME in sys.modules or importlib.util.find_spec(NAME) is not None:
        return
    import gymnasium
    import gymnasium.wrappers.utils

    # The outermost wrapper is asked to seed itself, and it may be one of any library.
    setattr(gymnasium.Env, "seed", _keep_seed)  # noqa: B010
    vector = _module("vector", gymnasium.vector)
    for name in ("SyncVectorEnv", "AsyncVectorEnv"):
        setattr(vector, name, _old_vector(getattr(gymnasium.vector, name)))
    normalize = _module("wrappers.normalize", gymnasium.wrappers.utils)
    wrappers = _module("wrappers", gymnasium.wrappers, normalize=normalize)
    setattr(wrappers, "RecordEpisodeStatistics", _record_statistics)  # noqa: B010
    _module("spaces", gymnasium.spaces)
    parts = {part: sys.modules[f"{NAME}.{part}"] for part in ("vector", "wrappers", "spaces")}
    _module("", gymnasium, __version__=_VERSION, make=_make, Wrapper=Wrapper, **parts)
    when_imported(("envpool",), _adapt_envpool)
    when_imported(("supersuit",), _adapt_supersuit)


def _module(part: str, like: ModuleType, **own: object) -> ModuleType:
    """A module of ours that has every name of another, except those that it has itself."""
    name = f"{NAME}.{part}" if part else NAME
    made = ModuleType(name, like.__doc__)
    made.__dict__.update(own)
    # A package to the import system, so that `from gym.wrappers.normalize import …` is found.
    made.__path__ = []
    setattr(made, "__getattr__", lambda attribute: getattr(like, attribute))  # noqa: B010
    sys.modules[name] = made
    return made


def _keep_seed(self: object, seed: int | None = None) -> list[int | None]:
    self.__dict__["_seed_of_first_reset"] = seed
    return [seed]


def _make(name: str, **options: Any) -> Env:
    """An environment that can be filmed: before Gymnasium that needed no `render_mode`."""
    import gymnasium

    return gymnasium.make(name, **{"render_mode": "rgb_array", **options})


def _adapt_envpool(module: ModuleType) -> None:
    """Environments of the kind `gym` answer as they did when EnvPool still used that package."""
    original: Callable[..., object] = module.make

    @functools.wraps(original)
    def make(task: str, env_type: str = "gym", **options: object) -> object:
        if env_type != "gym":
            return original(task, env_type, **options)
        return _EnvPool(original(task, "gymnasium", **options))

    setattr(module, "make", make)  # noqa: B010


def _adapt_supersuit(module: ModuleType) -> None:
    """SuperSuit's vectors of the kind `gym`, which it no longer makes."""
    original: Callable[..., object] = module.concat_vec_envs_v1

    @functools.wraps(original)
    def concat(*arguments: object, base_class: str = "gymnasium", **options: object) -> object:
        if base_class != "gym":
            return original(*arguments, base_class=base_class, **options)
        return _Agents(original(*arguments, base_class="gymnasium", **options))

    setattr(module, "concat_vec_envs_v1", concat)  # noqa: B010


def _old_vector(original: Any) -> type:
    """A vector environment with four values a step, which resets within the step."""
    import gymnasium

    class VectorEnv(original):  # type: ignore[misc]
        """Answers as vector environments did before Gymnasium."""

        is_vector_env = True

        def __init__(self, *arguments: object, **options: object) -> None:
            options.setdefault("autoreset_mode", gymnasium.vector.AutoresetMode.SAME_STEP)
            super().__init__(*arguments, **options)

        def reset(self, **options: object) -> object:
            seeds = [getattr(env, "_seed_of_first_reset", None) for env in self._members()]
            if any(seed is not None for seed in seeds):
                options.setdefault("seed", seeds)
            for env in self._members():
                env.__dict__.pop("_seed_of_first_reset", None)
            return super().reset(**options)[0]

        def step(self, actions: object) -> OldStep:
            obs, rewards, ends, cuts, infos = super().step(actions)
            return obs, rewards, ends | cuts, list_of_infos(infos, ends, cuts)

        def _members(self) -> list[Env]:
            return list(getattr(self, "envs", ()))

    VectorEnv.__name__, VectorEnv.__qualname__ = original.__name__, original.__qualname__
    return VectorEnv


def list_of_infos(infos: Infos, ends: Array, cuts: Array) -> list[dict[str, object]]:
    """One dictionary for each environment, with `episode` and `terminal_observation` at its end.

    Args:
        infos: As Gymnasium gives them when it resets within the step.
        ends: Which environments ended by themselves.
        cuts: Which were cut off by a limit of time.
    """
    from cleanrl_worker.older_gymnasium import one_of, row_of

    told: list[dict[str, object]] = []
    final = infos.get("final_info")
    for number, (ended, cut) in enumerate(zip(ends, cuts, strict=True)):
        if not (ended or cut):
            # What belongs to ended episodes is present in the arrays for the others too.
            rest = {key: value for key, value in infos.items() if "final" not in key}
            told.append(one_of(rest, number))
            continue
        own = one_of(final, number) if isinstance(final, Mapping) else {}
        own["terminal_observation"] = row_of(infos["final_obs"], number)
        own["TimeLimit.truncated"] = bool(cut and not ended)
        told.append(own)
    return told


class Wrapper:
    """A wrapper around anything that can be stepped, which answers in the old way."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def __getattr__(self, name: str) -> object:
        if name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    @property
    def unwrapped(self) -> object:
        """The innermost environment."""
        return self.env.unwrapped

    def reset(self, **options: object) -> object:
        """The first observation."""
        answer = self.env.reset(**options)
        return answer[0] if isinstance(answer, tuple) else answer

    def step(self, action: object) -> OldStep:
        """Observation, reward, whether it ended, infos."""
        answer = self.env.step(action)
        if len(answer) == 4:
            four: OldStep = answer
            return four
        obs, rewards, ends, cuts, infos = answer
        return obs, rewards, np.logical_or(ends, cuts), infos


class _EnvPool(Wrapper):
    """EnvPool's environments: settings of the script are its own, and infos name what was cut."""

    def step(self, action: object) -> OldStep:
        """As before Gymnasium, with `TimeLimit.truncated` among the infos."""
        obs, rewards, ends, cuts, infos = self.env.step(action)
        return obs, rewards, ends | cuts, {**infos, "TimeLimit.truncated": cuts}

    def xla(self) -> tuple[object, ...]:
        """The functions for JAX; `step` has four values."""
        handle, receive, send, step = self.env.xla()

        def old_step(handle: object, action: object, *rest: object) -> tuple[object, OldStep]:
            handle, (obs, rewards, ends, cuts, infos) = step(handle, action, *rest)
            return handle, (obs, rewards, ends | cuts, {**infos, "TimeLimit.truncated": cuts})

        return handle, receive, send, old_step


class _Agents(Wrapper):
    """Several agents as a vector environment, whose infos are a list."""

    def step(self, action: object) -> OldStep:
        """As before Gymnasium."""
        obs, rewards, dones, infos = super().step(action)
        return obs, rewards, dones, infos if isinstance(infos, list) else [{} for _ in dones]


def _record_statistics(env: Env | Wrapper, **options: Any) -> Env | Wrapper:
    """Gymnasium's wrapper for one environment; ours for a vector of a third library."""
    import gymnasium

    if isinstance(env, gymnasium.Env):
        return gymnasium.wrappers.RecordEpisodeStatistics(env, **options)
    return _VectorStatistics(env)


class _VectorStatistics(Wrapper):
    """Counts returns and lengths of a vector environment whose infos are a list."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._returns = np.zeros(env.num_envs)
        self._lengths = np.zeros(env.num_envs, dtype=np.int64)

    def step(self, action: object) -> OldStep:
        """As the wrapped one, with `episode` in the infos of those that ended."""
        obs, rewards, dones, infos = super().step(action)
        assert isinstance(infos, list)
        self._returns += rewards
        self._lengths += 1
        for number in np.flatnonzero(dones):
            infos[number]["episode"] = {"r": self._returns[number], "l": self._lengths[number]}
            self._returns[number] = self._lengths[number] = 0
        return obs, rewards, dones, infos
