"""One run cannot hurt another: whatever a run's files hold, only that run is shown as damaged."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.trainer import Trainer, until

from mosaic.errors import InvalidTransitionError, RunFileError, RunNotFoundError
from mosaic.runs import eventlog
from mosaic.runs.directory import RunDirectory
from mosaic.trainer.core.states import Run
from mosaic.trainer.storage.registry import Registry, Vitals

ODD = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
DEEP = b"[" * 200_000
Change = Callable[[Path], None]
MakeTrainer = Callable[..., Trainer]


def _event(run_dir: Path, **data: object) -> None:
    run_dir.mkdir()
    line = {"seq": 1, "kind": "submitted", "at": 1.0, "mono": 1.0, "data": data}
    (run_dir / eventlog.FILE_NAME).write_text(json.dumps(line) + "\n")


def _with_log(make: Callable[[Path], object]) -> Change:
    def change(run_dir: Path) -> None:
        run_dir.mkdir()
        make(run_dir / eventlog.FILE_NAME)

    return change


def _link_to_itself(path: Path) -> None:
    path.symlink_to(path)


# A directory that no daemon has made, or of which the registry was lost.
STRANGE: dict[str, Change] = {
    "a file": lambda path: path.touch(),
    "a link to itself": _link_to_itself,
    "a link to nothing": lambda path: path.symlink_to(path.with_name("nothing")),
    "a pipe": lambda path: os.mkfifo(path),
    "empty": lambda path: path.mkdir(),
    "its log a folder": _with_log(lambda path: path.mkdir()),
    "its log a pipe": _with_log(lambda path: os.mkfifo(path)),
    "its log a link to itself": _with_log(_link_to_itself),
    "its log a link to another file": _with_log(lambda path: path.symlink_to("/etc/passwd")),
    "its log deeply nested": _with_log(lambda path: path.write_bytes(DEEP)),
    "a list for a name": lambda path: _event(path, run_name=["x"]),
    "half a letter for a name": lambda path: _event(path, run_name="\ud800"),
    "an infinite number": lambda path: _event(path, total_timesteps=float("inf")),
    "a deep field": lambda path: _event(path, request=json.loads("[" * 400 + "]" * 400)),
    "text for an epoch": lambda path: _event(path, epoch="x"),
}


def _rebuild(trainer: Trainer) -> None:
    """kill -9, the registry gone, and a new daemon."""
    trainer.kill()
    for path in trainer.home.trainer.glob("registry.sqlite3*"):
        path.unlink()
    trainer.start()


def _others_are_well(trainer: Trainer, live: str) -> None:
    assert trainer.client.get(live).state == "EXEC"
    assert trainer.ended(trainer.submit("short")).outcome == "completed"


def _id(number: int) -> str:
    return f"{ODD[:-2]}{number:02d}"


@pytest.mark.parametrize("folder", ["runs", "trash"])
def test_f01_odd_directories_are_damaged_runs_and_nothing_more(
    trainer: Trainer, folder: str
) -> None:
    """The daemon starts, lists each odd run with what is wrong, and lets people delete it."""
    live = trainer.stepping().run_id
    trainer.kill()
    names = {_id(number): name for number, name in enumerate(STRANGE)}
    places = {run_id: getattr(trainer.home, folder) / run_id for run_id in names}
    for run_id, name in names.items():
        STRANGE[name](places[run_id])
    trainer.start()
    for again in (trainer.restart, lambda: _rebuild(trainer), lambda: None):
        _all_damaged(trainer, names, deleted=folder == "trash")
        _others_are_well(trainer, live)
        again()
    with pytest.raises(InvalidTransitionError, match="is damaged"):
        trainer.client.update(_id(0), notes="never")
    for run_id, place in places.items():
        if folder == "runs":
            trainer.client.delete(run_id)
            assert not os.path.lexists(place), names[run_id]
            trainer.client.restore(run_id)
            assert os.path.lexists(place), names[run_id]
        trainer.client.delete(run_id, purge=True)
        assert not os.path.lexists(place), names[run_id]
    for again in (lambda: None, lambda: _rebuild(trainer)):
        again()
        for run_id in names:
            with pytest.raises(RunNotFoundError):
                trainer.client.get(run_id)
    _others_are_well(trainer, live)


def _all_damaged(trainer: Trainer, names: dict[str, str], deleted: bool) -> None:
    for run_id, name in names.items():
        record = trainer.client.get(run_id)
        assert (record.state, record.outcome) == ("TERM", "damaged"), name
        assert record.reason, name
    listed = trainer.client.list_runs(deleted=deleted, outcomes=["damaged"])[0]
    assert {run.run_id for run in listed} == set(names)


def _replaced(name: str, make: Callable[[Path], object]) -> Change:
    def change(run_dir: Path) -> None:
        path = run_dir / name
        if path.exists():
            path.unlink()
        make(path)

    return change


def _infinite_pid(path: Path) -> None:
    path.write_text('{"pid": 1e400, "start_time": 1, "boot_id": "b", "supervisor_pid": 1}')


def _changed_event(run_dir: Path) -> None:
    path = run_dir / eventlog.FILE_NAME
    path.write_bytes(path.read_bytes().replace(b'"epoch": 1', b'"epoch": "x"'))


IN_A_LIVE_RUN: dict[str, Change] = {
    "log a folder": _replaced(eventlog.FILE_NAME, lambda path: path.mkdir()),
    "log a pipe": _replaced(eventlog.FILE_NAME, lambda path: os.mkfifo(path)),
    "log a link to itself": _replaced(eventlog.FILE_NAME, _link_to_itself),
    "text for an epoch": _changed_event,
    "lock a folder": _replaced("supervisor.lock", lambda path: path.mkdir()),
    "lock a link to itself": _replaced("supervisor.lock", _link_to_itself),
    "supervisor deeply nested": _replaced("supervisor.json", lambda path: path.write_bytes(DEEP)),
    "supervisor with an infinite pid": _replaced("supervisor.json", _infinite_pid),
    "supervisor a pipe": _replaced("supervisor.json", lambda path: os.mkfifo(path)),
    "config a pipe": _replaced("config.json", lambda path: os.mkfifo(path)),
}


def test_f01_an_odd_file_in_a_live_run_hurts_no_other(make_trainer: MakeTrainer) -> None:
    """The daemon starts; the odd runs can be stopped and deleted, the other never notices."""
    trainer = make_trainer(cpu_slots=str(len(IN_A_LIVE_RUN) + 2)).start()
    live, *odd = [trainer.submit("steady") for _ in range(len(IN_A_LIVE_RUN) + 1)]
    for run_id in (live, *odd):
        trainer.wait_for(run_id, "EXEC")
    trainer.kill()
    for run_id, change in zip(odd, IN_A_LIVE_RUN.values(), strict=True):
        change(trainer.home.run_dir(run_id))
    trainer.start()
    assert trainer.client.get(live).state == "EXEC"
    for run_id in odd:
        trainer.client.cancel(run_id)
    for run_id in odd:
        trainer.ended(run_id)
    _others_are_well(trainer, live)
    _rebuild(trainer)
    for run_id in odd:
        trainer.ended(run_id)
    _others_are_well(trainer, live)
    for run_id in odd:
        trainer.client.delete(run_id, purge=True)
        assert not trainer.home.run_dir(run_id).exists()


def test_f01_a_live_run_beyond_repair_leaves_no_process(trainer: Trainer) -> None:
    """Registry and event log both lost: the run is damaged, and its processes hold no slot."""
    odd = trainer.stepping().run_id
    trainer.kill()
    _replaced(eventlog.FILE_NAME, lambda path: path.mkdir())(trainer.home.run_dir(odd))
    for path in trainer.home.trainer.glob("registry.sqlite3*"):
        path.unlink()
    trainer.start()
    assert trainer.client.get(odd).outcome == "damaged"
    steps = until(lambda: trainer.steps(odd), "it made steps")
    until(lambda: not _alive(trainer, odd), "its processes are gone")
    assert trainer.steps(odd) >= steps
    assert trainer.ended(trainer.submit("short")).outcome == "completed"


def _alive(trainer: Trainer, run_id: str) -> bool:
    before = trainer.steps(run_id)
    time.sleep(0.5)
    return trainer.steps(run_id) != before


def test_f01_a_repaired_run_is_a_run_again(trainer: Trainer) -> None:
    """Who puts the log right finds the run as it was after the next start."""
    run_id = trainer.submit("short")
    trainer.ended(run_id)
    log = trainer.home.run_dir(run_id) / eventlog.FILE_NAME
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b'"algo": "short"', b'"algo": 7'))
    _rebuild(trainer)
    assert "algo" in trainer.client.get(run_id).reason
    log.write_bytes(whole)
    trainer.restart()
    record = trainer.client.get(run_id)
    assert (record.outcome, record.algo) == ("completed", "short")


def test_f01_the_registry_survives_a_row_that_it_cannot_hold(tmp_path: Path) -> None:
    """A row that SQLite refuses is left out; the rows before and after it arrive."""
    registry = Registry(tmp_path / "registry.sqlite3")
    first, last = "01ARZ3NDEKTSV4RRFFQ69G5FAA", "01ARZ3NDEKTSV4RRFFQ69G5FAZ"
    registry.put(Run(first), Vitals())
    registry.put(Run(ODD, run_name="\ud800"), Vitals())
    registry.put(Run(last, created_at=1.0), Vitals())
    registry.flush()
    assert {first, last} <= registry.ids()
    registry.close()


def test_f02_a_row_that_makes_no_sense_is_shown_as_damaged(trainer: Trainer) -> None:
    """One unreadable row of the registry does not break lists; the next start reads the log."""
    import sqlite3

    run_id = trainer.submit("short")
    trainer.ended(run_id)
    trainer.client.list_runs()
    connection = sqlite3.connect(trainer.home.registry)
    with connection:
        connection.execute("UPDATE details SET row = ?", (json.dumps({"request": {"evil": 1}}),))
    connection.close()
    assert [run.outcome for run in trainer.client.list_runs()[0]] == ["damaged"]
    assert "registry" in trainer.client.get(run_id).reason


def test_f15_a_folder_in_place_of_the_exit_record(trainer: Trainer) -> None:
    """A run that makes a folder called exit.json still ends, and its slot is free again."""
    run_id = trainer.stepping().run_id
    trainer.directory(run_id).exit.mkdir()
    trainer.client.cancel(run_id)
    assert trainer.ended(run_id).outcome == "cancelled"
    until(lambda: trainer.free_slots() == 2, "its slot is free")


@pytest.mark.parametrize("kept", [1, 2])
def test_a_log_that_lost_its_end_is_never_a_run_that_waits(trainer: Trainer, kept: int) -> None:
    """An ended run whose log was cut back is not started again and does not wait for ever."""
    run_id = trainer.submit("short")
    trainer.ended(run_id)
    trainer.kill()
    log = trainer.home.run_dir(run_id) / eventlog.FILE_NAME
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:kept]))
    for path in trainer.home.trainer.glob("registry.sqlite3*"):
        path.unlink()
    trainer.start()
    record = trainer.ended(run_id)
    assert record.outcome == ("damaged" if kept == 1 else "completed")
    assert trainer.kinds(run_id).count("slots_reserved") == kept - 1
    assert RunDirectory(trainer.home.run_dir(run_id)).exit.exists()


def test_a_damaged_config_is_refused_in_words(trainer: Trainer) -> None:
    """Whatever `config.json` holds, people get a sentence or nothing, never a traceback."""
    run_id = trainer.ended(trainer.submit("short")).run_id
    for content in (DEEP, b"[]", b"{"):
        trainer.directory(run_id).config.write_bytes(content)
        with pytest.raises(RunFileError, match="is damaged"):
            trainer.client.config(run_id)
        assert trainer.client.read_file(run_id, "config.json").document() == {}
