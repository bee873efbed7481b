"""The Python SDK: what the command line and the window are built on."""

from mosaic.client.sdk import TrainerClient

__all__ = ["TrainerClient"]
