"""The reference page says the same as the code."""

import re
from pathlib import Path

from mosaic.records import RunRecord
from mosaic.records.fields import fields_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference.md").read_text()
SOURCES = ("mosaic", "gym_gui", "workers")
CODE = re.compile(r"\b(?:CFG|CLI|SET|LOG)\d{3}\b")


def test_the_record_table_is_the_list_of_fields() -> None:
    """Every field of `--json` is on the page, in order, in the words of the code; no other is."""
    section = PAGE.split("## The record of a run")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
    assert rows == [(item.name, item.description) for item in fields_of(RunRecord)]


def test_every_problem_code_is_documented() -> None:
    """Who meets a code finds what it means and what to do; no code on the page is made up."""
    used = {
        code
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.py")
        for code in CODE.findall(path.read_text())
    }
    rows = re.findall(r"^\| ([A-Z]{3}\d{3}) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    documented = [code for code, _, _ in rows]
    assert len(used) > 30
    assert sorted(documented) == sorted(used)
    assert all(meaning.endswith(".") and remedy.endswith(".") for _, meaning, remedy in rows)
