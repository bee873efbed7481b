"""One environment, and a policy that may act in it, for interactive sessions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import gymnasium as gym
import numpy as np

from cleanrl_worker.kit import observations
from cleanrl_worker.kit.envs import make_env
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.types import Array, Batch, Env, Environments, Space
from cleanrl_worker.programs.encoding import decode_observation, encode_value
from mosaic.fastlane.cameras import photograph, prepare_rendering
from mosaic.workers.keyboard import proposed_keys

if TYPE_CHECKING:
    from cleanrl_worker.kit.inference import Policy

Action: TypeAlias = int | float | Array
Info: TypeAlias = dict[str, object]
# The observation is of the environment's own kind.
Step: TypeAlias = tuple[object, float, bool, bool, Info]


class _Place(Protocol):
    """Where a player acts: one environment, however it is prepared."""

    action_space: Space
    encoded: Array
    environment: Env | None

    def like_envs(self) -> Batch: ...

    def reset(self, seed: int | None) -> tuple[object, Info]: ...

    def step(self, action: Action) -> Step: ...

    def picture(self) -> object: ...

    def close(self) -> None: ...


class Player:
    """Steps one environment.

    Args:
        env_id: The environment; by default the one the policy was trained in.
        policy: A policy file or a run directory, or None to leave acting to the caller.
        algorithm: What a plain state dict was trained by.
    """

    def __init__(self, env_id: str | None, policy: Path | None, algorithm: str | None) -> None:
        prepare_rendering()
        trained = None
        if policy is not None:
            from cleanrl_worker.running.evaluation import open_policy

            trained = open_policy(policy, env_id, algorithm)
            env_id = trained.args.env_id
        if not env_id:
            raise UsageError("env_id is required: what to step through")
        self.env_id = env_id
        self._place: _Place
        if trained is not None and hasattr(trained.module, "make_eval_envs"):
            self._place = _BatchOfOne(trained.make_envs(1))
        else:
            self._place = _Single(env_id)
        self.action_space = self._place.action_space
        self._act = None if trained is None else _Actor(trained.rebuild(self._place.like_envs()))

    @property
    def has_policy(self) -> bool:
        """Whether `choose` can be asked."""
        return self._act is not None

    def about(self) -> dict[str, object]:
        """What the caller should know."""
        return {
            "env_id": self.env_id,
            "action_space": str(self.action_space),
            "has_policy": self.has_policy,
            "actions": _actions(self.action_space),
            "reads": {"shape": list(self._reads.shape or ())},
            **_proposals(self._place.environment),
        }

    def reset(self, seed: int | None) -> tuple[object, Info]:
        """Begin an episode."""
        if self._act is not None:
            self._act.forget()
        return self._place.reset(seed)

    def step(self, action: Action) -> Step:
        """Take one step."""
        return self._place.step(action)

    def choose(self, *, deterministic: bool) -> Action:
        """The policy's action."""
        assert self._act is not None
        return self._act(self._place.encoded, deterministic)

    def advise(self, observation: object, allowed: Sequence[int] | None, *, first: bool) -> Action:
        """The policy's best action for an observation that is not this environment's.

        Args:
            observation: Numbers in the shape that the policy reads.
            allowed: The actions that are possible; None for all.
            first: Whether an episode begins there.

        Raises:
            UsageError: The observation has another shape.
        """
        assert self._act is not None
        if first:
            self._act.forget()
        return self._act.best(decode_observation(self._reads, observation), allowed)

    @property
    def _reads(self) -> Space:
        """The observations as the policy gets them."""
        return self._place.like_envs().single_observation_space

    def picture(self) -> Array:
        """What the environment looks like now."""
        return np.asarray(self._place.picture())

    def close(self) -> None:
        """Close the environment."""
        self._place.close()


