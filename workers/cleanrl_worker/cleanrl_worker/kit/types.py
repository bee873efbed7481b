"""The shapes that the kit's parts hand to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import gymnasium as gym

# Tensors, arrays, numbers, text, and lists and dictionaries of them, nested at will. Each owner
# knows its own keys; a checkpoint only carries them.
StateDict: TypeAlias = dict[str, Any]
# An array whose element type depends on the environment.
Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.floating[Any]]
Env: TypeAlias = "gym.Env[Any, Any]"
Space: TypeAlias = "gym.Space[Any]"
# Return and length of an episode that ended.
EndedEpisode: TypeAlias = tuple[float, int]


class Stateful(Protocol):
    """Anything whose state can be saved and restored: networks, optimisers, environments."""

    def state_dict(self) -> StateDict: ...

    def load_state_dict(self, state: StateDict) -> object: ...


class Batch(Protocol):
    """Environments that are stepped together, of whatever library."""

    @property
    def num_envs(self) -> int: ...

    @property
    def single_observation_space(self) -> Space: ...

    @property
    def single_action_space(self) -> Space: ...
