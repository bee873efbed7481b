"""Rows D2 to D10 of the fault matrix: a registry, files and logs that are not as they should be."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.patience import PATIENCE_S
from support.trainer import Trainer, until

from mosaic.errors import RunDamagedError, StorageError
from mosaic.records.run import Outcome
from mosaic.runs import eventlog, logs
from mosaic.runs.directory import RunDirectory
from mosaic.runs.eventlog import LogLine
from mosaic.runs.opening import read_document
from mosaic.runs.supervised import process_keys
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.loop.recovery import read_back
from mosaic.trainer.loop.tailer import LineTailer, cap_log
from mosaic.trainer.storage.registry import Registry, Vitals
from mosaic.trainer.storage.schema import SCHEMA_VERSION
from mosaic.workers.lifecycle import MAX_LINE

MakeTrainer = Callable[..., Trainer]
_HOLD_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
"""


class _Lock:
    """Another program that holds the registry until the block ends."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", _HOLD_LOCK, str(path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"held\n"

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=PATIENCE_S)


def test_d02_registry_held_by_another_program(trainer: Trainer) -> None:
    """While another program holds the registry runs go on, nothing is lost, no list is empty."""
    first = trainer.stepping().run_id
    with _Lock(trainer.home.registry):
        second = trainer.submit("short")
        assert trainer.ended(second).outcome == "completed"
        assert trainer.client.get(first).state == "EXEC"
        with pytest.raises(StorageError, match="locked"):
            trainer.client.list_runs()
        with pytest.raises(StorageError, match="locked"):
            trainer.client.get("last")
        assert trainer.client.health().pid == trainer.pid
    until(lambda: _listed(trainer) == {first, second}, "everything is listed again")
    assert trainer.kinds(second)[-1] == "settled"


def _listed(trainer: Trainer) -> set[str]:
    try:
        return {run.run_id for run in trainer.client.list_runs()[0]}
    except StorageError:
        return set()


def test_d02_unavailable_says_when_to_try_again(trainer: Trainer) -> None:
    """The refusal is UNAVAILABLE and carries `retry-after`."""
    from mosaic.client.connection import read_token
    from mosaic.connect.channel import open_channel
    from mosaic.connect.endpoint import find_endpoint
    from mosaic.wire import trainer_pb2 as pb
    from mosaic.wire import trainer_pb2_grpc

    token = read_token(trainer.home).decode()
    trainer.submit("short")
    with _Lock(trainer.home.registry), open_channel(find_endpoint(trainer.home).address) as channel:
        stub = trainer_pb2_grpc.TrainerStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            stub.ListRuns(
                pb.ListRunsRequest(),
                metadata=(("authorization", f"Bearer {token}"),),
                timeout=PATIENCE_S,
            )
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert ("retry-after", "1") in refused.value.trailing_metadata()


def test_d02_what_the_registry_missed_is_found_again(trainer: Trainer) -> None:
    """Killed before the registry could be written, a daemon's successor reads the event logs."""
    ended = trainer.submit("short")
    trainer.ended(ended)
    other = trainer.submit("short")
    trainer.ended(other)
    trainer.client.list_runs()
    with _Lock(trainer.home.registry):
        trainer.client.update(ended, notes="remember me", tags=["kept"])
        trainer.client.delete(other)
        trainer.kill()
    trainer.start()
    assert trainer.client.get(ended).notes == "remember me"
    assert {run.run_id for run in trainer.client.list_runs()[0]} == {ended}
    assert {run.run_id for run in trainer.client.list_runs(deleted=True)[0]} == {other}
    trainer.client.restore(other)
    assert trainer.kinds(other)[-2:] == ["deleted", "restored"]


def _fill(trainer: Trainer) -> tuple[str, str]:
    """A home with one finished and one running run."""
    finished = trainer.submit("short")
    trainer.ended(finished)
    trainer.client.update(finished, notes="a note")
    return finished, trainer.stepping().run_id


def _damage_truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1500])


def _damage_garbage(path: Path) -> None:
    path.write_bytes(os.urandom(9000))


