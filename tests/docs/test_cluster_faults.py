"""The page about faults of clusters names every such test, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_row_of_a_cluster_fault_has_its_test() -> None:
    """Who reads that a fault is survived can run the proof by the name on the page."""
    page = (ROOT / "docs" / "cluster-faults.md").read_text()
    rows = re.findall(r"^\| C(\d+) \|.+\| `(test_c(\d+)_\w+)` \|$", page, re.MULTILINE)
    assert all(row == number for row, _, number in rows)
    code = "".join(path.read_text() for path in (ROOT / "tests" / "sites").glob("test_*.py"))
    tests = re.findall(r"^def (test_c\d+_\w+)\(", code, re.MULTILINE)
    assert sorted(name for _, name, _ in rows) == sorted(tests)
