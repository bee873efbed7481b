"""Mutants train in this process, hundreds of times: each leaves its memory behind at once."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _memory_is_returned() -> Iterator[None]:
    """Collect what a training run has kept; a run freezes the collector to be quicker."""
    yield
    gc.unfreeze()
    gc.collect()
