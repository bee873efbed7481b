"""Nothing that is read can stop the daemon: whatever stands in files, archives, lines or calls.

Hypothesis writes, a real daemon reads. After each example it answers, lists, and completes a run
that nobody touched. `make test` tries a few examples, always the same; `make prove` many.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.any_call import SURPRISES, Call, Caller, calls
from support.broken_archives import broken_archives
from support.fuzzing import FuzzedHome, answered, clear, examples
from support.oddities import Damage, damages, odd_values
from support.trainer import trainers, until

from mosaic.connect.endpoint import find_endpoint
from mosaic.errors import MosaicError
from mosaic.system.processes import kill_marked

_IN_A_RUN = (
    "",
    "events.jsonl",
    "config.json",
    "exit.json",
    "supervisor.json",
    "supervisor.lock",
    "provenance.json",
    "analytics.json",
    "imported.json",
    "logs",
    "logs/stdout.log",
    "logs/stderr.log",
    "metrics",
    "metrics/episodic_return.points",
    "metrics/.by-daemon",
    "checkpoints",
    "checkpoints/last.json",
    "telemetry",
    "tensorboard",
)
_IN_A_HOME = (
    "trainer/registry.sqlite3",
    "trainer/registry.sqlite3-wal",
    "trainer/daemon.json",
    "trainer/clock.json",
    "trainer/runs/not-a-run",
    "trainer/trash",
    "settings.json",
    "cache",
)
_plans = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(_IN_A_RUN), damages), min_size=4, max_size=14
)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory, python_path: str) -> Iterator[FuzzedHome]:
    """A home of this file's own, with a daemon for all its tests."""
    with trainers(tmp_path_factory.mktemp("fuzz"), python_path) as make:
        yield FuzzedHome(make(stall_after_s="600").start())


# ---------------------------------------------------------------- the files of runs


def _ended_runs(fuzzed: FuzzedHome, plan: list[tuple[int, str, Damage]], lose: bool) -> None:
    """Damage ended runs while no daemon looks; the next one finds them so."""
    fuzzed.revive()
    victims = fuzzed.copies(6)
    fuzzed.trainer.kill()
    for number, name, damage in plan:
        damage.strike(fuzzed.trainer.home.run_dir(victims[number]) / name)
    if lose:
        for path in fuzzed.trainer.home.trainer.glob("registry.sqlite3*"):
            path.unlink()
    fuzzed.trainer.start()
    for run_id in victims:
        fuzzed.ask_everything(run_id)
    fuzzed.is_well()
    fuzzed.remove(victims)
    fuzzed.foreseen()


def _live_run(fuzzed: FuzzedHome, plan: list[tuple[int, str, Damage]]) -> None:
    """Damage a run while it trains: it may suffer, and it can still be ended and removed."""
    fuzzed.revive()
    run_id = fuzzed.trainer.stepping().run_id
    directory = fuzzed.trainer.home.run_dir(run_id)
    for _, name, damage in plan[:3]:
        # The directory itself is another story: there is nowhere left to write to.
        damage.strike(directory / (name or "events.jsonl"))
        answered(lambda: fuzzed.trainer.client.get(run_id))
    fuzzed.ask_everything(run_id)
    fuzzed.is_well()
    answered(lambda: fuzzed.trainer.client.cancel(run_id, grace_s=0.5))
    kill_marked(run_id)
    until(lambda: _over(fuzzed, run_id), f"{run_id} has ended")
    fuzzed.remove([run_id])
    fuzzed.foreseen()


def _over(fuzzed: FuzzedHome, run_id: str) -> bool:
    record = answered(lambda: fuzzed.trainer.client.get(run_id))
    return record is None or record.ended


@examples(2)
@given(plan=_plans, lose=st.booleans())
def test_files_of_ended_runs(
    fuzzed: FuzzedHome, plan: list[tuple[int, str, Damage]], lose: bool
) -> None:
    """Whatever an ended run's files have become, every other run is as it was."""
    _ended_runs(fuzzed, plan, lose)


