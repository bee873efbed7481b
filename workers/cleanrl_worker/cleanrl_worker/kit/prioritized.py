"""Prioritized replay (Schaul et al., 2016) with returns over several steps, for stacked frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.frame_replay import FrameReplayBuffer, Stacked
from cleanrl_worker.kit.replay import Batch
from cleanrl_worker.kit.types import StateDict


class SumTree:
    """Numbers whose running sums can be searched quickly, many at once."""

    def __init__(self, size: int) -> None:
        self._leaves = 1 << max(size - 1, 1).bit_length()
        self._nodes = np.zeros(2 * self._leaves)
        self.size = size

    @property
    def total(self) -> float:
        """The sum of all numbers."""
        return float(self._nodes[1])

    @property
    def values(self) -> np.ndarray:
        """The numbers themselves."""
        return self._nodes[self._leaves : self._leaves + self.size]

    def set(self, rows: np.ndarray, numbers: np.ndarray | float) -> None:
        """Change some numbers and all sums they are part of."""
        nodes = np.asarray(rows) + self._leaves
        self._nodes[nodes] = numbers
        while nodes[0] > 1:
            # Rows with a common parent sum it twice, which costs less than finding out.
            nodes = nodes // 2
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def find(self, sums: np.ndarray) -> np.ndarray:
        """For each number, the row at which the running sum passes it."""
        nodes = np.ones(len(sums), np.int64)
        left = sums.copy()
        while nodes[0] < self._leaves:
            nodes = 2 * nodes
            go_right = left >= self._nodes[nodes]
            left = np.where(go_right, left - self._nodes[nodes], left)
            nodes += go_right
        return np.minimum(nodes - self._leaves, self.size - 1)


@dataclass(frozen=True)
class PrioritizedBatch(Batch):
    """Transitions over several steps, with what correcting for their priority needs."""

    steps: Tensor
    """how many steps lie between `obs` and `next_obs`: fewer where an episode ended before"""
    chances: Tensor
    """how likely each transition was to be drawn"""
    rows: np.ndarray
    """where the transitions are, to update their priorities"""


class PrioritizedFrameReplay(FrameReplayBuffer):
    """Frames of one environment, drawn in proportion to priorities.

    A new transition has the largest priority there is, so that each is learned from soon.

    Args:
        size: the number of frames.
        envs: one environment with stacked frames.
        device: where batches go.
        n_step: how many steps a transition spans; `rewards` of a batch has a column for each.
    """

    def __init__(self, size: int, envs: Stacked, device: torch.device, *, n_step: int) -> None:
        if envs.num_envs != 1:
            raise UsageError("Prioritized replay holds one environment: use --num-envs 1.")
        super().__init__(size, envs, device)
        self._n_step = n_step
        self._tree = SumTree(self.size)
        self._largest = 1.0

    @property
    def ready(self) -> bool:
        """Whether there is anything to draw."""
        return self._tree.total > 0

    def _push(
        self,
        env: int,
        frame: np.ndarray,
        action: int | None = None,
        reward: float = 0.0,
        done: bool = False,
    ) -> None:
        where = int(self._next[env])
        super()._push(env, frame, action, reward, done)
        # The transition written now has no next frame yet, and those after the write position are
        # about to lose the frames of their stack.
        rows = (where + np.arange(self._stack)) % self.size
        priorities = np.zeros(len(rows))
        # A transition can be drawn once the steps after it are there.
        ready = (where - self._n_step) % self.size
        age = self._count[0] - 1 - self._n_step
        if age >= self._stack - 1 and self._arrays["begins"][0, ready]:
            rows, priorities = np.append(rows, ready), np.append(priorities, self._largest)
        self._tree.set(rows, priorities)

    def sample(self, batch_size: int, rng: np.random.Generator) -> PrioritizedBatch:
        """Draw transitions, one from each of `batch_size` equal shares of the priorities."""
        share = self._tree.total / batch_size
        rows = self._tree.find((np.arange(batch_size) + rng.random(batch_size)) * share)
        # Rounding may lead to a neighbour that cannot be drawn.
        stray = self._tree.values[rows] <= 0
        if stray.any():
            rows[stray] = self._tree.values.argmax()
        return self._n_step_batch(rows, self._tree.values[rows] / self._tree.total)

    def update_priorities(self, rows: np.ndarray, priorities: np.ndarray) -> None:
        """Change the priorities of drawn transitions; those overwritten since stay out."""
        alive = self._tree.values[rows] > 0
        self._largest = max(self._largest, float(priorities.max()))
        if alive.any():
            self._tree.set(rows[alive], priorities[alive])

    def _n_step_batch(self, rows: np.ndarray, chances: np.ndarray) -> PrioritizedBatch:
        arrays = {name: array[0] for name, array in self._arrays.items()}
        rewards = np.zeros((len(rows), self._n_step), np.float32)
        steps = np.zeros(len(rows), np.int64)
        dones = np.zeros(len(rows), np.float32)
        going = np.ones(len(rows), np.bool_)
        last = rows.copy()
        for k in range(self._n_step):
            rewards[:, k] = np.where(going, arrays["rewards"][last], 0)
            dones = np.where(going, arrays["dones"][last], dones)
            steps += going
            last = np.where(going, (last + 1) % self.size, last)
            # An episode that is over, or a game whose last frame was reached, ends the sum.
            going &= (dones == 0) & arrays["begins"][last]
        stack = np.arange(1 - self._stack, 1)
        return PrioritizedBatch(
            obs=self._tensor(arrays["frames"][(rows[:, None] + stack) % self.size]),
            next_obs=self._tensor(arrays["frames"][(last[:, None] + stack) % self.size]),
            actions=self._tensor(arrays["actions"][rows][:, None]),
            rewards=self._tensor(rewards),
            dones=self._tensor(dones),
            steps=self._tensor(steps),
            chances=self._tensor(chances.astype(np.float32)),
            rows=rows,
        )

    def state_dict(self) -> StateDict:
        """Frames and priorities."""
        filled = int(self._count.max())
        return {
            **super().state_dict(),
            "priorities": self._tree.values[:filled],
            "largest": self._largest,
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Put frames and priorities back."""
        super().load_state_dict(state)
        priorities = state["priorities"].numpy()
        self._tree.set(np.arange(len(priorities)), priorities)
        self._largest = float(state["largest"])
