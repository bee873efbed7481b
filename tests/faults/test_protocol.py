"""Rows N1 to N10 of the fault matrix: ports, floods, slow readers, nonsense, clocks, handshakes."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.patience import PATIENCE_S
from support.trainer import Trainer, until

from mosaic.client import TrainerClient
from mosaic.client.connection import read_token
from mosaic.config.settings import Settings
from mosaic.connect.endpoint import find_endpoint
from mosaic.errors import InvalidConfigError, MosaicError, NotOurDaemonError
from mosaic.records import ChangesMissed, SnapshotEnd
from mosaic.runs import ids
from mosaic.runs.directory import RunDirectory
from mosaic.system.processes import ProcessKey, boot_id, start_time
from mosaic.trainer.core.decisions import Now
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.launch.executor import LocalExecutor
from mosaic.trainer.loop.observer import observe
from mosaic.trainer.loop.slots import SlotTable
from mosaic.trainer.loop.watch import Watch
from mosaic.trainer.sites.local import LocalSite
from mosaic.trainer.storage.broadcast import Broadcaster, Missed
from mosaic.trainer.storage.registry import Vitals
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc
from mosaic.workers.lifecycle import LifecycleLine, QuarantinedLine, parse_line

HERE = LocalSite(LocalExecutor(), SlotTable(Settings()))

MakeTrainer = Callable[..., Trainer]
RUN_ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def test_n01_preferred_port_taken(make_trainer: MakeTrainer) -> None:
    """When a stranger has the preferred port, the daemon takes another and clients find it."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        trainer = make_trainer(port=str(port)).start("--listen", "127.0.0.1")
        assert find_endpoint(trainer.home).port != port
        assert trainer.client.health().pid == trainer.pid


def test_n01_the_next_daemon_is_where_the_killed_one_was(make_trainer: MakeTrainer) -> None:
    """Agents on other machines find it there at once; if a stranger took the port, it has another
    one, and its own clients find that."""
    trainer = make_trainer().start()
    port = find_endpoint(trainer.home).port
    trainer.kill()
    assert find_endpoint(trainer.start().home).port == port
    trainer.kill()
    with socket.create_server(("127.0.0.1", port)):
        assert find_endpoint(trainer.start().home).port != port
        assert trainer.client.health().pid == trainer.pid


