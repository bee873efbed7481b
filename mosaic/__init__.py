"""MOSAIC: a workbench for reinforcement learning whose runs cannot be lost."""

__version__ = "0.1.0"
