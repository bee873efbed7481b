"""What the critics of a policy file expect of the actions that its policy takes.

For people who look into an episode. Nothing here takes part in learning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from cleanrl_worker.kit.inference import ActionValue
from cleanrl_worker.kit.types import StateDict

TWO_CRITICS = ("qf1", "qf2")


def torch_judge(
    make: Callable[[], nn.Module],
    model: Mapping[str, Any],
    within: spaces.Box,
    names: Sequence[str] = TWO_CRITICS,
) -> ActionValue | None:
    """min_i Q_i(s, a) for arrays; None for a file of an earlier release, which has no critics.

    Args:
        make: An untrained critic.
        model: What the policy file holds.
        within: The action space.
        names: What the critics are called in the file.
    """
    if not set(names) <= model.keys():
        return None
    critics = [make() for _ in names]
    for critic, name in zip(critics, names, strict=True):
        critic.load_state_dict(model[name])

    @torch.no_grad()
    def value_of(obs: np.ndarray, actions: np.ndarray) -> np.ndarray:
        # The environment gets no action beyond its bounds, and critics were shown none.
        rows = torch.from_numpy(obs), torch.from_numpy(actions.clip(within.low, within.high))
        value: np.ndarray = torch.stack([critic(*rows) for critic in critics]).amin(dim=0).numpy()
        return value

    return value_of


def both_critics(init: Callable[[Any], Any], saved: StateDict | None) -> list[Any] | None:
    """The parameters of two critics in JAX; None for a file without them.

    Args:
        init: Makes the parameters of one critic from a random key; gives the structure.
        saved: What `Tree.state_dict` gave of both.
    """
    if saved is None:
        return None
    # Here: the files in torch have no use for JAX.
    from cleanrl_worker.kit.jax_backend import trained

    critics = trained(lambda key: dict.fromkeys(TWO_CRITICS, init(key)), saved)
    return list(critics.values())


def jax_judge(
    critics: Sequence[Any] | None,
    value_of: Callable[[Any, np.ndarray, np.ndarray], np.ndarray],
    within: spaces.Box,
) -> ActionValue | None:
    """What `torch_judge` returns, for critics in JAX, computed with NumPy.

    Args:
        critics: The parameters of each.
        value_of: From those, observations and actions to the value.
        within: The action space.
    """
    if critics is None:
        return None

    def smallest(obs: np.ndarray, actions: np.ndarray) -> np.ndarray:
        taken = actions.clip(within.low, within.high)
        value: np.ndarray = np.min([value_of(critic, obs, taken) for critic in critics], axis=0)
        return value

    return smallest


class Shown:
    """A part of a training state in JAX that the policy file shows and another object saves.

    Args:
        part: Returns it, as it is now.
    """

    def __init__(self, part: Callable[[], Any]) -> None:
        self._part = part

    def state_dict(self) -> StateDict:
        """Every array under its path."""
        from cleanrl_worker.kit.jax_backend import Tree

        return Tree(self._part()).state_dict()

    def load_state_dict(self, state: StateDict) -> None:
        """Nothing: it is restored with the object that saves it."""
