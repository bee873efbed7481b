"""The Python SDK: what the command line and the window are built on."""

from typing import TYPE_CHECKING

from mosaic.client.sdk import TrainerClient

if TYPE_CHECKING:
    from mosaic.client.asynchronous import AsyncTrainerClient

__all__ = ["AsyncTrainerClient", "TrainerClient"]


def __getattr__(name: str) -> object:
    """`AsyncTrainerClient`, loaded when it is asked for: commands need no event loop."""
    if name != "AsyncTrainerClient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mosaic.client.asynchronous import AsyncTrainerClient

    return AsyncTrainerClient