def _damage_empty(path: Path) -> None:
    path.write_bytes(b"")


def _older_schema(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE runs (run_id TEXT)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "damage", [_damage_truncate, _damage_garbage, _damage_empty, _older_schema, os.unlink]
)
def test_d03_registry_damaged_old_or_gone(trainer: Trainer, damage: Callable[[Path], None]) -> None:
    """A registry that is damaged, old or gone is set aside and built anew; nothing is lost."""
    finished, running = _fill(trainer)
    pid = trainer.client.get(running).pid
    before = trainer.client.get(finished)
    trainer.kill()
    for suffix in ("-wal", "-shm"):
        trainer.home.registry.with_name(trainer.home.registry.name + suffix).unlink(missing_ok=True)
    damage(trainer.home.registry)
    trainer.start()
    after = trainer.client.get(finished)
    for field in (
        "outcome",
        "notes",
        "exit_code",
        "created_at",
        "finished_at",
        "version",
        "metrics",
    ):
        assert getattr(after, field) == getattr(before, field)
    adopted = trainer.wait_for(running, "EXEC")
    assert adopted.pid == pid
    assert trainer.client.health().epoch == 2
    assert {run.run_id for run in trainer.client.list_runs()[0]} == {finished, running}
    if damage is not os.unlink:
        assert list(trainer.home.trainer.glob("registry.sqlite3.set-aside-*"))


def test_d03_registry_of_a_newer_version(trainer: Trainer) -> None:
    """A newer registry is refused with both versions, and left as it is."""
    _fill(trainer)
    trainer.kill()
    connection = sqlite3.connect(trainer.home.registry)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    refused = trainer.spawn()
    assert refused.wait(timeout=PATIENCE_S) == 2
    assert f"has schema 99, this MOSAIC knows {SCHEMA_VERSION}" in trainer.output()
    connection = sqlite3.connect(trainer.home.registry)
    assert connection.execute("SELECT COUNT(*) FROM runs").fetchone() == (2,)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.close()
    trainer.start()


@pytest.mark.parametrize("place", ["before_commit", "after_commit"])
def test_d04_killed_while_the_registry_is_written(make_trainer: MakeTrainer, place: str) -> None:
    """Killed in the middle of a registry write, a daemon leaves a registry that can be read."""
    trainer = make_trainer().start()
    finished, running = _fill(trainer)
    trainer.kill()
    dying = trainer.spawn("--port", "0", MOSAIC_FAULT=f"{place}:kill")
    assert dying.wait(timeout=PATIENCE_S) == -9
    trainer.start()
    assert trainer.client.get(finished).notes == "a note"
    assert trainer.wait_for(running, "EXEC")
    assert trainer.client.list_runs()[2] == 2
    assert not list(trainer.home.trainer.glob("registry.sqlite3.set-aside-*"))


def test_d05_damaged_files_of_one_run(trainer: Trainer) -> None:
    """Damaged files make trouble for their own run only; the list still loads."""
    sound = trainer.submit("short")
    trainer.ended(sound)
    hurt = trainer.stepping()
    directory = trainer.directory(hurt.run_id)
    trainer.kill()
    for path in (directory.config, directory.supervisor):
        path.write_bytes(path.read_bytes()[:30])
    directory.analytics.write_bytes(b'{"half')
    trainer.start()
    assert trainer.wait_for(hurt.run_id, "EXEC").pid == hurt.pid
    assert trainer.client.list_runs()[2] == 2
    trainer.client.cancel(hurt.run_id)
    assert trainer.ended(hurt.run_id).outcome == "cancelled"


def test_d05_damaged_exit_record(trainer: Trainer) -> None:
    """A run whose exit record is unreadable ends as lost instead of running for ever."""
    run = trainer.stepping()
    trainer.kill()
    supervisor = trainer.supervisor(run.run_id)
    os.kill(supervisor["supervisor_pid"], 9)
    os.kill(run.pid, 9)
    trainer.directory(run.run_id).exit.write_text('{"code": 1')
    assert trainer.start().ended(run.run_id).outcome == "lost"


