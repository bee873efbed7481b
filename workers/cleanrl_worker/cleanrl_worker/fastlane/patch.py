"""Puts a tap on every environment that `gymnasium.make` and `make_vec` build."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.envs import registration
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from cleanrl_worker.fastlane.cameras import RGB
from cleanrl_worker.fastlane.settings import Settings, is_tapping, read_settings, say_once
from cleanrl_worker.fastlane.wrappers import FastLaneVectorWrapper, FastLaneWrapper

# What `make` puts around the order-enforcing wrapper, whose place the tap takes: the outermost
# object keeps the type that the script expects.
_ABOVE_THE_TAP = (
    gym.wrappers.HumanRendering,
    gym.wrappers.RenderCollection,
    gym.wrappers.TimeLimit,
)


def patch_gymnasium() -> None:
    """Make `gymnasium.make` and `make_vec` tap what they build; once is enough."""
    if getattr(registration.make, "fastlane", False):
        return
    make, make_vec = _tapping_make(registration.make), _tapping_make_vec(registration.make_vec)
    for module in (registration, gym):
        module.make, module.make_vec = make, make_vec


def _tapping_make(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make(id: Any, *positional: Any, **options: Any) -> Any:
        settings = read_settings() if is_tapping() else None
        if settings is None:
            return original(id, *positional, **options)
        hidden = _hide_render_mode(id, "entry_point", options)
        env = original(id, *positional, **options)
        if hidden:
            _restore_render_mode(env)
        return _insert_tap(env, settings)

    make.fastlane = True  # type: ignore[attr-defined]
    return make


def _tapping_make_vec(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make_vec(
        id: Any, num_envs: int = 1, vectorization_mode: Any = None, *rest: Any, **options: Any
    ) -> Any:
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

    make_vec.fastlane = True  # type: ignore[attr-defined]
    return make_vec


def _hide_render_mode(id: Any, entry: str, options: dict[str, Any]) -> bool:
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


def _find_spec(id: Any) -> Any:
    if not isinstance(id, str):
        return id
    module, _, name = id.rpartition(":")
    if module:
        importlib.import_module(module)
    return registration.registry.get(name)


def _restore_render_mode(env: Any) -> None:
    """Let the environment look as it was asked for; the camera changes the mode for a moment."""
    base = env.unwrapped
    try:
        base.render_mode = None
    except AttributeError:
        say_once(f"{type(base).__name__} keeps the render mode {RGB!r}: it cannot be changed")
        return
    if base.spec is not None:
        base.spec.kwargs.pop("render_mode", None)


def _insert_tap(env: Any, settings: Settings) -> Any:
    above, inner = None, env
    while type(inner) in _ABOVE_THE_TAP:
        above, inner = inner, inner.env
    if type(inner) is gym.wrappers.OrderEnforcing:
        tap = FastLaneWrapper(inner.env, settings, enforces_order=True)
    else:
        tap = FastLaneWrapper(inner, settings)
    if above is None:
        return tap
    above.env = tap
    return env
