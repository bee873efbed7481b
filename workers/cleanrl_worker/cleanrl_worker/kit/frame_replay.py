"""Replay memory for stacked frames that stores every frame once.

Each environment has a ring of frames in the order in which they came. A transition's
observation is the frames up to its own, its next observation the frames up to the one after.
Frames that no transition begins with (the first stack of a game, the last frame of a game)
are stored too, but never drawn.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.replay import Batch, Layout, refuse_if_larger_than_memory
from cleanrl_worker.kit.types import StateDict, StepInfo


class Stacked(Protocol):
    """What frames come from."""

    @property
    def num_envs(self) -> int: ...

    @property
    def single_observation_space(self) -> spaces.Box: ...


class FrameReplayBuffer:
    """The newest `size` frames of all environments together."""

    def __init__(self, size: int, envs: Stacked, device: torch.device) -> None:
        self._stack, *frame = envs.single_observation_space.shape
        self._envs = envs.num_envs
        self.size = size // self._envs
        # So many frames hold a transition with its stack and the frame after it, however short
        # the games are.
        least = 2 * self._stack + 1
        if self.size < least:
            raise UsageError(
                f"--buffer-size {size} is too small for {self._envs} environments with "
                f"{self._stack} frames each: use at least {self._envs * least}."
            )
        layout: Layout = {
            "frames": (tuple(frame), np.uint8),
            "actions": ((), np.int64),
            "rewards": ((), np.float32),
            "dones": ((), np.float32),
            "begins": ((), np.bool_),
        }
        refuse_if_larger_than_memory(size, layout)
        self._device = device
        self._arrays = {
            name: np.zeros((self._envs, self.size, *shape), dtype)
            for name, (shape, dtype) in layout.items()
        }
        self._next = np.zeros(self._envs, np.int64)
        self._count = np.zeros(self._envs, np.int64)
        self._new_game = np.ones(self._envs, np.bool_)

    def add(
        self,
        obs: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        info: StepInfo,
    ) -> None:
        """Store one transition of each environment.

        Args:
            obs: the stacks that were acted on.
            actions: what was done.
            rewards: what it gave.
            terminated: whether that ended the episode for learning.
            info: of the step; `ended` and `final_obs` where a game was over.
        """
        for env in range(self._envs):
            if self._new_game[env]:
                for frame in obs[env, :-1]:
                    self._push(env, frame)
            self._push(env, obs[env, -1], actions[env], rewards[env], terminated[env])
        self._new_game[:] = False
        if info:
            for env in np.flatnonzero(info["ended"]).tolist():
                self._push(env, info["final_obs"][env, -1])
                self._new_game[env] = True

    def _push(
        self,
        env: int,
        frame: np.ndarray,
        action: int | None = None,
        reward: float = 0.0,
        done: bool = False,
    ) -> None:
        arrays, where = self._arrays, self._next[env]
        arrays["frames"][env, where] = frame
        arrays["begins"][env, where] = action is not None
        arrays["actions"][env, where] = 0 if action is None else action
        arrays["rewards"][env, where] = reward
        arrays["dones"][env, where] = done
        self._next[env] = (where + 1) % self.size
        self._count[env] = min(self._count[env] + 1, self.size)

    @property
    def ready(self) -> bool:
        """Whether there is anything to draw from every environment."""
        return bool((self._count > self._stack).all())

    def sample(self, batch_size: int, rng: np.random.Generator) -> Batch:
        """Draw transitions uniformly, with replacement; only when `ready`."""
        envs, ages = self.draw(batch_size, rng)
        return self.gather(envs, ages)

    def draw(self, batch_size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw positions of transitions: the environment, and the age counted from the oldest.

        A transition needs the frames of its stack before it and one frame after it.
        """
        if not self.ready:
            # Trying again until something is found would never end.
            raise RuntimeError("Nothing can be drawn yet: the frame after the first is missing.")
        envs = rng.integers(self._envs, size=batch_size)
        ages = np.zeros(batch_size, np.int64)
        missing = np.ones(batch_size, np.bool_)
        while missing.any():
            count = self._count[envs[missing]]
            ages[missing] = rng.integers(self._stack - 1, np.maximum(count - 1, self._stack))
            rows = self._rows(envs, ages)
            missing = ~self._arrays["begins"][envs, rows] | (ages + 1 >= self._count[envs])
        return envs, ages

    def gather(self, envs: np.ndarray, ages: np.ndarray) -> Batch:
        """The transitions at drawn positions."""
        rows = self._rows(envs, ages)
        around = rows[:, None] + np.arange(1 - self._stack, 2)
        # Both stacks are views of the same frames, which travel to the device once.
        frames = self._tensor(self._arrays["frames"][envs[:, None], around % self.size])
        return Batch(
            obs=frames[:, :-1],
            next_obs=frames[:, 1:],
            actions=self._tensor(self._arrays["actions"][envs, rows][:, None]),
            rewards=self._tensor(self._arrays["rewards"][envs, rows]),
            dones=self._tensor(self._arrays["dones"][envs, rows]),
        )

    def _rows(self, envs: np.ndarray, ages: np.ndarray) -> np.ndarray:
        oldest = self._next[envs] - self._count[envs]
        rows: np.ndarray = (oldest + ages) % self.size
        return rows

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def state_dict(self) -> StateDict:
        """What is stored, without the empty rest."""
        filled = int(self._count.max())
        return {
            "next": self._next,
            "count": self._count,
            "new_game": self._new_game,
            "arrays": {name: array[:, :filled] for name, array in self._arrays.items()},
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Put the stored frames back."""
        filled = state["arrays"]["rewards"].shape[1]
        if filled > self.size or (filled < self.size and int(state["count"].max()) < filled):
            raise UsageError(
                f"The checkpoint's replay memory holds {filled * self._envs} frames; use "
                f"--buffer-size {filled * self._envs}."
            )
        for name, array in self._arrays.items():
            array[:, :filled] = state["arrays"][name].numpy()
        self._next = state["next"].numpy().copy()
        self._count = state["count"].numpy().copy()
        self._new_game = state["new_game"].numpy().copy()
