"""Environments in a batch: building, stepping, episode statistics, exact restoring.

`Envs` steps Gymnasium environments one after the other with little overhead and resets
each in the step in which its episode ends (Gymnasium's SAME_STEP). The step returns
Gymnasium's five values; `info` is empty unless an episode ended, and then holds

- `final_obs`: like the observations, but with the true last one where an episode ended.
  That is the state to bootstrap from when the episode was cut off (truncated).
- `episodes`: `(return, length)` of each episode that ended.

An environment is restored by repeating what led to its state: the random generator before
the last reset, that reset, and the actions since. The observation tells whether it worked.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from cleanrl_worker.kit import observations
from cleanrl_worker.kit.errors import TrainingError, UsageError
from cleanrl_worker.kit.families import is_grid, register_family, unknown_id
from cleanrl_worker.kit.types import Array, Env, StateDict, StepInfo, StepResult
from cleanrl_worker.running import live_frames

_drawn = False


@contextlib.contextmanager
def drawn() -> Iterator[None]:
    """Let every environment that is built inside be able to draw pictures."""
    global _drawn
    _drawn = True
    try:
        yield
    finally:
        _drawn = False


def make_env(env_id: str, *, video_dir: str | None = None, **options: Any) -> Env:
    """Build one Gymnasium environment, registering its family first when needed.

    Args:
        env_id: the environment's id.
        video_dir: where to record videos, or `None`.
        options: passed on to `gymnasium.make`.

    Raises:
        UsageError: when the id is unknown or its package is missing.
    """
    register_family(env_id)
    draws = video_dir is not None or _drawn
    if draws:
        options["render_mode"] = "rgb_array"
    try:
        try:
            env = gym.make(env_id, disable_env_checker=True, **options)
        except TypeError:
            # A recording takes what pictures there are; an environment may know none at all.
            if video_dir is not None or options.pop("render_mode", None) is None:
                raise
            env = gym.make(env_id, disable_env_checker=True, **options)
    except gym.error.DependencyNotInstalled as error:
        raise UsageError(f"{env_id} needs a package that is missing: {error}") from None
    except (gym.error.Error, ModuleNotFoundError) as error:
        raise unknown_id(env_id, error) from None
    if is_grid(env_id):
        from cleanrl_worker.kit.grid_view import quicken

        quicken(env)
    if draws:
        # Here, because only a run that records needs it.
        from mosaic.fastlane.cameras import follow_what_moves

        follow_what_moves(env.unwrapped)
    if video_dir is not None:
        env = gym.wrappers.RecordVideo(env, video_dir, disable_logger=True)
    return env


class Envs:
    """A batch of environments that are stepped one after the other."""

    def __init__(
        self, env_id: str, num_envs: int, *, video_dir: str | None = None, **options: object
    ) -> None:
        self.env_id = env_id
        self.num_envs = num_envs
        with live_frames.without_own_taps():
            self.envs = [
                self._make_one(index, video_dir if index == 0 else None, options)
                for index in range(num_envs)
            ]
        self._tap = live_frames.frame_tap(self.envs, num_envs)
        self.single_action_space = self.envs[0].action_space
        self.single_observation_space, self._encode = observations.encoder(
            self.envs[0].observation_space
        )
        self._inner, self._limit = zip(*map(_strip, self.envs), strict=True)
        for env in self._inner:
            _trust_actions(env)
        space = self.single_action_space
        self._box = space if isinstance(space, spaces.Box) else None
        self.obs = np.zeros(
            (num_envs, *self.single_observation_space.shape), self.single_observation_space.dtype
        )
        self._returns = [0.0] * num_envs
        self._lengths = [0] * num_envs
        self._origins: list[StateDict] = [{} for _ in range(num_envs)]
        self._actions: list[list[object]] = [[] for _ in range(num_envs)]
        self.notes: list[str] = []

    def reset(self, seed: int) -> np.ndarray:
        """Start new episodes: environment `i` is seeded with `seed + i`."""
        for index in range(self.num_envs):
            self._begin(index, {"seed": seed + index})
        return self.obs

    def step(self, actions: np.ndarray) -> StepResult:
        """Step every environment; see the module for what `info` holds."""
        num_envs, encode, limits = self.num_envs, self._encode, self._limit
        if self._box is not None:
            actions = np.clip(actions, self._box.low, self._box.high)
            each = list(actions.astype(self._box.dtype, copy=False))
        else:
            each = actions.tolist()
        obs = np.empty_like(self.obs)
        rewards = np.empty(num_envs, np.float32)
        terminated = np.zeros(num_envs, np.bool_)
        truncated = np.zeros(num_envs, np.bool_)
        ended: list[int] | None = None
        lengths, returns = self._lengths, self._returns
        for index, env in enumerate(self._inner):
            action = each[index]
            one, reward, done, cut, _ = env.step(action)
            obs[index] = one if encode is None else encode(one)
            rewards[index] = reward
            returns[index] += reward
            length = lengths[index] = lengths[index] + 1
            self._actions[index].append(action)
            if length == limits[index]:
                cut = True
            if done or cut:
                terminated[index] = done
                truncated[index] = cut
                ended = [index] if ended is None else [*ended, index]
        self.obs = obs
        if self._tap is not None:
            self._tap.step(rewards)
        info: StepInfo = {} if ended is None else self._finish(ended)
        return self.obs, rewards, terminated, truncated, info

    def watch(self, seen: Callable[[int, Mapping[str, object]], None]) -> None:
        """Be told of every step with the environment's own `info`, before the next one begins.

        `step` passes none of it on: in training nothing needs it, and copying it costs time.
        """
        self._inner = tuple(
            _Watched(env, partial(seen, index)) for index, env in enumerate(self._inner)
        )

    def restart(self, index: int) -> np.ndarray:
        """End one environment's episode early and begin its next one."""
        self.obs = self.obs.copy()
        self._begin(index, {"rng": generator_state(self.envs[index])})
        return self.obs

    def sample_actions(self, rng: np.random.Generator) -> np.ndarray:
        """Uniformly random actions, one for each environment."""
        space = self.single_action_space
        if isinstance(space, spaces.Box):
            size = (self.num_envs, *space.shape)
            return rng.uniform(space.low, space.high, size).astype(np.float32)
        assert isinstance(space, spaces.Discrete), "checked by `Run.check_spaces`"
        return rng.integers(int(space.n), size=self.num_envs)

    def close(self) -> None:
        """Close every environment."""
        if self._tap is not None:
            self._tap.close()
        for env in self.envs:
            env.close()

    def state_dict(self) -> StateDict:
        """Everything needed to bring every environment back to where it is."""
        return {
            "envs": [
                {
                    "origin": self._origins[index],
                    "actions": np.asarray(self._actions[index]),
                    "obs": self.obs[index],
                    "return": float(self._returns[index]),
                }
                for index in range(self.num_envs)
            ]
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Bring every environment back; `notes` says where a new episode had to begin."""
        if len(state["envs"]) != self.num_envs:
            raise UsageError(
                f"The checkpoint has {len(state['envs'])} environments, this run has "
                f"{self.num_envs}; use --num-envs {len(state['envs'])}."
            )
        for index, saved in enumerate(state["envs"]):
            self._begin(index, saved["origin"])
            self._replay(index, saved)

    def _make_one(self, index: int, video_dir: str | None, options: dict[str, object]) -> Env:
        return make_env(self.env_id, video_dir=video_dir, **options)

    def _replay(self, index: int, saved: StateDict) -> None:
        env, encode = self._inner[index], self._encode
        actions = saved["actions"].numpy()
        # tolist makes plain numbers of discrete actions; arrays stay arrays, as in step().
        each = list(actions) if self._box is not None else actions.tolist()
        for action in each:
            one, *_ = env.step(action)
            self.obs[index] = one if encode is None else encode(one)
        self._actions[index] = each
        self._lengths[index] = len(each)
        self._returns[index] = saved["return"]
        if not np.array_equal(self.obs[index], saved["obs"].numpy()):
            self.notes.append(
                f"environment {index} could not be brought back to its saved state, "
                "so a new episode begins there"
            )
            self._begin(index, {"rng": generator_state(self.envs[index])})

    def _begin(self, index: int, origin: StateDict) -> None:
        env = self.envs[index]
        if "rng" in origin:
            _set_generator_state(env, origin["rng"])
        one, _ = env.reset(seed=origin.get("seed"))
        self.obs[index] = one if self._encode is None else self._encode(one)
        self._origins[index] = origin
        self._actions[index] = []
        self._returns[index] = 0.0
        self._lengths[index] = 0

    def _finish(self, ended: list[int]) -> StepInfo:
        final_obs = self.obs.copy()
        episodes = []
        for index in ended:
            total = self._returns[index]
            if not np.isfinite(total):
                raise TrainingError(
                    f"{self.env_id} gave a reward that is not a finite number "
                    f"(episode return {total}); training cannot go on with it."
                )
            episodes.append((float(total), self._lengths[index]))
            if self._tap is not None:
                self._tap.episode(total)
            self._begin(index, {"rng": generator_state(self.envs[index])})
        return {"final_obs": final_obs, "episodes": episodes}


class _Watched:
    """An environment whose steps are seen by someone else too."""

    def __init__(self, env: Env, seen: Callable[[Mapping[str, object]], None]) -> None:
        self._env, self._seen = env, seen

    def step(
        self, action: object
    ) -> tuple[object, SupportsFloat, bool, bool, Mapping[str, object]]:
        result = self._env.step(action)
        self._seen(result[4])
        return result


def _strip(env: Env) -> tuple[Env, int | None]:
    """Take off the wrappers that `Envs` does itself: step order and the time limit."""
    limit = None
    # Exactly these classes: a subclass may do more.
    while isinstance(env, OrderEnforcing | TimeLimit) and type(env) in (OrderEnforcing, TimeLimit):
        if isinstance(env, TimeLimit):
            limit = env._max_episode_steps
        env = env.env
    return env, limit


class _TrustingDiscrete(spaces.Discrete):
    """Accepts any action: ours come from the space itself, and checking costs half a step."""

    def contains(self, x: object) -> bool:
        return True


def _trust_actions(env: Env) -> None:
    space = env.unwrapped.action_space
    if type(space) is spaces.Discrete:
        env.unwrapped.action_space = _TrustingDiscrete(int(space.n), start=int(space.start))


def generator_state(env: Env) -> str:
    """The state of an environment's random generator, as text."""
    return json.dumps(env.unwrapped.np_random.bit_generator.state, default=_as_list)


def _set_generator_state(env: gym.Env, state: str) -> None:
    content = json.loads(state)
    generator = np.random.Generator(getattr(np.random, content["bit_generator"])())
    generator.bit_generator.state = content
    env.unwrapped.np_random = generator


def _as_list(value: Array) -> object:
    return value.tolist()
