"""Pictures for simulations that keep only numbers, drawn by the Gymnasium environment they copy."""

from collections.abc import Callable
from typing import Any

from mosaic.fastlane.cameras import RGB, Picture
from mosaic.fastlane.settings import untapped


def render_from_state(env_id: str, read_state: Callable[[], object]) -> Callable[[], Picture]:
    """Return a function that draws a state as a Gymnasium environment would.

    For vectorised simulations of classic control that have no pictures of their own. The
    Gymnasium environment is built when the first picture is taken, never for an unwatched run.

    Args:
        env_id: An environment whose unwrapped object draws its attribute `state`.
        read_state: Gives the state to draw, or None while there is none.
    """
    # An environment whose class has `state`, which Gymnasium's own type does not.
    built: list[Any] = []

    def shoot() -> Picture:
        if not built:
            import gymnasium as gym

            with untapped():
                built.append(gym.make(env_id, render_mode=RGB).unwrapped)
            built[0].reset(seed=0)
        built[0].state = read_state()
        return built[0].render()

    return shoot
