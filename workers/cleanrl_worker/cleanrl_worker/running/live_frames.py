"""Live frames, when a run may be watched; see `cleanrl_worker.fastlane`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cleanrl_worker.fastlane import FrameTap


def _wanted() -> bool:
    return bool(os.environ.get("MOSAIC_RUN_ID")) and (
        os.environ.get("CLEANRL_FASTLANE_MODE", "off") != "off"
    )


def frame_tap(source: object, num_envs: int) -> FrameTap | None:
    """A tap that shows these environments, or None when no frames are wanted.

    Args:
        source: A list of environments, or anything with `render()`.
        num_envs: How many environments one step steps.
    """
    if not _wanted():
        return None
    from cleanrl_worker.fastlane import FrameTap

    return FrameTap(source, num_envs=num_envs)


@contextlib.contextmanager
def without_own_taps() -> Iterator[None]:
    """Build environments that are shown by one tap together, not each by its own."""
    if not _wanted():
        yield
        return
    from mosaic.fastlane.settings import untapped

    with untapped():
        yield
