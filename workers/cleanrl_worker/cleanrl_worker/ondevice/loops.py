"""Loops inside a compiled program."""

from __future__ import annotations

from cleanrl_worker.kit.jax_backend import jax

_ON_A_GPU = 32


def unroll() -> int:
    """How many turns of a loop are compiled as one.

    Each turn of a GPU's loop waits for the one before and for its own launches; with 32 of them in
    one an H200 trains up to twice as fast. A CPU has no launches to save, and compiles longer.
    """
    return 1 if jax.default_backend() == "cpu" else _ON_A_GPU
