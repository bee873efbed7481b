"""Acting with a recurrent network, one step at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import nn

from cleanrl_worker.kit.inference import Forward, Policy, Thought, thought_of
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.types import StateDict


class Recurrent:
    """A recurrent network as a function from arrays to arrays that remembers each environment.

    Args:
        network: from `(observations, begins, state)` to its outputs and the new state, which comes
            last. `begins` is 1 where an episode begins and the past is forgotten.
        hidden: the width of the memory; `state` has the shape `(2, num_envs, hidden)`.
        num_envs: how many environments are remembered.
        device: where the network is.
    """

    def __init__(
        self, network: nn.Module, hidden: int, num_envs: int, device: torch.device
    ) -> None:
        self._network = network
        self._device = device
        self.state = torch.zeros(2, num_envs, hidden, device=device)
        self.begins = np.ones(num_envs, np.float32)

    def __call__(self, obs: np.ndarray) -> tuple[np.ndarray, ...]:
        """The outputs for the next step, which is remembered."""
        *outputs, self.state = self._forward(obs)
        self.begins = np.zeros_like(self.begins)
        return tuple(output.cpu().numpy() for output in outputs)

    def look(self, obs: np.ndarray) -> tuple[np.ndarray, ...]:
        """The outputs for what might come next; the memory stays as it is."""
        *outputs, _ = self._forward(obs)
        return tuple(output.cpu().numpy() for output in outputs)

    def reset(self, ended: np.ndarray) -> None:
        """Forget the past where an episode ended."""
        self.begins = np.maximum(self.begins, ended.astype(np.float32))

    @torch.no_grad()
    def _forward(self, obs: np.ndarray) -> tuple[torch.Tensor, ...]:
        rows = torch.from_numpy(obs).to(self._device)
        begins = torch.from_numpy(self.begins).to(self._device)
        outputs: tuple[torch.Tensor, ...] = self._network(rows, begins, self.state)
        return outputs

    def state_dict(self) -> StateDict:
        """What is remembered."""
        return {"state": self.state, "begins": self.begins}

    def load_state_dict(self, state: StateDict) -> None:
        """Remember it again."""
        self.state = state["state"].to(self._device)
        self.begins = state["begins"].numpy().copy()


class ArrayMemory:
    """A recurrent function of NumPy arrays that remembers each environment.

    Args:
        forward: from `(observations, begins, state)` to its outputs and the new state, which comes
            last.
        state: the state before anything was seen, `(parts, num_envs, hidden)`.
    """

    def __init__(
        self,
        forward: Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, ...]],
        state: np.ndarray,
    ) -> None:
        self._forward = forward
        self._state = state
        self._begins = np.ones(state.shape[1], np.float32)

    def __call__(self, obs: np.ndarray) -> tuple[np.ndarray, ...]:
        """The outputs for the next step, which is remembered."""
        *outputs, self._state = self._forward(obs, self._begins, self._state)
        self._begins = np.zeros_like(self._begins)
        return tuple(outputs)

    def reset(self, ended: np.ndarray) -> None:
        """Forget the past where an episode ended."""
        self._begins = np.maximum(self._begins, ended.astype(np.float32))


def actor_and_critic(
    memory: Callable[[np.ndarray], tuple[np.ndarray, ...]],
) -> tuple[Forward, Forward]:
    """Two functions of one that remembers: its first output, and the second of the same step.

    Asking the memory itself for the value would remember the step twice. So the second function
    answers for the step that the first one has made.

    Args:
        memory: from observations to logits and values of the next step.
    """
    made: tuple[np.ndarray, ...] = ()

    def actor(obs: np.ndarray) -> np.ndarray:
        nonlocal made
        made = memory(obs)
        return made[0]

    return actor, lambda _obs: made[1]


class Forgets(Protocol):
    """What can be told that episodes ended."""

    def reset(self, ended: np.ndarray) -> None:
        """Forget the past where an episode ended."""


class RecurrentPolicy:
    """A trained policy with a memory.

    Args:
        memory: remembers.
        policy: acts on what the memory's first output is.
    """

    def __init__(self, memory: Forgets, policy: Policy) -> None:
        self._policy = policy
        self.reset = memory.reset

    def __call__(self, obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray:
        return self._policy(obs, rng, deterministic)

    def thought(self) -> Thought | None:
        """What the policy considered in its last turn."""
        return thought_of(self._policy)
