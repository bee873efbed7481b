"""What foreign scripts expect of older versions of JAX and Stable-Baselines3, on those of today.

Nothing of a script is changed, and our own scripts never see this.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from cleanrl_worker.foreign_scripts import when_imported

# Keywords that `jax.numpy.clip` had before NumPy 2 renamed its own.
_CLIP = {"a": "arr", "a_min": "min", "a_max": "max"}


def support() -> None:
    """Adapt the libraries when, and only if, the script imports them."""
    when_imported(("jax",), _adapt_trees)
    when_imported(("jax.numpy",), _adapt_clip)
    when_imported(("stable_baselines3.common.buffers",), _adapt_replay)
    when_imported(("flax.struct",), _adapt_dataclasses)
    when_imported(("pettingzoo.atari.base_atari_env",), _find_roms)


def _adapt_trees(module: ModuleType) -> None:
    """`jax.tree_map` is called `jax.tree.map` today."""
    setattr(module, "tree_map", module.tree.map)  # noqa: B010


def _adapt_clip(module: ModuleType) -> None:
    original: Callable[..., object] = module.clip

    @functools.wraps(original)
    def clip(*arguments: object, **options: object) -> object:
        return original(*arguments, **{_CLIP.get(key, key): val for key, val in options.items()})

    setattr(module, "clip", clip)  # noqa: B010


def _find_roms(module: ModuleType) -> None:
    """PettingZoo's games look for ROMs that ale-py brings today."""
    package = importlib.util.find_spec("ale_py")
    if package is None or package.origin is None:
        return
    where = str(Path(package.origin).parent / "roms")
    environment = module.ParallelAtariEnv
    original = environment.__init__

    @functools.wraps(original)
    def begin(self: object, *arguments: object, **options: object) -> None:
        options["auto_rom_install_path"] = options.get("auto_rom_install_path") or where
        original(self, *arguments, **options)

    environment.__init__ = begin


def _adapt_dataclasses(module: ModuleType) -> None:
    """Parameters may be a class of the script's own, which Flax now asks for names as a mapping."""
    original: Callable[..., object] = module.dataclass

    @functools.wraps(original)
    def dataclass(*arguments: object, **options: object) -> object:
        made = original(*arguments, **options)
        if isinstance(made, type) and not hasattr(made, "__contains__"):
            setattr(made, "__contains__", lambda _self, _name: False)  # noqa: B010
        return made

    setattr(module, "dataclass", dataclass)  # noqa: B010


def _adapt_replay(module: ModuleType) -> None:
    original: Any = module.ReplayBuffer

    class ReplayBuffer(original):  # type: ignore[misc]
        """Accepts the pair of options that the present one refuses; saving memory wins."""

        def __init__(self, *arguments: object, **options: object) -> None:
            if options.get("optimize_memory_usage"):
                options["handle_timeout_termination"] = False
            super().__init__(*arguments, **options)

    ReplayBuffer.__qualname__, ReplayBuffer.__module__ = original.__qualname__, original.__module__
    setattr(module, "ReplayBuffer", ReplayBuffer)  # noqa: B010
