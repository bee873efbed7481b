"""Pictures for simulations that keep only numbers, drawn by the Gymnasium environment they copy."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from mosaic.fastlane.cameras import RGB, Picture
from mosaic.fastlane.settings import untapped

if TYPE_CHECKING:
    import gymnasium as gym

Env: TypeAlias = "gym.Env[object, object]"


class _Drawn(Protocol):
    state: object


def set_state(env: Env, state: object) -> None:
    """Classic control keeps all that it draws in one attribute."""
    cast(_Drawn, env).state = state


def render_from_state(
    env_id: str, read_state: Callable[[], object], pose: Callable[[Env, object], None] = set_state
) -> Callable[[], Picture]:
    """Return a function that draws a state as a Gymnasium environment would.

    For vectorised simulations that have no pictures of their own. The
    Gymnasium environment is built when the first picture is taken, never for an unwatched run.

    Args:
        env_id: The environment that draws.
        read_state: Gives the state to draw, or None while there is none.
        pose: Puts the unwrapped environment into that state; classic control draws its attribute
            `state`.
    """
    built: list[Env] = []

    def shoot() -> Picture:
        if not built:
            import gymnasium as gym

            with untapped():
                built.append(gym.make(env_id, render_mode=RGB).unwrapped)
            built[0].reset(seed=0)
        pose(built[0], read_state())
        return built[0].render()

    return shoot