class _Actor:
    """A policy for a batch, asked for one action."""

    def __init__(self, policy: Policy) -> None:
        from cleanrl_worker.kit.sampling import Random

        self._policy = policy
        self._rng = Random(1)

    def __call__(self, encoded: Array, deterministic: bool) -> Action:
        action: Array = self._policy(encoded[None], self._rng, deterministic)[0]
        chosen: Action = action.item() if np.ndim(action) == 0 else action
        return chosen

    def best(self, encoded: Array, allowed: Sequence[int] | None) -> Action:
        """The best action of those that are allowed.

        Raises:
            UsageError: The policy wants another one, and does not say how good these are.
        """
        action = self(encoded, True)
        if allowed is None or action in allowed:
            return action
        from cleanrl_worker.kit.inference import thought_of

        thought = thought_of(self._policy)
        if thought is None or thought.kind == "mean":
            raise UsageError(f"the policy chose {action}, which is not among {list(allowed)}")
        scores = thought.scores[0]
        return max(allowed, key=lambda one: float(scores[one]))

    def forget(self) -> None:
        """Let a policy with memory start an episode with none."""
        if hasattr(self._policy, "reset"):
            self._policy.reset(np.ones(1, np.bool_))


class _Like:
    """The two spaces that rebuilding a policy asks for."""

    def __init__(self, observation_space: gym.spaces.Box, action_space: Space) -> None:
        self.single_observation_space = observation_space
        self.single_action_space = action_space
        self.num_envs = 1


class _Single:
    """A Gymnasium environment as it is."""

    def __init__(self, env_id: str) -> None:
        self._env = make_env(env_id)
        self.environment: Env | None = self._env
        self.action_space = self._env.action_space
        self._space, self._encode = observations.encoder(self._env.observation_space)
        self.encoded: Array = np.zeros(self._space.shape, self._space.dtype)

    def like_envs(self) -> _Like:
        return _Like(self._space, self.action_space)

    def reset(self, seed: int | None) -> tuple[object, Info]:
        observation, info = self._env.reset(seed=seed)
        self._note(observation)
        return observation, info

    def step(self, action: Action) -> Step:
        # A Gaussian policy may leave the box, as it may in training, where it is clipped too.
        if isinstance(self.action_space, gym.spaces.Box):
            space = self.action_space
            action = np.clip(action, space.low, space.high).astype(space.dtype)
        observation, reward, terminated, truncated, info = self._env.step(action)
        self._note(observation)
        return observation, float(reward), bool(terminated), bool(truncated), info

    def picture(self) -> object:
        return photograph(self._env)

    def close(self) -> None:
        self._env.close()

    def _note(self, observation: object) -> None:
        encoded = observation if self._encode is None else self._encode(observation)
        self.encoded = np.asarray(encoded, self._space.dtype)


class _BatchOfOne:
    """Environments that an algorithm prepares by itself, such as stacked Atari frames."""

    def __init__(self, envs: Environments) -> None:
        self._envs = envs
        # Some batches, EnvPool's for one, are not made of environments that could be asked.
        self.environment: Env | None = next(iter(getattr(envs, "envs", ())), None)
        self.action_space = envs.single_action_space
        self.encoded: Array = np.zeros(envs.single_observation_space.shape or ())

    def like_envs(self) -> Batch:
        return self._envs

    def reset(self, seed: int | None) -> tuple[object, Info]:
        if seed is None:
            self.encoded = np.array(self._envs.restart(0)[0])
        else:
            self.encoded = np.array(self._envs.reset(seed=seed)[0])
        return self.encoded, {}

    def step(self, action: Action) -> Step:
        obs, rewards, terminated, truncated, info = self._envs.step(np.asarray([action]))
        self.encoded = np.array(info["final_obs"][0] if "final_obs" in info else obs[0])
        return self.encoded, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def picture(self) -> object:
        newest = self.encoded if self.encoded.ndim == 2 else self.encoded[-1]
        # Prepared frames are small; enlarged, people can recognise them.
        return np.repeat(np.repeat(newest, 4, 0), 4, 1)

    def close(self) -> None:
        self._envs.close()


def _actions(space: Space) -> dict[str, object]:
    """The actions as plain data: how many choices, or the bounds of a vector."""
    if isinstance(space, gym.spaces.Discrete):
        return {"n": int(space.n)}
    if isinstance(space, gym.spaces.Box) and len(space.shape) == 1:
        return {"low": encode_value(space.low), "high": encode_value(space.high)}
    return {}


def _proposals(environment: Env | None) -> dict[str, object]:
    """What the environment itself says about being played by a person."""
    if environment is None:
        return {"fps": None, "keys": []}
    rate = environment.metadata.get("render_fps")
    keys = proposed_keys(environment)
    return {
        "fps": float(rate) if isinstance(rate, int | float) and rate > 0 else None,
        "keys": [[sorted(names), action] for names, action in keys.items()],
    }
