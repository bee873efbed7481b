"""Taking a picture of an environment without the environment's user noticing."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from mosaic.fastlane import BadFrameError

RGB = "rgb_array"
# MuJoCo's free camera, and the name that Gymnasium's models give to the one that follows.
_STANDS_STILL, _FOLLOWS = -1, "track"
# What `render()` gave: pixels if all is well. `as_rgb` decides, and says what is wrong with it.
Picture: TypeAlias = object
Camera = Callable[[Sequence[int]], Sequence[Picture]]


class Bare(Protocol):
    """An environment without its wrappers; what else it can do is found out by asking."""

    render_mode: str | None

    def render(self) -> Picture: ...


class Drawable(Protocol):
    """An environment of any library, single or vectorised, as far as a camera needs it."""

    @property
    def unwrapped(self) -> Bare: ...


def prepare_rendering() -> None:
    """Keep the drawing library from changing the process it draws in.

    SDL, which most simple environments draw with, takes over SIGTERM when it has no handler, so
    that a run being watched could no longer be cancelled; and without a display it looks for one.
    """
    os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    if not has_display(os.environ):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("MUJOCO_GL", "egl")


def has_display(environment: Mapping[str, str]) -> bool:
    """Tell whether a window could be opened."""
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def photograph(env: Drawable) -> Picture:
    """Render one environment, single or vectorised, as pixels.

    The environment keeps the render mode its user asked for: the mode is changed only for the
    duration of the call. Some environments do more work in every step when they know that they
    will be rendered, and some scripts look at the mode.

    Raises:
        BadFrameError: The environment has no pixels to give.
    """
    # The bare environment: wrappers may collect, record or transform what `render` gives.
    base = env.unwrapped
    follow_what_moves(base)
    asked = getattr(base, "render_mode", None)
    if asked == RGB:
        return _some(base.render(), base)
    offered = (getattr(base, "metadata", None) or {}).get("render_modes") or ()
    if RGB not in offered:
        raise BadFrameError(
            f"{_name(base)} cannot be shown: it has no render mode {RGB!r} "
            f"(it offers: {', '.join(map(str, offered)) or 'none'})"
        )
    # It would answer with its window's own loop, and drawing twice confuses most libraries.
    if asked == "human":
        raise BadFrameError(f"{_name(base)} already has a window of its own (render_mode='human')")
    try:
        base.render_mode = RGB
    except AttributeError:
        raise BadFrameError(
            f"{_name(base)} cannot be shown: its render mode cannot be changed; "
            f"build it with render_mode={RGB!r}"
        ) from None
    try:
        return _some(base.render(), base)
    finally:
        base.render_mode = asked


def follow_what_moves(base: object) -> None:
    """Let the camera of a MuJoCo environment follow the body, where its model has such a camera.

    Gymnasium looks from a place that stands still unless a camera is asked for: whatever runs has
    left the picture after a second. A camera that was asked for is left alone.
    """
    renderer = getattr(base, "mujoco_renderer", None)
    model = getattr(renderer, "model", None)
    if model is None or getattr(renderer, "camera_id", None) != _STANDS_STILL:
        return
    names = [model.camera(number).name for number in range(model.ncam)]
    if _FOLLOWS in names:
        setattr(renderer, "camera_id", names.index(_FOLLOWS))  # noqa: B010


def camera_for(source: Any) -> Camera:
    """Return a camera for whatever a tap was given.

    Args:
        source: A list of environments; an environment or vector environment; anything else
            with a `render()` method; or a function that returns a picture or several.
    """
    if isinstance(source, list | tuple):
        return lambda wanted: [photograph(source[number]) for number in wanted]
    if hasattr(source, "unwrapped"):
        return lambda wanted: select(photograph(source), wanted)
    shoot = source.render if hasattr(source, "render") else source
    return lambda wanted: select(shoot(), wanted)


def select(pictures: Any, wanted: Sequence[int]) -> Sequence[Picture]:
    """Pick the wanted pictures out of one picture, or of one for each environment."""
    if pictures is None:
        raise BadFrameError("render() gave nothing")
    if isinstance(pictures, list | tuple) or getattr(pictures, "ndim", 0) == 4:
        return [pictures[number] for number in wanted if number < len(pictures)]
    return [pictures]


def _some(pictures: Picture, base: object) -> Picture:
    if pictures is None:
        raise BadFrameError(f"{_name(base)} cannot be shown: its render() gave nothing")
    return pictures


def _name(base: object) -> str:
    spec = getattr(base, "spec", None)
    return str(getattr(spec, "id", None) or type(base).__name__)
