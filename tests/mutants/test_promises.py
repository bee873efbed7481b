"""What each check computes independently is what the file as it is computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutants.catalog import all_mutants, promises
from mutants.subject import Check, original

PROMISES = promises([mutant for mutant in all_mutants() if not mutant.slow])


@pytest.mark.parametrize(
    ("file", "check"), PROMISES, ids=[f"{Path(file).stem}-{c.__name__}" for file, c in PROMISES]
)
def test_the_file_keeps_its_promise(file: str, check: Check) -> None:
    """The promise is the check's own docstring."""
    check(original(file))
