"""Whether environments that are being built get a tap."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_tapping: ContextVar[bool] = ContextVar("fastlane_tapping", default=True)


def is_tapping() -> bool:
    """Tell whether environments built here and now are to be shown."""
    return _tapping.get()


@contextmanager
def untapped() -> Iterator[None]:
    """Within this context environments are built without a tap."""
    token = _tapping.set(False)
    try:
        yield
    finally:
        _tapping.reset(token)
