"""Waits for Gymnasium to be imported and only then patches it.

Loaded in every interpreter of a run, also in helpers such as multiprocessing's resource tracker,
so it imports nothing itself and opens nothing.
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def install() -> None:
    """Tap the environments that this process builds from now on with Gymnasium."""
    if "gymnasium" in sys.modules:
        _patch()
    elif not any(type(finder).__name__ == _GymnasiumFinder.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, _GymnasiumFinder())


def _patch() -> None:
    try:
        from cleanrl_worker.fastlane.patch import patch_gymnasium

        patch_gymnasium()
    except Exception as error:
        # An interpreter without this package, or with another Gymnasium, still has to train.
        print(f"[fastlane] no live frames: {error!r}", file=sys.stderr, flush=True)


class _GymnasiumFinder:
    """Finds Gymnasium where the other finders do, and patches it once it has been executed."""

    def find_spec(
        self,
        name: str,
        path: "Sequence[str] | None" = None,
        target: "ModuleType | None" = None,
    ) -> "ModuleSpec | None":
        if name != "gymnasium":
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    setattr(spec, "loader", _PatchingLoader(spec.loader))  # noqa: B010
                return spec
        return None


class _PatchingLoader:
    """The real loader, with one thing to do after it."""

    def __init__(self, loader: "Loader") -> None:
        self._loader = loader

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        return self._loader.create_module(spec)

    def exec_module(self, module: "ModuleType") -> None:
        # Before the module runs: code of Gymnasium that looks at its loader sees the real one.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _patch()

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)