def test_d05_damaged_config_of_a_waiting_run(make_trainer: MakeTrainer) -> None:
    """A waiting run whose config was damaged fails with a clear reason, before it gets a slot."""
    trainer = make_trainer(cpu_slots="1").start()
    first = trainer.stepping().run_id
    waiting = trainer.submit("short")
    trainer.directory(waiting).config.write_text("{")
    trainer.client.cancel(first)
    end = trainer.ended(waiting)
    assert end.outcome == "failed"
    assert "config.json is gone or damaged" in end.reason


def test_d05_damaged_secrets_of_a_waiting_run(make_trainer: MakeTrainer) -> None:
    """A run whose secrets cannot be read fails at once and says what to do."""
    trainer = make_trainer(cpu_slots="1").start()
    first = trainer.stepping().run_id
    waiting = trainer.submit("short", extras={"wandb_api_key": "k"})
    (trainer.home.secrets / f"{waiting}.json").write_text("{")
    trainer.client.cancel(first)
    end = trainer.ended(waiting)
    assert end.outcome == "failed"
    assert "is damaged; submit the run again with its secret" in end.reason
    assert trainer.free_slots() == 1


def test_d05_damaged_event_log_and_no_registry(trainer: Trainer) -> None:
    """What can be read of a damaged event log counts; the rest is kept aside, not appended to."""
    finished, running = _fill(trainer)
    trainer.kill()
    trainer.home.registry.unlink()
    path = trainer.directory(running).path / eventlog.FILE_NAME
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + b'{"seq": 5, "kind": garbage}\n' + b"".join(lines[4:]))
    trainer.start()
    until(lambda: trainer.steps(running) > 0, "it steps")
    trainer.client.cancel(running)
    assert trainer.ended(running).outcome == "cancelled"
    assert trainer.kinds(running)[-1] == "settled"
    assert path.with_suffix(".damaged").exists()
    assert trainer.client.get(finished).outcome == "completed"


@pytest.fixture(scope="module")
def event_log() -> list[LogLine]:
    """A short history."""
    data = {"worker": "example", "request": {"cpus": 1}, "tags": ["a"]}
    return [
        LogLine(1, "submitted", 1.0, 1.0, data),
        LogLine(2, "slots_reserved", 2.0, 2.0, {"slots": ["cpu:0"], "epoch": 1, "boot_id": "b"}),
        LogLine(3, "spawned", 3.0, 3.0, {"supervisor_pid": 10, "pid": 11}),
    ]


def test_d05_event_log_cut_at_every_byte(tmp_path: Path, event_log: list[LogLine]) -> None:
    """Wherever a crash cut the log, whole events are read and the next one follows densely."""
    eventlog.append(tmp_path, event_log)
    path = tmp_path / eventlog.FILE_NAME
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        whole = eventlog.read(tmp_path)
        assert whole == event_log[: len(whole)]
        eventlog.append(tmp_path, [LogLine(len(whole) + 1, "note", 9.0, 9.0, {})])
        assert [line.seq for line in eventlog.read(tmp_path)] == list(range(1, len(whole) + 2))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(position=st.integers(0, 500), noise=st.binary(min_size=1, max_size=20))
# An empty line behind the last event, which hid everything that was recorded after it.
@example(position=500, noise=b"\n")
def test_d05_files_with_random_damage(
    tmp_path: Path, event_log: list[LogLine], position: int, noise: bytes
) -> None:
    """No damage to a run's files raises anything when the home is read."""
    (tmp_path / eventlog.FILE_NAME).unlink(missing_ok=True)
    eventlog.append(tmp_path, event_log)
    identity = {"pid": 1, "start_time": 2, "boot_id": "b", "supervisor_pid": 3}
    supervisor = RunDirectory(tmp_path).supervisor
    supervisor.write_text(json.dumps({**identity, "supervisor_start_time": 4}))
    for path in (tmp_path / eventlog.FILE_NAME, supervisor):
        content = bytearray(path.read_bytes())
        content[position : position + len(noise)] = noise
        path.write_bytes(bytes(content))
    with suppress(RunDamagedError):
        read_back(tmp_path, known=True)
    process_keys(RunDirectory(tmp_path))
    read_document(supervisor)
    whole = eventlog.read(tmp_path, mend=True)
    if not whole:
        return  # left as it is for people to repair: there is nothing to continue
    eventlog.append(tmp_path, [LogLine(len(whole) + 1, "note", 9.0, 9.0, {})])
    assert len(eventlog.read(tmp_path)) == len(whole) + 1


