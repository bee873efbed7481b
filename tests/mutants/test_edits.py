"""Every small edit of an algorithm file is noticed, or there is a reason why it changes nothing."""

from __future__ import annotations

import json

import pytest

from cleanrl_worker.running.schema import script_names
from mutants.catalog import all_harmless, checks_of, reason_for
from mutants.edits import Edit, edits, noticed
from mutants.harmless import Harmless
from mutants.prove import RESULT
from mutants.subject import original

EDITS = [edit for edit in edits("cleanrl/dqn.py") if reason_for(edit) is None]


@pytest.mark.parametrize("edit", EDITS, ids=str)
def test_no_edit_of_dqn_survives(edit: Edit) -> None:
    """Whatever small thing is changed in the file, a check notices it; `make prove` changes all the
    other files in the same way."""
    assert noticed(edit, checks_of(edit.file)) is not None


TRIED = json.loads(RESULT.read_text(encoding="utf-8"))["edits"]


@pytest.mark.parametrize("algorithm", sorted(TRIED))
def test_no_edit_of_a_file_survived(algorithm: str) -> None:
    """Where `make prove` has tried all edits of a file, no place was left where a mistake would go
    unnoticed."""
    assert TRIED[algorithm]["edits"] > TRIED[algorithm]["harmless"]
    assert TRIED[algorithm]["survivors"] == []


@pytest.mark.parametrize("kind", all_harmless(), ids=lambda kind: kind.line.strip())
def test_what_is_called_harmless_is_there(kind: Harmless) -> None:
    """A reason why an edit needs no check belongs to a line that a file has today."""
    files = kind.files or script_names()
    assert any(kind.line in original(f"cleanrl/{file}.py").source for file in files)
