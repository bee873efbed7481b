"""The page on the architecture is true: what it names exists, and what exists is named."""

import importlib
import re
from pathlib import Path

import pytest

from mosaic.workers.lifecycle import KNOWN_EVENTS

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PAGE = _BLOCK.sub("", (ROOT / "docs" / "architecture.md").read_text())
_ROW = re.compile(r"^\| `([\w/.]+)` \| (.+) \| (.*?) ?\|$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
PACKAGES = {
    "workers/cleanrl_worker": "workers/cleanrl_worker/cleanrl_worker",
    "workers/human_worker": "workers/human_worker/human_worker",
    "workers/llm_worker": "workers/llm_worker/llm_worker",
    "workers/spade_bdi_rl_worker": "workers/spade_bdi_rl_worker/spade_bdi_rl_worker",
}
ROWS = [row for row in _ROW.findall(PAGE) if "/" in row[0] or row[0] == "gym_gui"]


def _folder(name: str) -> Path:
    return ROOT / PACKAGES.get(name, name)


@pytest.mark.parametrize(("name", "purpose", "first"), ROWS, ids=[row[0] for row in ROWS])
def test_every_file_and_module_it_names_exists(name: str, purpose: str, first: str) -> None:
    """Folders, modules and the files to open first are where the page says."""
    folder = _folder(name)
    assert folder.exists()
    for word in _CODE.findall(f"{purpose} {first}"):
        if word.endswith((".py", "/")):
            assert (folder / word).exists() or (ROOT / word).exists(), word
        elif re.fullmatch(r"[a-z_]+", word) and word != "mosaic":
            assert (folder / f"{word}.py").exists(), f"{folder} has no module {word}"


@pytest.mark.parametrize("package", ["mosaic", "gym_gui", *PACKAGES])
def test_every_package_is_named(package: str) -> None:
    """A reader finds every folder with code on the page."""
    for path in sorted(_folder(package).iterdir()):
        if path.is_dir() and any(path.glob("*.py")):
            names = (f"`{package}/{path.name}`", f"`{package}/{path.name}/`", f"`{path.name}/`")
            assert any(name in PAGE for name in names), f"{package}/{path.name} is not named"


@pytest.mark.parametrize("folder", ["background", "models", "widgets"])
def test_the_large_folders_of_the_window_have_an_index(folder: str) -> None:
    """Every module of a folder with dozens of them is in its list, and nothing else is."""
    path = ROOT / "gym_gui" / folder
    named = _CODE.findall((path / "__init__.py").read_text())
    assert sorted(named) == sorted(module.stem for module in path.glob("[!_]*.py"))


def test_the_next_line_has_a_place() -> None:
    """Who adds a feature finds every file that the table sends them to, and the place in it."""
    table = PAGE.split("## Where the next line goes")[1].split("\n## ")[0]
    files = [word for word in _CODE.findall(table) if re.fullmatch(r"[\w./-]+/[\w.-]*", word)]
    assert len(files) > 30
    # `kit/` and `modes/` are folders of the worker that the row is about.
    roots = (ROOT, _folder("workers/cleanrl_worker"))
    assert [word for word in files if not any((root / word).exists() for root in roots)] == []
    for file, name in re.findall(r"`([\w/.]+\.py)` \(`(\w+)`\)", table):
        place = rf"^\s*(async )?(def|class) {name}\b|^{name}\b"
        assert re.search(place, (ROOT / file).read_text(), re.MULTILINE), f"{file}: {name}"


def test_every_name_of_the_code_can_be_imported() -> None:
    """`mosaic.a.b`, and `module.function` of the daemon, are real."""
    words = [word.split("(")[0] for word in _CODE.findall(PAGE)]
    named = {word for word in words if re.fullmatch(r"mosaic(\.\w+)+", word)}
    daemons = [word for word in words if re.fullmatch(r"(states|decisions)\.(?!py)\w+", word)]
    named |= {f"mosaic.trainer.core.{word}" for word in daemons}
    assert len(named) > 8
    for name in sorted(named):
        parent, _, last = name.rpartition(".")
        if not hasattr(importlib.import_module(parent), last):
            importlib.import_module(name)


def test_the_lifecycle_events_are_those_of_the_code() -> None:
    """The table of the contract holds every event that the daemon knows, and no other."""
    table = PAGE.split("| event | fields | when |\n")[1].split("\n\n")[0]
    named = {word for line in table.splitlines() for word in _CODE.findall(line.split("|")[1])}
    assert named == KNOWN_EVENTS
