"""Replay memory: transitions in arrays, sampled uniformly."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cleanrl_worker.kit import types
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.types import Array, StateDict

# The shape and the type of a row in each array of a memory.
Layout: TypeAlias = Mapping[str, tuple[tuple[int, ...], npt.DTypeLike | None]]


@dataclass(frozen=True)
class Batch:
    """Transitions as tensors, one a row."""

    obs: Tensor
    actions: Tensor
    next_obs: Tensor
    rewards: Tensor
    dones: Tensor
    """1 where the episode terminated; a truncated one continues in `next_obs`"""

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.obs, self.actions, self.next_obs, self.rewards, self.dones))


class ReplayBuffer:
    """The newest `size` transitions."""

    def __init__(self, size: int, envs: types.Batch, device: torch.device) -> None:
        obs_space, action_space = envs.single_observation_space, envs.single_action_space
        discrete = isinstance(action_space, gym.spaces.Discrete)
        assert action_space.shape is not None
        layout: Layout = {
            "obs": (obs_space.shape, obs_space.dtype),
            "next_obs": (obs_space.shape, obs_space.dtype),
            "actions": (
                (1,) if discrete else action_space.shape,
                np.int64 if discrete else "f4",
            ),
            "rewards": ((), "f4"),
            "dones": ((), "f4"),
        }
        refuse_if_larger_than_memory(size, layout)
        self.size = size
        self._device = device
        self._arrays = {
            name: np.zeros((size, *shape), dtype) for name, (shape, dtype) in layout.items()
        }
        self._next = 0
        self._full = False
        self._rows: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return self.size if self._full else self._next

    @property
    def ready(self) -> bool:
        """Whether there is anything to draw."""
        return self._full or self._next > 0

    def add(
        self,
        obs: np.ndarray,
        next_obs: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
    ) -> None:
        """Store one transition of each environment; the oldest make room."""
        arrays, count = self._arrays, len(rewards)
        if count == 1:
            where: int | Array = self._next
            obs, next_obs, actions = obs[0], next_obs[0], actions[0]
            rewards, terminated = rewards[0], terminated[0]
        else:
            where = (self._next + np.arange(count)) % self.size
            actions = actions.reshape(count, *arrays["actions"].shape[1:])
        arrays["obs"][where] = obs
        arrays["next_obs"][where] = next_obs
        arrays["actions"][where] = actions
        arrays["rewards"][where] = rewards
        arrays["dones"][where] = terminated
        self._next += count
        if self._next >= self.size:
            self._next -= self.size
            self._full = True

    def sample(self, batch_size: int, rng: np.random.Generator) -> Batch:
        """Draw transitions uniformly, with replacement.

        The tensors share memory with the previous batch of the same size: use a batch
        before drawing the next one.
        """
        rows = rng.integers(len(self), size=batch_size)
        return Batch(**{name: self._take(name, rows) for name in self._arrays})

    def _take(self, name: str, rows: np.ndarray) -> Tensor:
        array = self._arrays[name]
        out = self._rows.get(name)
        if out is None or len(out) != len(rows):
            out = self._rows[name] = np.empty((len(rows), *array.shape[1:]), array.dtype)
        # "clip" lets NumPy write straight into out; rows are in range anyway.
        np.take(array, rows, axis=0, out=out, mode="clip")
        tensor = torch.from_numpy(out)
        return tensor if self._device.type == "cpu" else tensor.to(self._device)

    def state_dict(self) -> StateDict:
        """What is stored, without the empty rest."""
        count = len(self)
        return {
            "next": self._next,
            "full": self._full,
            "arrays": {name: array[:count] for name, array in self._arrays.items()},
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Put the stored transitions back."""
        count = self.size if state["full"] else state["next"]
        saved = {name: tensor.numpy() for name, tensor in state["arrays"].items()}
        if len(saved["rewards"]) != count:
            raise UsageError(
                f"The checkpoint's replay memory has {len(saved['rewards'])} transitions and is "
                f"full; use --buffer-size {len(saved['rewards'])}."
            )
        for name, array in self._arrays.items():
            array[:count] = saved[name]
        self._next, self._full = int(state["next"]), bool(state["full"])


def refuse_if_larger_than_memory(size: int, layout: Layout, flag: str = "--buffer-size") -> None:
    """Refuse a memory that this machine cannot hold.

    Args:
        size: the number of rows.
        layout: the shape and type of a row in each array.
        flag: what sets the number of rows.

    Raises:
        UsageError: with the largest size that fits.
    """
    row = sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in layout.values())
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available = max(available, _reclaimable())
    if size * row > available:
        raise UsageError(
            f"{flag} {size} needs {size * row / 2**30:.1f} GiB of memory, and "
            f"{available / 2**30:.1f} GiB are free: use at most "
            f"{flag} {int(0.9 * available / row)}."
        )


def _reclaimable() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
