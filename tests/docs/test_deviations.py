"""The page of differences from CleanRL quotes what was measured."""

import json
from pathlib import Path

from benchmarks.learning import truncation

PAGE = Path(__file__).parents[2] / "docs" / "deviations.md"


def test_the_page_has_the_figures_of_the_record() -> None:
    """The effect of bootstrapping at a time limit is the measured one, for every recorded file."""
    page = PAGE.read_text(encoding="utf-8")
    records = json.loads(truncation.RESULTS.read_text(encoding="utf-8"))
    assert records
    for name, record in records.items():
        figures, _, p_value = truncation.said(record).partition(" (p = ")
        assert f"{name.upper()} on {record['env_id']}: {figures} (p = {p_value[:-1]}" in page
