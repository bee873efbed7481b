"""The shapes that the kit's parts hand to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypedDict

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


class StepInfo(TypedDict, total=False):
    """What a step of a batch says besides; empty unless an episode ended in it."""

    final_obs: Array
    """like the observations, but with the true last one where an episode ended"""
    episodes: list[EndedEpisode]
    ended: Array
    """where a whole game was over, not just a life"""
    players: dict[str, float]
    """what each player of a game for several reached, by the name of its curve"""


StepResult: TypeAlias = tuple[Array, Array, Array, Array, StepInfo]


class Stateful(Protocol):
    """Anything whose state can be saved and restored: networks, optimisers, environments."""

    def state_dict(self) -> StateDict: ...

    def load_state_dict(self, state: StateDict) -> object: ...


class Batch(Protocol):
    """Environments that are stepped together, of whatever library."""

    @property
    def num_envs(self) -> int: ...

    @property
    def single_observation_space(self) -> gym.spaces.Box: ...

    @property
    def single_action_space(self) -> Space: ...


class Environments(Batch, Stateful, Protocol):
    """A batch that can be played in: Gymnasium's, Atari's, EnvPool's, or one around them."""

    @property
    def obs(self) -> Array: ...

    def reset(self, seed: int) -> Array: ...

    def step(self, actions: Array) -> StepResult: ...

    def restart(self, index: int) -> Array: ...

    def close(self) -> None: ...
