"""Mutants train in this process, hundreds of times: each leaves its memory behind at once."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _memory_is_returned() -> Iterator[None]:
    """Collect what a trial has kept.

    What outlives it, such as imported libraries, is not looked through again: with torch and JAX
    loaded that takes longer than most trials.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _others_collect_as_usual() -> Iterator[None]:
    """The tests after these find the collector as it was."""
    yield
    gc.unfreeze()
