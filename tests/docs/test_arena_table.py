"""The arena table of the guide is what was measured."""

import json
from pathlib import Path

from benchmarks.arena import RESULTS, markdown

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "llm.md"


def test_the_arena_table_of_the_guide_is_made_from_the_results() -> None:
    """Each line of the table is in the page, in order: no number is typed by hand."""
    lines = markdown(json.loads(RESULTS.read_text()))
    assert len(lines) > 10
    assert "\n".join(lines) in GUIDE.read_text()