def test_d08_run_directory_removed_under_a_live_run(trainer: Trainer) -> None:
    """Removing a live run's folder ends that run at worst; daemon and list go on."""
    run = trainer.stepping("deaf")
    other = trainer.stepping()
    shutil.rmtree(trainer.directory(run.run_id).path, ignore_errors=True)
    trainer.client.cancel(run.run_id, grace_s=0.2)
    assert trainer.ended(run.run_id).outcome == "cancelled"
    assert trainer.client.get(other.run_id).state == "EXEC"
    assert trainer.client.list_runs()[2] == 2


def test_d01_refused_submit_leaves_nothing(make_trainer: MakeTrainer) -> None:
    """With too little disk space a submit is refused with the free space, and leaves no trace."""
    trainer = make_trainer(min_free_disk_mb="100000000").start()
    with pytest.raises(StorageError, match=r"disk almost full: [0-9]+ MB free"):
        trainer.submit("short")
    assert trainer.run_ids() == []
    assert list(trainer.home.configs.iterdir()) == []
    assert "disk almost full" in trainer.client.health().notice


def test_d01_half_made_runs_are_removed(trainer: Trainer) -> None:
    """What a daemon killed while taking a run in leaves behind is removed by the next one."""
    trainer.kill()
    half = trainer.home.runs / ".new-01ARZ3NDEKTSV4RRFFQ69G5FAV"
    (half / "logs").mkdir(parents=True)
    (half / "config.json").write_text("{}")
    trainer.start()
    assert not half.exists()
    assert trainer.client.list_runs()[2] == 0