@pytest.mark.prove
@pytest.mark.timeout(3600)
@examples(30, shrink=True)
@given(plan=_plans, lose=st.booleans())
def test_files_of_ended_runs_at_length(
    fuzzed: FuzzedHome, plan: list[tuple[int, str, Damage]], lose: bool
) -> None:
    """The same, many times."""
    _ended_runs(fuzzed, plan, lose)


@examples(1)
@given(plan=_plans)
def test_files_of_a_live_run(fuzzed: FuzzedHome, plan: list[tuple[int, str, Damage]]) -> None:
    """Whatever happens to the files of a run that trains, the daemon keeps its head."""
    _live_run(fuzzed, plan)


@pytest.mark.prove
@pytest.mark.timeout(3600)
@examples(20)
@given(plan=_plans)
def test_files_of_a_live_run_at_length(
    fuzzed: FuzzedHome, plan: list[tuple[int, str, Damage]]
) -> None:
    """The same, many times."""
    _live_run(fuzzed, plan)


# ---------------------------------------------------------------- the files of the home


def _home_file(fuzzed: FuzzedHome, name: str, damage: Damage) -> None:
    """A daemon starts on what it finds, or says in one line what it cannot use."""
    fuzzed.revive()
    trainer = fuzzed.trainer
    path = trainer.home.root / name
    trainer.kill()
    if not os.path.lexists(path) and path.suffix:
        path.write_text("{}")
    damage.strike(path)
    process = trainer.spawn()
    until(lambda: process.poll() is not None or _serves(fuzzed, process.pid), "start or refusal")
    if process.poll() is None:
        process.kill()
        process.wait()
    else:
        assert process.returncode == 2, f"exit code {process.returncode}"
        last = trainer.output().splitlines()[-1]
        assert last, "a refusal says why"
        assert "Traceback" not in trainer.output()
        clear(path)
    for folder in (trainer.home.runs, trainer.home.trash):
        if not folder.is_dir():
            clear(folder)
    trainer.start()
    fuzzed.is_well()


def _serves(fuzzed: FuzzedHome, pid: int) -> bool:
    try:
        return find_endpoint(fuzzed.trainer.home).pid == pid
    except MosaicError:
        return False


@examples(2)
@given(name=st.sampled_from(_IN_A_HOME), damage=damages)
def test_files_of_the_home(fuzzed: FuzzedHome, name: str, damage: Damage) -> None:
    """A damaged registry, settings file or `daemon.json` is set aside, or refused in words."""
    _home_file(fuzzed, name, damage)


@pytest.mark.prove
@pytest.mark.timeout(3600)
@examples(20)
@given(name=st.sampled_from(_IN_A_HOME), damage=damages)
def test_files_of_the_home_at_length(fuzzed: FuzzedHome, name: str, damage: Damage) -> None:
    """The same, many times."""
    _home_file(fuzzed, name, damage)


# ---------------------------------------------------------------- archives


def _archive(fuzzed: FuzzedHome, folder: Path, change: Callable[[bytes], bytes]) -> None:
    fuzzed.revive()
    sound = folder / "sound.tar.gz"
    if not sound.exists():
        fuzzed.trainer.client.export_runs([fuzzed.untouched], sound)
    hostile = folder / "hostile.tar.gz"
    hostile.write_bytes(change(sound.read_bytes()))
    runs = answered(lambda: fuzzed.trainer.client.import_runs(hostile, as_new=True)) or []
    ids = [item.run.run_id for item in runs]
    for run_id in ids:
        fuzzed.ask_everything(run_id)
    listed = fuzzed.trainer.client.list_runs(page_size=500)[0]
    assert {fuzzed.untouched, *ids} <= {record.run_id for record in listed}
    fuzzed.remove(ids)
    fuzzed.foreseen()


@examples(4)
@given(change=broken_archives)
def test_archives(
    fuzzed: FuzzedHome,
    tmp_path_factory: pytest.TempPathFactory,
    change: Callable[[bytes], bytes],
) -> None:
    """An archive is imported whole, or refused in words and leaves nothing."""
    _archive(fuzzed, tmp_path_factory.mktemp("archives"), change)


