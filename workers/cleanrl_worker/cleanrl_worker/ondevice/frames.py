"""Pictures of environments on the device, taken only while someone watches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cleanrl_worker.kit.jax_backend import jax
from cleanrl_worker.ondevice.batch import DeviceEnvs, Games
from cleanrl_worker.running import live_frames

if TYPE_CHECKING:
    from cleanrl_worker.fastlane import FrameTap

# More than a grid of live views ever shows.
_MOST_SHOWN = 64


class _View:
    """One environment of the batch, as far as a camera needs it."""

    render_mode = "rgb_array"

    def __init__(self, shoot: Callable[[], object]) -> None:
        self.render = shoot

    @property
    def unwrapped(self) -> _View:
        """Itself."""
        return self


def frame_tap(envs: DeviceEnvs, games: Callable[[], Games]) -> FrameTap | None:
    """A tap that shows the first environments, or None when no frames are wanted.

    Args:
        envs: The environments.
        games: Where they are now; asked for when a picture is taken, never before.
    """
    if not envs.env.twin and not envs.env.draws:
        return None
    shown = min(envs.num_envs, _MOST_SHOWN)
    views = [_View(_shooter(envs, partial(_state_of, envs, games, i))) for i in range(shown)]
    return live_frames.frame_tap(views, shown)


def _shooter(envs: DeviceEnvs, read_state: Callable[[], object]) -> Callable[[], object]:
    if envs.env.draws:
        return lambda: envs.env.draw(read_state())
    from cleanrl_worker.fastlane import render_from_state

    return render_from_state(envs.env.twin, read_state, envs.env.pose)


def _state_of(envs: DeviceEnvs, games: Callable[[], Games], index: int) -> object:
    # Twins compute in 64 bits; what draws itself knows its own types.
    kind = None if envs.env.draws else np.float64
    state: object = jax.tree.map(lambda part: np.asarray(part[index], kind), games().states)
    return state
