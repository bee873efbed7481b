"""The kit is what algorithm files need, and no more."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from cleanrl_worker.running.schema import SCRIPTS

PACKAGE = SCRIPTS.parent
# The share of the algorithms' lines that the kit and the networks have together.
AT_MOST = 0.55


def _imported(path: Path) -> set[str]:
    """The modules of the worker that a file imports, without the name of the package."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("cleanrl_worker."):
            module = str(node.module).removeprefix("cleanrl_worker.")
            found |= {module, *(f"{module}.{name.name}" for name in node.names)}
    return found


def _files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from (PACKAGE / folder).glob("*.py")


def _lines(*folders: str) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in _files(*folders))


def test_an_algorithm_file_needs_nothing_of_what_runs_beside_it() -> None:
    """Checkpoints, curves and evaluation are not between a reader and the algorithm."""
    for path in _files("cleanrl"):
        beside = {name for name in _imported(path) if name.startswith("running")}
        assert not beside, f"{path.name} imports {sorted(beside)}"


def test_the_kit_has_nothing_that_no_algorithm_needs() -> None:
    """Every module of the kit is imported by an algorithm file, or by another one of the kit."""
    used = {name for path in _files("cleanrl", "kit", "ondevice") for name in _imported(path)}
    modules = {f"kit.{path.stem}" for path in _files("kit") if path.stem != "__init__"}
    assert modules <= used


def test_the_kit_is_half_as_long_as_the_algorithms() -> None:
    """What is learned by reading is in the algorithm files; the rest is small beside them."""
    share = _lines("kit", "agents") / _lines("cleanrl")
    assert share <= AT_MOST, f"{share:.0%}"
