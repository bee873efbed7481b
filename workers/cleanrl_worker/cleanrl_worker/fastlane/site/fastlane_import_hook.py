"""Waits for Gymnasium to be imported and only then patches it.

Loaded in every interpreter of a run, also in helpers such as multiprocessing's resource tracker,
so it imports nothing itself and opens nothing.
"""

import sys
from typing import Any


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

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "gymnasium":
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _PatchingLoader(spec.loader)
                return spec
        return None


class _PatchingLoader:
    """The real loader, with one thing to do after it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _patch()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
