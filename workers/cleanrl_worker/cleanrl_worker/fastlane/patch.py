"""Puts a tap on every environment that `gymnasium.make` and `make_vec` build."""

import functools
import importlib
from collections.abc import Callable

import gymnasium as gym
from gymnasium.envs import registration
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from cleanrl_worker.fastlane.wrappers import (
    Batch,
    Env,
    FastLaneVectorWrapper,
    FastLaneWrapper,
    Wrapper,
)
from mosaic.fastlane.cameras import RGB
from mosaic.fastlane.settings import Settings, is_tapping, read_settings, say_once

# What `make` puts around the order-enforcing wrapper, whose place the tap takes: the outermost
# object keeps the type that the script expects.
_ABOVE_THE_TAP = (
    gym.wrappers.HumanRendering,
    gym.wrappers.RenderCollection,
    gym.wrappers.TimeLimit,
)


def patch_gymnasium() -> None:
    """Make `gymnasium.make` and `make_vec` tap what they build; once is enough."""
    # `sitecustomize` and the launcher may both ask for it in one process.
    if getattr(registration.make, "fastlane", False):
        return
    make, make_vec = _tapping_make(registration.make), _tapping_make_vec(registration.make_vec)
    for module in (registration, gym):
        # As attributes of the modules: `gym.make` of a script is looked up when it is called.
        setattr(module, "make", make)  # noqa: B010
        setattr(module, "make_vec", make_vec)  # noqa: B010


def _tapping_make(original: Callable[..., Env]) -> Callable[..., Env]:
    @functools.wraps(original)
    def make(id: str | EnvSpec, *positional: object, **options: object) -> Env:
        settings = read_settings() if is_tapping() else None
        if settings is None:
            return original(id, *positional, **options)
        # Some environments decide when they are built whether they can draw: afterwards it is too
        # late to ask.
        hidden = _hide_render_mode(id, "entry_point", options)
        env = original(id, *positional, **options)
        if hidden:
            _restore_render_mode(env)
        return _insert_tap(env, settings)

    setattr(make, "fastlane", True)  # noqa: B010
    return make


def _tapping_make_vec(original: Callable[..., Batch]) -> Callable[..., Batch]:
    @functools.wraps(original)
    def make_vec(
        id: str | EnvSpec,
        num_envs: int = 1,
        vectorization_mode: object = None,
        *rest: object,
        **options: object,
    ) -> Batch:
        settings = read_settings() if is_tapping() else None
        native = getattr(vectorization_mode, "value", vectorization_mode) in (
            None,
            registration.VectorizeMode.VECTOR_ENTRY_POINT.value,
        )
        hidden = settings and native and _hide_render_mode(id, "vector_entry_point", options)
        env = original(id, num_envs, vectorization_mode, *rest, **options)
        if hidden:
            _restore_render_mode(env)
        # The environments inside these were built, and tapped, one by one.
        if settings is None or isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv):
            return env
        return FastLaneVectorWrapper(env, settings)

    setattr(make_vec, "fastlane", True)  # noqa: B010
    return make_vec


def _hide_render_mode(id: str | EnvSpec, entry: str, options: dict[str, object]) -> bool:
    """Ask for pixels on the script's behalf if it asked for no rendering and they can be had.

    Returns:
        Whether the option was added.
    """
    if options.get("render_mode") is not None:
        return False
    try:
        spec = _find_spec(id)
        if spec is None or spec.kwargs.get("render_mode") is not None:
            return False
        creator = getattr(spec, entry)
        if isinstance(creator, str):
            creator = registration.load_env_creator(creator)
        offered = creator.metadata["render_modes"]
    except Exception:
        # Whatever is wrong with this id, `make` itself is about to say it better.
        return False
    if RGB not in offered:
        return False
    options["render_mode"] = RGB
    return True


def _find_spec(id: str | EnvSpec) -> EnvSpec | None:
    if not isinstance(id, str):
        return id
    module, _, name = id.rpartition(":")
    if module:
        importlib.import_module(module)
    return registration.registry.get(name)


def _restore_render_mode(env: Env | Batch) -> None:
    """Let the environment look as it was asked for; the camera changes the mode for a moment."""
    base = env.unwrapped
    try:
        base.render_mode = None
    except AttributeError:
        say_once(f"{type(base).__name__} keeps the render mode {RGB!r}: it cannot be changed")
        return
    if base.spec is not None:
        base.spec.kwargs.pop("render_mode", None)


def _insert_tap(env: Env, settings: Settings) -> Env:
    above: Wrapper | None = None
    inner = env
    while isinstance(inner, gym.Wrapper) and type(inner) in _ABOVE_THE_TAP:
        above, inner = inner, inner.env
    # Exactly this class: a script's own subclass may do more, and stays.
    if type(inner) is gym.wrappers.OrderEnforcing:
        tap = FastLaneWrapper(inner.env, settings, enforces_order=True)
    else:
        tap = FastLaneWrapper(inner, settings)
    if above is None:
        return tap
    above.env = tap
    return env
