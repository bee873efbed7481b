"""What an environment must offer to be compiled together with the algorithm that acts in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

from cleanrl_worker.kit.types import Array, Env, Space

if TYPE_CHECKING:
    import jax
    import numpy as np

# An array of JAX, or what stands for one while a function is traced.
Traced: TypeAlias = "jax.Array"
# Whether something is so. JAX's types call `jnp.bool_(False)` a number of NumPy.
Flag: TypeAlias = "jax.Array | np.bool"
# Where an environment is: a pytree of arrays whose structure never changes.
State: TypeAlias = Any


class Transition(NamedTuple):
    """What one step of one environment leads to."""

    state: State
    obs: Traced
    reward: Traced
    terminated: Flag
    truncated: Flag


class _Drawn(Protocol):
    """Classic control, which keeps all that it draws in one attribute."""

    state: object


class DeviceEnv(ABC):
    """One environment in JAX, without anything that changes in place.

    Its functions are traced once and run as compiled code: they must not branch on the values of
    arrays (use `jnp.where`), and all their randomness comes from the key they are given.

    Attributes:
        observation_space: The space of one observation.
        action_space: The space of one action.
        time_limit: After how many steps an episode is cut off; None when the environment itself
            says so.
        twin: The Gymnasium environment that draws a state and plays evaluations. Without one,
            evaluations step this environment itself.
        draws: Whether it has pictures of its own, see `draw`.
        large: Whether a step is a large program, as a physics engine is. Loops over its steps are
            not unrolled: that would compile for minutes and save nothing.
    """

    observation_space: Space
    action_space: Space
    time_limit: int | None = None
    twin: str = ""
    draws: bool = False
    large: bool = False

    @abstractmethod
    def reset(self, key: Traced) -> tuple[State, Traced]:
        """Begin an episode; returns the state and the first observation."""

    @abstractmethod
    def step(self, state: State, action: Traced, key: Traced) -> Transition:
        """Take one step. An episode that ended is not begun again here."""

    def pose(self, twin: Env, state: State) -> None:
        """Put the twin into a state, of which it then draws a picture."""
        cast(_Drawn, twin).state = state

    def draw(self, state: State) -> Array:
        """A picture of a state, height x width x 3 bytes; asked for only where `draws` is true."""
        raise NotImplementedError(f"{type(self).__name__} says that it draws, but has no draw()")