def test_n01_asked_port_taken(make_trainer: MakeTrainer) -> None:
    """A port that was asked for and is taken is refused with what to do instead."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        trainer = make_trainer()
        refused = trainer.spawn("--port", str(port))
        assert refused.wait(timeout=PATIENCE_S) == 2
        assert f"port {port} on 127.0.0.1 is in use" in trainer.output()
        assert "--port 0" in trainer.output()


def test_n01_two_homes_side_by_side(make_trainer: MakeTrainer) -> None:
    """Two homes have two daemons, and neither answers for the other."""
    first, second = make_trainer("one").start(), make_trainer("two").start()
    assert first.client.health().pid != second.client.health().pid
    endpoint = json.loads(first.home.endpoint.read_text())
    other = json.loads(second.home.endpoint.read_text())
    first.home.endpoint.write_text(json.dumps({**endpoint, "port": other["port"]}))
    with pytest.raises(NotOurDaemonError, match="does not know this home's token"):
        TrainerClient.connect(first.home)
    first.home.endpoint.write_text(json.dumps(endpoint))


def test_n02_two_hundred_submits_at_once(make_trainer: MakeTrainer) -> None:
    """200 submits at once give 200 runs, none twice, and never more at work than slots."""
    trainer = make_trainer(cpu_slots="2").start()
    config = trainer.config("steady")
    trainer.client.health()
    with ThreadPoolExecutor(32) as pool:
        records = list(pool.map(lambda _: trainer.client.submit(config), range(200)))
    assert len({record.run_id for record in records}) == 200
    assert trainer.client.list_runs()[2] == 200
    until(lambda: len(trainer.client.list_runs(states=["EXEC"])[0]) == 2, "two runs are at work")
    for _ in range(5):
        resources = trainer.client.resources()
        held = [slot.run_id for slot in resources.slots if slot.run_id]
        assert len(held) == len(set(held)) == 2
        assert (resources.queued, resources.running) == (198, 2)
    waiting = trainer.client.list_runs(states=["INIT"], page_size=500)[0]
    assert len(waiting) == 198
    assert all(run.wait_reason for run in waiting)
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda run: trainer.client.cancel(run.run_id), waiting))


def test_n02_one_run_per_idempotency_key(trainer: Trainer) -> None:
    """However often and at once a key is submitted, there is one run for it, ever."""
    own = ids.new_run_id()
    keys = ["first", "second", own, "fourth"]
    config = trainer.config("short")

    def submit(number: int) -> tuple[str, str]:
        key = keys[number % 4]
        return key, str(trainer.client.submit(config, idempotency_key=key).run_id)

    with ThreadPoolExecutor(32) as pool:
        by_key = set(pool.map(submit, range(200)))
    assert len(by_key) == 4
    assert (own, own) in by_key
    assert trainer.client.list_runs()[2] == 4
    for _, run_id in by_key:
        assert trainer.ended(run_id).outcome == "completed"
        assert trainer.kinds(run_id).count("spawned") == 1
    trainer.restart()
    assert set(map(submit, range(4))) == by_key


def test_n02_a_refused_key_may_be_used_again(trainer: Trainer) -> None:
    """A key whose config was refused names no run."""
    with pytest.raises(InvalidConfigError):
        trainer.client.submit({"algo": 1}, idempotency_key="again")
    record = trainer.client.submit(trainer.config("short"), idempotency_key="again")
    assert trainer.ended(record.run_id).outcome == "completed"
    with pytest.raises(MosaicError, match="at most 200"):
        trainer.client.submit(trainer.config("short"), idempotency_key="k" * 201)


def test_n03_slow_watcher_gets_a_gap(trainer: Trainer) -> None:
    """A watcher that reads nothing costs bounded memory, learns what it missed, and refetches."""
    run_id = trainer.submit("short")
    trainer.ended(run_id)
    slow = trainer.client.watch()
    while True:
        message = next(slow)
        if isinstance(message, SnapshotEnd):
            break
    before = _memory_mb(trainer.pid)
    for number in range(1300):
        trainer.client.update(run_id, notes=f"{number} " + "x" * 15_000)
    assert _memory_mb(trainer.pid) - before < 60
    fast = trainer.client.watch()
    assert next(fast).run.notes.startswith("1299")
    fast.close()
    gap = next(message for message in slow if isinstance(message, ChangesMissed))
    slow.close()
    assert gap.since < gap.until
    refetched = trainer.client.watch(gap.generation, gap.since)
    assert next(refetched).run.notes.startswith("1299")
    refetched.close()


def test_n03_a_gap_says_exactly_what_is_missing() -> None:
    """Everything is delivered in order up to the gap, whose borders are exact."""
    import asyncio

    async def scenario() -> list[Any]:
        broadcaster: Broadcaster[str] = Broadcaster()
        subscription = broadcaster.subscribe(since=10, capacity=3)
        broadcaster.publish(11, "a")
        received: list[Any] = [await subscription.next()]
        for number in range(12, 17):
            broadcaster.publish(number, str(number))
        received.append(await subscription.next())
        broadcaster.publish(17, "z")
        return [*received, await subscription.next()]

    assert asyncio.run(scenario()) == [(11, "a"), Missed(11, 16), (17, "z")]


def _memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def test_n04_clients_that_vanish(trainer: Trainer) -> None:
    """Hundreds of clients cut off in the middle of a stream leave no file and no queue behind."""
    run_id = trainer.stepping().run_id
    endpoint, token = find_endpoint(trainer.home), read_token(trainer.home).decode()
    metadata = (("authorization", f"Bearer {token}"),)

    def visit(number: int) -> None:
        options = (("grpc.use_local_subchannel_pool", 1),)
        with grpc.insecure_channel(endpoint.target, options=options) as channel:
            stub = trainer_pb2_grpc.TrainerStub(channel)
            if number % 2:
                stream = stub.WatchRuns(pb.WatchRunsRequest(), metadata=metadata)
            else:
                request = pb.StreamRunLogsRequest(run_id=run_id, follow=True, lifecycle=True)
                stream = stub.StreamRunLogs(request, metadata=metadata)
            next(stream)

    visit(0)
    visit(1)
    files = _open_files(trainer.pid)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(visit, range(300)))
    until(lambda: _open_files(trainer.pid) <= files + 3, "their files are closed")
    assert trainer.client.get(run_id).state == "EXEC"


def _open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_n05_oversize_config(trainer: Trainer) -> None:
    """A config that is too large is refused with the limit, and the daemon goes on."""
    config = trainer.config("short", extras={"notes": "n" * 1_100_000})
    with pytest.raises(InvalidConfigError, match=r"at most 1,000,000"):
        trainer.client.submit(config)
    with pytest.raises(MosaicError, match="RESOURCE_EXHAUSTED"):
        trainer.client.submit(trainer.config("short", extras={"notes": "n" * 20_000_000}))
    assert trainer.client.health().pid == trainer.pid


_NONSENSE = [
    b'{"event":"metrics","run_id":"@RUN@","step":1,"values":{"half',
    b'{"event":"metrics","run_id":"@RUN@","step":1,"step":2,"values":{}}',
    b'{"event":"metrics","run_id":"@RUN@","step":1,"values":{"a":NaN}}',
    b'{"event":"metrics","run_id":"@RUN@","step":1,"values":{"a":Infinity}}',
    b'{"event":"metrics","run_id":"@RUN@","step":1,"values":{"a":1e999}}',
    b'{"event":"metrics","run_id":"@RUN@","step":1e3,"values":{}}',
    b'{"event":"metrics","run_id":"@RUN@","step":1' + b"0" * 40 + b',"values":{}}',
    b'{"event":"metrics","run_id":"@RUN@","step":1,"values":{"a":1' + b"0" * 400 + b"}}",
    b'{"event":"note","run_id":"@RUN@","text":' + b"[" * 12 + b"]" * 12 + b"}",
    b'{"event":"note","run_id":"@RUN@","text":' + b"[" * 20000 + b"]" * 20000 + b"}",
    b'{"event":"note","run_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","text":"of another run"}',
    b'{"event":"note","run_id":"@RUN@","seq":1,"text":"replayed"}',
    b'{"event":"note","run_id":"@RUN@","seq":true}',
    b'{"event":"note","run_id":"@RUN@","schema":7}',
    b'{"event":"warp_drive","run_id":"@RUN@"}',
    b'{"event":"run_failed","run_id":"@RUN@","reason":5}',
    b'{"event":"run_failed","run_id":"@RUN@","reason":"\\ud800"}',
    b'{"event":"checkpoint_saved","run_id":"@RUN@","path":"../../x","step":1,"sha256":"","kind":""}',
    b'{"event":"checkpoint_saved","run_id":"@RUN@","path":"/etc/passwd","step":1,"sha256":"","kind":""}',
    b'{"event":"checkpoint_saved","run_id":"@RUN@"}',
]


def test_n06_nonsense_from_a_worker(trainer: Trainer, tmp_path: Path) -> None:
    """Every malformed line is counted and left out; the good ones around it are heard."""
    script = tmp_path / "nonsense.bin"
    script.write_bytes(b"\n".join(_NONSENSE) + b"\n")
    run_id = trainer.submit("says", extras={"file": str(script)})
    end = trainer.ended(run_id)
    assert end.outcome == "completed"
    assert end.quarantined_lines == len(_NONSENSE)
    assert end.metrics == {"still_here": 1.0}
    assert end.checkpoints == ()
    assert trainer.client.list_runs()[2] == 1


def test_n06_flood_of_notes_does_not_hold_the_daemon_up(trainer: Trainer, tmp_path: Path) -> None:
    """A worker that shouts loses notes, which are counted; what matters is never dropped."""
    script = tmp_path / "flood.bin"
    lines = [b'{"event":"note","run_id":"@RUN@","n":%d}' % number for number in range(20_000)]
    script.write_bytes(b"\n".join(lines) + b"\n")
    run_id = trainer.submit("says", extras={"file": str(script)})
    end = trainer.ended(run_id)
    assert end.outcome == "completed"
    notes = trainer.kinds(run_id).count("worker_note")
    assert notes >= 1
    assert notes + end.quarantined_lines == 20_000


@given(st.binary(max_size=300), st.integers(0, 400))
def test_n06_no_line_is_too_strange(noise: bytes, position: int) -> None:
    """Whatever a worker prints is a good line, a quarantined one, or plain output."""
    good = (
        b'{"event":"metrics","run_id":"%s","seq":4,"step":3,"values":{"a":1.5}}' % RUN_ID.encode()
    )
    for line in (noise, b'{"event":' + noise, good[:position] + noise + good[position:]):
        parsed = parse_line(line, RUN_ID, after_seq=2)
        assert parsed is None or isinstance(parsed, LifecycleLine | QuarantinedLine)


def _watched(tmp_path: Path) -> tuple[Run, Watch]:
    """A run in EXEC whose worker is this very process."""
    directory = RunDirectory(tmp_path)
    directory.logs.mkdir(exist_ok=True)
    run = Run(RUN_ID, state=State.EXEC, slots=("cpu:0",), launched_mono=1000.0, wallclock_s=3600.0)
    watch = Watch.of(directory, Vitals())
    watch.heartbeat_mono = 1000.0
    started = start_time(os.getpid())
    assert started is not None
    watch.keys = [ProcessKey(os.getpid(), started, boot_id())]
    return run, watch


@pytest.mark.parametrize("jump_s", [86_400.0, -86_400.0, 3_600.0, -3_600.0])
def test_n08_clock_jumps_cause_no_timeout(tmp_path: Path, jump_s: float) -> None:
    """A wall clock that jumps by a day or an hour stops, stalls and ends nothing."""
    run, watch = _watched(tmp_path)
    wall = 1_700_000_000.0
    assert list(observe(run, watch, Settings(), Now(wall, 1001.0), HERE)) == []
    assert list(observe(run, watch, Settings(), Now(wall + jump_s, 1002.0), HERE)) == []


def test_n08_only_the_monotonic_clock_counts(tmp_path: Path) -> None:
    """The limits hold by the clock that cannot jump."""
    run, watch = _watched(tmp_path)
    late = list(observe(run, watch, Settings(), Now(1_700_000_000.0, 1000.0 + 3601.0), HERE))
    assert [stimulus.kind for stimulus in late] == ["wallclock", "heartbeat"]  # type: ignore[union-attr]


def test_n08_ids_grow_when_the_clock_is_set_back(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run submitted after the clock went back is still the last one."""
    tomorrow = time.time_ns() + 86_400 * 10**9
    with monkeypatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: tomorrow)
        ahead = ids.new_run_id()
    first = trainer.client.submit(trainer.config("short"), idempotency_key=ahead).run_id
    trainer.ended(first)
    trainer.restart()
    second = trainer.submit("short")
    assert second > first
    assert trainer.client.get("last").run_id == second