def test_d09_many_runs(tmp_path: Path) -> None:
    """Pages over thousands of runs are complete, in order, without doubles, and searchable."""
    registry = Registry(tmp_path / "registry.sqlite3")
    ids = [f"01ARZ3NDEKTSV4RRFFQ6{number:06d}" for number in range(3000)]
    for number, run_id in enumerate(ids):
        name = "100%_sure" if number == 1234 else f"run {number}"
        registry.put(_finished(run_id, name, created_at=float(number // 7)), Vitals())
    registry.flush(timeout_s=30)
    from mosaic.trainer.storage.paging import Query

    for sort, expected in (("-created_at", ids[::-1]), ("created_at", ids)):
        seen, token = [], ""
        while True:
            page = registry.page(Query(page_size=500, page_token=token, sort=sort))
            assert page.total == 3000
            seen += [stored.run.run_id for stored in page.runs]
            token = page.next_page_token
            if not token:
                break
        assert seen == expected
    found = registry.page(Query(text="100%_S"))
    assert [stored.run.run_id for stored in found.runs] == [ids[1234]]
    assert registry.page(Query(text="%")).total == 1
    assert registry.page(Query(page_token="bm90IG91cnM=")).total == 3000
    registry.close()


def _finished(run_id: str, name: str, created_at: float) -> Run:
    return Run(
        run_id,
        state=State.TERM,
        version=9,
        run_name=name,
        created_at=created_at,
        outcome=str(Outcome.COMPLETED),
    )


_NASTY = (
    b"\x1b[31mred\x1b[0m and a NUL \x00 and \xff\xfe no UTF-8\n"
    + b"x" * 50_000_000
    + b"\n"
    + b"needle in the hay\n"
)


def test_d10_a_log_with_everything_in_it(trainer: Trainer, tmp_path: Path) -> None:
    """50 MB in a line, NULs, broken UTF-8 and colours: the run completes and its log is read."""
    nasty = tmp_path / "nasty.bin"
    nasty.write_bytes(_NASTY)
    end = trainer.ended(trainer.submit("says", extras={"file": str(nasty)}))
    assert end.outcome == "completed"
    assert end.metrics == {"still_here": 1.0}
    assert end.quarantined_lines == 1
    text = "".join(chunk.text for chunk in trainer.client.logs(end.run_id, stream="stdout"))
    assert "red and a NUL  and \ufffd\ufffd no UTF-8" in text
    assert "[a line of 50,000,000 bytes]" in text
    assert len(text) < 100_000
    found = list(trainer.client.logs(end.run_id, stream="stdout", grep="needle"))
    assert [(chunk.stream, chunk.text) for chunk in found] == [("stdout", "needle in the hay\n")]
    tail = "".join(chunk.text for chunk in trainer.client.logs(end.run_id, tail_lines=1))
    assert tail == "needle in the hay\n"


def test_d10_a_log_of_gigabytes_is_capped(tmp_path: Path) -> None:
    """A log past its limit gives its oldest part back; readers begin where text is left."""
    path = tmp_path / "stdout.log"
    with open(path, "wb") as handle:
        for number in range(300_000):
            handle.write(b"line %07d of a very talkative worker\n" % number)
        handle.truncate(5 * 2**30)
        handle.seek(5 * 2**30)
        handle.write(b"\nthe last line\n")
    assert cap_log(path, 2**20) == path.stat().st_size - 2**20
    assert path.stat().st_blocks * 512 <= 2 * 2**20
    offset = logs.tail_offset(path, 1)
    assert logs.read_lines(path, offset, final=True).lines == ("the last line",)
    assert logs.read_lines(path, 0, final=True).offset > 0


def test_d10_a_last_line_without_end(tmp_path: Path) -> None:
    """What a killed worker left without a newline is shown once the run is over."""
    path = tmp_path / "stdout.log"
    path.write_bytes(b"y" * 3_000_000)
    assert logs.read_lines(path, 0).lines == ()
    shown = logs.read_lines(path, 0, final=True)
    assert shown.offset == 3_000_000
    assert "[a line of 3,000,000 bytes]" in shown.lines[0]


def test_d10_tailing_survives_truncation_and_long_lines(tmp_path: Path) -> None:
    """A log that is cut short is read from its beginning; lines that are too long are counted."""
    path = tmp_path / "stdout.log"
    tailer = LineTailer(path)
    assert list(tailer.poll()) == []
    path.write_bytes(b"one\ntwo\nhal")
    assert list(tailer.poll()) == [b"one", b"two"]
    with open(path, "ab") as handle:
        handle.write(b"f\n" + b"z" * (MAX_LINE + 1) + b"\nthree\n")
    assert list(tailer.poll()) == [b"half", b"three"]
    assert tailer.oversized == 1
    path.write_bytes(b"again\n")
    assert list(tailer.poll()) == [b"again"]
    assert tailer.offset == 6


def test_trash_is_emptied_when_its_time_has_come(make_trainer: MakeTrainer) -> None:
    """A deleted run can be restored until its days are over; then it is gone for good."""
    trainer = make_trainer().start()
    kept, gone = trainer.ended(trainer.submit("short")), trainer.ended(trainer.submit("short"))
    for record in (kept, gone):
        trainer.client.delete(record.run_id)
    assert trainer.client.list_runs()[2] == 0
    trainer.client.restore(kept.run_id)
    trainer.restart(MOSAIC_SETTING_TRASH_DAYS="0")
    until(lambda: trainer.run_ids() == [kept.run_id], "the trash is emptied")
    assert trainer.client.get(kept.run_id).outcome == "completed"
    assert trainer.client.list_runs(deleted=True)[2] == 0


def test_d10_the_log_is_archived_and_outlives_the_run_directory(trainer: Trainer) -> None:
    """Logs of an ended run lie in the archive too, until it is removed for good."""
    end = trainer.ended(trainer.submit("short"))
    archived = trainer.home.logs / end.run_id / "stdout.log"
    assert b"run_completed" in archived.read_bytes()
    trainer.client.delete(end.run_id)
    assert archived.exists()
    time.sleep(0.1)
    trainer.client.delete(end.run_id, purge=True)
    assert not archived.parent.exists()
    assert trainer.run_ids() == []
