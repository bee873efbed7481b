"""Pins: a checkpoint that the daemon says it has kept is kept, whatever a worker does meanwhile."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mosaic.runs import pins
from mosaic.runs.pins import finish_removals, pin, remove_unless_pinned


def _saved(folder: Path) -> list[Path]:
    folder.mkdir()
    files = [folder / f"step-100{suffix}" for suffix in (".cleanrl_model", ".state")]
    for file in files:
        file.write_text(file.name)
    return files


def _meanwhile(
    monkeypatch: pytest.MonkeyPatch, call: int, act: Callable[[], object]
) -> list[object]:
    """Do something in the middle of a removal: before the call of that number to the system."""
    done: list[object] = []
    count = 0

    def interrupted(real: Callable[..., object]) -> Callable[..., object]:
        def wrapper(self: Path, *words: object, **options: object) -> object:
            nonlocal count
            count += 1
            if count == call:
                done.append(act())
            return real(self, *words, **options)

        return wrapper

    for name in ("exists", "rename", "unlink"):
        monkeypatch.setattr(pins.Path, name, interrupted(getattr(Path, name)))
    return done


# Two looks for the pin, two renames, two removals: before each of them, and after the last.
@pytest.mark.parametrize("call", range(1, 8))
def test_what_was_said_to_be_kept_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """A pin set at any moment of a removal either comes too late and says so, or keeps it all."""
    files = _saved(tmp_path / "checkpoints")
    said = _meanwhile(monkeypatch, call, lambda: pin(tmp_path, "checkpoints/step-100.state"))
    removed = remove_unless_pinned(files)
    monkeypatch.undo()
    if not said:
        assert call == 7
        assert removed
        assert not any(file.exists() for file in files)
        return
    there = [file.exists() for file in files]
    assert there in ([True, True], [False, False]), "never half of a checkpoint"
    if said[0]:
        assert there == [True, True]
    assert removed == (there == [False, False])
    # Nothing but the files and the pin is left behind.
    left = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert left <= {"step-100.cleanrl_model", "step-100.state", "step-100.pin"}


def test_a_worker_killed_in_the_middle_leaves_nothing_undecided(tmp_path: Path) -> None:
    """What it had hidden is removed later, or comes back if it was pinned meanwhile."""
    files = _saved(tmp_path / "checkpoints")
    other = tmp_path / "checkpoints" / "step-200.state"
    other.write_text("kept")
    for file in (*files, other):
        os.rename(file, file.with_name(f".removing-{file.name}"))
    assert not pin(tmp_path, "checkpoints/step-200.state"), "it is not there at this moment"
    finish_removals(tmp_path / "checkpoints")
    assert other.read_text() == "kept"
    assert not any(file.exists() for file in files)
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {
        "step-200.state",
        "step-200.pin",
    }