def test_n09_worker_of_another_protocol(trainer: Trainer) -> None:
    """A worker that speaks another protocol is refused with both versions, and does not hang."""
    run_id = trainer.submit("from_the_future")
    end = trainer.ended(run_id)
    assert end.outcome == "failed"
    assert "speaks protocol 99, this daemon speaks 1" in end.reason
    assert "faulted" in trainer.kinds(run_id)
    assert trainer.free_slots() == 2


def test_n10_handshake_never_comes(make_trainer: MakeTrainer) -> None:
    """A worker that never shakes hands is ended at the deadline, and says why."""
    trainer = make_trainer(handshake_timeout_s="1").start()
    run_id = trainer.submit("mute")
    end = trainer.ended(run_id)
    assert end.outcome == "failed"
    assert "handshake timeout" in end.reason
    assert "faulted" in trainer.kinds(run_id)
    assert trainer.free_slots() == 2


def test_a_broken_worker_is_its_own_problem(trainer: Trainer) -> None:
    """A worker that cannot be loaded is refused by name; every other worker is as good as ever."""
    for worker, words in (
        ("broken_check", "(no_such_module:check) failed: ModuleNotFoundError"),
        ("broken_package", "no worker 'broken_package' is installed"),
    ):
        with pytest.raises(InvalidConfigError) as refused:
            trainer.client.submit({"algo": "short", "worker": worker})
        (problem,) = refused.value.problems
        assert (problem.pointer, problem.code) == ("/metadata/worker/type", "CFG105")
        assert words in problem.message
    listed = {worker.type: worker for worker in trainer.client.workers()}
    assert "no_such_package" in listed["broken_package"].problem
    assert trainer.ended(trainer.submit("short")).outcome == "completed"


def test_many_problems_reach_the_client(trainer: Trainer) -> None:
    """A refusal lists every one of hundreds of problems, although they do not fit its answer."""
    config = trainer.config("short", **{f"wrong_{number}": 1 for number in range(300)})
    with pytest.raises(InvalidConfigError) as refused:
        trainer.client.submit(config)
    assert len(refused.value.problems) == 300
    assert len(trainer.client.validate(config)) == 300


def test_a_locked_registry_does_not_stop_other_calls(trainer: Trainer) -> None:
    """While one call waits for the registry the daemon answers everybody else."""
    import sqlite3

    trainer.ended(trainer.submit("short"))
    holder = sqlite3.connect(trainer.home.registry, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    trainer.submit("short")
    answers: list[str] = []

    def ask_for_last() -> None:
        try:
            answers.append(trainer.client.get("last").run_id)
        except MosaicError as error:
            answers.append(str(error))

    waiting = threading.Thread(target=ask_for_last)
    waiting.start()
    for _ in range(10):
        trainer.client.health()
    assert answers == []
    waiting.join()
    holder.execute("ROLLBACK")
    holder.close()
    assert "locked" in answers[0]