@pytest.mark.prove
@pytest.mark.timeout(3600)
@examples(50, shrink=True)
@given(change=broken_archives)
def test_archives_at_length(
    fuzzed: FuzzedHome,
    tmp_path_factory: pytest.TempPathFactory,
    change: Callable[[bytes], bytes],
) -> None:
    """The same, many times."""
    _archive(fuzzed, tmp_path_factory.mktemp("archives"), change)
    fuzzed.is_well()


# ---------------------------------------------------------------- what workers print

_EVENTS = (
    "run_started",
    "heartbeat",
    "metrics",
    "checkpoint_saved",
    "note",
    "phase_started",
    "curriculum_stage",
    "run_failed",
    "no_such_event",
)
_FIELDS = ("event", "run_id", "seq", "at", "step", "total", "values", "where", "path", "sha256",
           "kind", "reason", "hint", "text", "stage", "phase", "worker")  # fmt: skip


def _line(event: Any, fields: dict[str, Any], raw: bytes | None) -> bytes:
    if raw is not None:
        return raw
    return json.dumps({"event": event, "run_id": "@RUN@", **fields}).encode()


_printed = st.lists(
    st.builds(
        _line,
        st.sampled_from(_EVENTS) | odd_values,
        st.dictionaries(st.sampled_from(_FIELDS), odd_values, max_size=6),
        st.none() | st.binary(max_size=60),
    ),
    min_size=20,
    max_size=60,
)


def _worker_lines(fuzzed: FuzzedHome, folder: Path, lines: list[bytes]) -> None:
    fuzzed.revive()
    spoken = folder / "lines"
    spoken.write_bytes(b"\n".join(lines) + b"\n")
    run_id = fuzzed.trainer.submit("says", extras={"file": str(spoken)})
    assert fuzzed.trainer.ended(run_id).ended
    fuzzed.ask_everything(run_id)
    fuzzed.is_well()
    fuzzed.remove([run_id])


@examples(2)
@given(lines=_printed)
def test_worker_lines(
    fuzzed: FuzzedHome, tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    """A worker may print anything at all; its run ends and the rest goes on."""
    _worker_lines(fuzzed, tmp_path_factory.mktemp("lines"), lines)


@pytest.mark.prove
@pytest.mark.timeout(3600)
@examples(30, shrink=True)
@given(lines=_printed)
def test_worker_lines_at_length(
    fuzzed: FuzzedHome, tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    """The same, many times."""
    _worker_lines(fuzzed, tmp_path_factory.mktemp("lines"), lines)


# ---------------------------------------------------------------- calls


def _all_calls(fuzzed: FuzzedHome, plan: list[Call]) -> None:
    fuzzed.revive()
    victim = fuzzed.trainer.submit("short")
    caller = Caller(fuzzed.trainer.home, victim)
    try:
        for name, sent, raw in plan:
            error = caller.call(name, sent, raw)
            if error is not None:
                said = f"{name}: {error.code()}: {error.details()}"
                assert error.code() not in SURPRISES, said
            assert fuzzed.trainer.client.health().pid == fuzzed.trainer.pid
    finally:
        caller.close()
    made = [
        record.run_id
        for deleted in (False, True)
        for record in fuzzed.trainer.client.list_runs(page_size=500, deleted=deleted)[0]
        if record.run_id != fuzzed.untouched
    ]
    for run_id in made:
        answered(lambda run_id=run_id: fuzzed.trainer.client.cancel(run_id, grace_s=0.5))
    for run_id in made:
        until(lambda run_id=run_id: _over(fuzzed, run_id), f"{run_id} has ended")
    fuzzed.remove(made)
    fuzzed.is_well()


@examples(2)
@given(plan=calls)
def test_calls(fuzzed: FuzzedHome, plan: list[Call]) -> None:
    """Any message to any method is answered or refused; none surprises the daemon."""
    _all_calls(fuzzed, plan)


@pytest.mark.prove
@pytest.mark.timeout(3600)
@examples(50, shrink=True)
@given(plan=calls)
def test_calls_at_length(fuzzed: FuzzedHome, plan: list[Call]) -> None:
    """The same, many times."""
    _all_calls(fuzzed, plan)
