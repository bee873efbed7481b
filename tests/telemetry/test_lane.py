"""The whole lane over a real socket: emitter, service, hub, store, viewers, kills."""

import sqlite3
import threading
import time
from typing import Any

import grpc
import psutil
import pytest
from support.lane import AUTH, RUN, LaneServer, make_steps, wait_until
from support.patience import PATIENCE_S

from mosaic.telemetry.emitter import TelemetryEmitter, follow_daemon
from mosaic.telemetry.records import Kind
from mosaic.telemetry.ring import RING_RECORDS
from mosaic.telemetry.schema import store_path
from mosaic.telemetry.spool import spool_path
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc as rpc


def publish(stub: rpc.TrainerStub, batches: list[pb.StepBatch], acknowledged: int) -> list[Any]:
    """Send batches on one stream and read credits until `acknowledged` is reached."""
    seen: list[Any] = []

    def requests() -> Any:
        yield pb.StepBatch(run_id=RUN)
        yield from batches
        wait_until(lambda: bool(seen) and seen[-1].acknowledged >= acknowledged)

    for credit in stub.PublishRunSteps(requests(), metadata=AUTH, timeout=PATIENCE_S):
        seen.append(credit)
        if credit.acknowledged >= acknowledged:
            break
    return seen


def read(stub: rpc.TrainerStub, **request: Any) -> list[pb.StepBatch]:
    """Everything a viewer that does not follow gets."""
    call = stub.StreamRunSteps(
        pb.StreamRunStepsRequest(run_id=RUN, **request), metadata=AUTH, timeout=PATIENCE_S
    )
    return list(call)


def test_what_a_worker_emits_is_stored_and_streamed_complete_and_in_order(
    lane: LaneServer, stub: rpc.TrainerStub
) -> None:
    """Every step and episode arrives once, in order, with its frame."""
    emitter = lane.emitter()
    for n in range(3000):
        emitter.step(
            episode=n // 100, step=n % 100, observation=[n, 0.5], action=n % 4, reward=0.1,
            terminated=n % 100 == 99, info={"belief": n}, frame=b"picture %d" % (n % 7),
        )  # fmt: skip
    for n in range(30):
        emitter.episode(episode=n, length=100, total_reward=10.0, outcome="won", seed=n)
    assert emitter.close(20) == 0
    batches = read(stub)
    steps = [s for b in batches for s in b.steps]
    assert [s.seq for s in steps] == list(range(1, 3001))
    assert [s.frame for s in steps] == [b"picture %d" % (n % 7) for n in range(3000)]
    assert [s.observation_json for s in steps[:2]] == ["[0,0.5]", "[1,0.5]"]
    one = [s.step for b in read(stub, episode=7) for s in b.steps]
    assert one == list(range(100))
    assert [e.episode for e in lane.stored(Kind.EPISODES)] == list(range(30))


def test_killing_the_daemon_costs_no_record_while_the_worker_lives(lane: LaneServer) -> None:
    """`kill -9` of the daemon in the middle: after its restart everything is there."""
    emitter = lane.emitter()
    for n in range(5000):
        emitter.step(episode=0, step=n, observation=n, action=0, reward=1.0)
    wait_until(lambda: store_path(lane.run_dir(RUN)).exists())
    lane.kill()
    for n in range(5000, 30000):
        emitter.step(episode=0, step=n, observation=n, action=0, reward=1.0)
    assert emitter.stats()["steps"].spooled > 0
    assert emitter.trouble
    lane.start()
    assert emitter.close(30) == 0
    lane.stop()
    assert [s.step for s in lane.stored()] == list(range(30000))
    [notice] = [n for n in lane.notices() if n["event"] == "telemetry_recovered"]
    assert "may be missing" in notice["message"]
    assert not spool_path(lane.run_dir(RUN), Kind.STEPS).exists()


def test_records_of_a_worker_that_ended_without_a_daemon_are_delivered_by_the_next_one(
    lane: LaneServer,
) -> None:
    """A worker may finish while the daemon is down; its spool is read when the run is opened."""
    lane.kill()
    emitter = lane.emitter()
    for n in range(700):
        emitter.step(episode=0, step=n, observation=n, action=0, reward=1.0)
    assert emitter.close(0.1) == 700
    assert spool_path(lane.run_dir(RUN), Kind.STEPS).exists()
    lane.start()
    with lane.channel() as channel:
        steps = [s.step for b in read(rpc.TrainerStub(channel)) for s in b.steps]
    assert steps == list(range(700))
    assert not spool_path(lane.run_dir(RUN), Kind.STEPS).exists()
    wait_until(lambda: any(n["event"] == "telemetry_spool_delivered" for n in lane.notices()))


def test_a_worker_that_is_started_by_hand_keeps_its_records(lane: LaneServer) -> None:
    """Without a daemon nothing is sent and nothing fails; the next daemon stores what is left."""
    threads = threading.active_count()
    emitter = TelemetryEmitter(RUN, lane.run_dir(RUN), follow_daemon(None), policy="slow")
    assert threading.active_count() == threads, "no daemon is looked for"
    for n in range(50):
        assert emitter.step(episode=0, step=n, observation=[n], action=0, reward=1.0)
    # An hour of patience is not used: there is nothing to wait for.
    assert emitter.close(3600.0) == 50
    with lane.channel() as channel:
        steps = [s.step for b in read(rpc.TrainerStub(channel)) for s in b.steps]
    assert steps == list(range(50))


def test_a_resumed_worker_goes_on_with_the_numbers(lane: LaneServer) -> None:
    """A second process on the same run continues the sequence instead of repeating it."""
    for part in range(2):
        emitter = lane.emitter()
        for n in range(100):
            emitter.step(episode=part, step=n, observation=n, action=0, reward=1.0)
        assert emitter.close(10) == 0
    assert [s.seq for s in lane.stored()] == list(range(1, 201))


def test_n03_a_slow_viewer_gets_a_gap_and_can_fetch_what_it_missed(
    lane: LaneServer, stub: rpc.TrainerStub
) -> None:
    """A viewer that stops reading learns which records it missed; the refetch completes them."""
    publish(stub, [pb.StepBatch(run_id=RUN, steps=make_steps(1, 1))], 1)
    view = stub.StreamRunSteps(
        pb.StreamRunStepsRequest(run_id=RUN, follow=True), metadata=AUTH, timeout=PATIENCE_S
    )
    first = next(view)
    assert [s.seq for s in first.steps] == [1]
    total = 3 * RING_RECORDS
    wide = [0.5] * 250  # more in all than the socket's buffers can hide
    emitter = lane.emitter()
    for n in range(1, total):
        emitter.step(episode=0, step=n, observation=wide, action=0, reward=1.0)
    assert emitter.close(60) == 0

    seen: set[int] = {1}
    gaps: list[pb.Gap] = []
    for batch in view:
        if batch.HasField("gap"):
            gaps.append(batch.gap)
        seen.update(s.seq for s in batch.steps)
        if total in seen:
            break
    view.cancel()
    assert gaps, "a viewer rings behind must be told"
    for gap in gaps:
        missed = range(getattr(gap, "from"), gap.to + 1)
        assert not seen & set(missed)
        refetched = [s.seq for b in read(stub, after=missed.start - 1) for s in b.steps]
        assert refetched[: len(missed)] == list(missed)
        seen.update(missed)
    assert seen == set(range(1, total + 1))


def test_n07_a_flood_that_ignores_credits_is_held_back_and_memory_stays_bounded(
    lane: LaneServer, stub: rpc.TrainerStub
) -> None:
    """100,000 records of a worker that ignores credits: all stored, under 300 MB."""
    assert lane.process is not None
    process = psutil.Process(lane.process.pid)
    peak = 0
    steps = make_steps(1, 100_000, observation_json="[" + "0.25," * 20 + "1]")
    batches = [pb.StepBatch(run_id=RUN, steps=steps[i : i + 1000]) for i in range(0, 100_000, 1000)]

    def flood() -> Any:
        nonlocal peak
        for batch in batches:
            peak = max(peak, process.memory_info().rss)
            yield batch

    publish(stub, flood(), 100_000)  # type: ignore[arg-type]
    assert len(lane.stored()) == 100_000
    assert max(peak, process.memory_info().rss) < 300_000_000


def test_a_store_that_stops_starves_the_worker_and_recovery_is_an_event(
    lane: LaneServer, stub: rpc.TrainerStub
) -> None:
    """STARVED and RESUMED reach the event log; the worker goes on learning meanwhile."""
    publish(stub, [pb.StepBatch(run_id=RUN, steps=make_steps(1, 1))], 1)
    emitter = lane.emitter(policy="sample")
    other = sqlite3.connect(store_path(lane.run_dir(RUN)), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    events: list[str] = []

    def happened(event: str) -> bool:
        nonlocal events
        events = [n["event"] for n in lane.notices()]
        return event in events

    def learn_until(event: str) -> None:
        n = 0
        deadline = time.monotonic() + PATIENCE_S
        while not happened(event) and time.monotonic() < deadline:
            for _ in range(2000):
                n += 1
                emitter.step(episode=0, step=n, observation=n, action=0, reward=1.0)

    learn_until("telemetry_starved")
    assert events.count("telemetry_starved") == 1
    other.execute("ROLLBACK")
    other.close()
    learn_until("telemetry_resumed")
    assert emitter.close(30) == 0
    assert emitter.stats()["steps"].dropped > 0
    stored = [s.seq for s in lane.stored()]
    assert stored == list(range(1, len(stored) + 1))


def test_a_worker_that_slows_down_is_never_held_for_ever(lane: LaneServer) -> None:
    """Policy slow waits for its patience, then drops and counts; learning goes on."""
    lane.kill()
    emitter = lane.emitter(policy="slow", patience_s=0.3)
    for n in range(20_000):
        emitter.step(episode=0, step=n, observation=n, action=0, reward=1.0)
    stats = emitter.stats()["steps"]
    assert stats.dropped > 0
    assert stats.taken + stats.dropped == 20_000
    assert stats.waited_s > 0
    lane.start()
    assert emitter.close(30) == 0
    assert len(lane.stored()) == stats.taken


def test_bad_records_are_counted_and_the_stream_goes_on(
    lane: LaneServer, stub: rpc.TrainerStub
) -> None:
    """NaN, oversized, foreign, repeated and late records end no stream and reach no viewer."""
    strange = pb.StepBatch(run_id="01JD00000000000000000000ZZ", steps=make_steps(1, 3))
    batches = [
        pb.StepBatch(run_id=RUN, steps=make_steps(1, 10)),
        pb.StepBatch(run_id=RUN, steps=make_steps(11, 1, reward=float("nan"))),
        strange,
        pb.StepBatch(run_id=RUN, steps=make_steps(5, 3)),
        pb.StepBatch(run_id=RUN, steps=make_steps(12, 1, info_json='"' + "x" * 2_000_000 + '"')),
        pb.StepBatch(run_id=RUN, steps=make_steps(20, 10)),
        pb.StepBatch(run_id=RUN, steps=make_steps(15, 1)),
        pb.StepBatch(run_id=RUN, steps=make_steps(30, 1)),
    ]
    publish(stub, batches, 30)
    assert [s.seq for s in lane.stored()] == [*range(1, 11), *range(20, 31)]
    with sqlite3.connect(f"file:{store_path(lane.run_dir(RUN))}?mode=ro", uri=True) as connection:
        counts = dict(connection.execute("SELECT reason, total FROM quarantine_counts"))
    connection.close()
    assert counts == {
        "not_a_number": 1, "other_run": 3, "duplicate": 3, "oversized": 1, "out_of_order": 1,
    }  # fmt: skip


def test_a_worker_does_not_wait_for_its_rejected_records(lane: LaneServer) -> None:
    """A record that is set aside is settled: it is neither spooled nor sent for ever."""
    emitter = lane.emitter()
    for reward in (1.0, float("nan"), 1.0, float("inf")):
        emitter.step(episode=0, step=0, observation=0, action=0, reward=reward)
    assert emitter.close(20) == 0
    assert [s.seq for s in lane.stored()] == [1, 3]
    wait_until(lambda: any(n["event"] == "telemetry_quarantined" for n in lane.notices()))


def test_a_damaged_store_is_named_to_its_viewer(lane: LaneServer, stub: rpc.TrainerStub) -> None:
    """A viewer of a run whose store is garbage gets a sentence; the hub lives on."""
    store_path(lane.run_dir(RUN)).parent.mkdir()
    store_path(lane.run_dir(RUN)).write_bytes(b"garbage" * 1000)
    with pytest.raises(grpc.RpcError, match="the telemetry store cannot be read"):
        read(stub)
    publish(stub, [pb.StepBatch(run_id=RUN, steps=make_steps(1, 5))], 5)
    assert sum(len(b.steps) for b in read(stub)) == 5


def test_a_stale_session_is_refused_and_a_new_token_delivers(lane: LaneServer) -> None:
    """A worker whose token expired keeps its records and sends them with the new one."""
    tokens = ["stale"]

    emitter = TelemetryEmitter(RUN, lane.run_dir(RUN), lambda: (lane.where_to()[0], tokens[-1]))
    for n in range(50):
        emitter.step(episode=0, step=n, observation=n, action=0, reward=1.0)
    assert "UNAUTHENTICATED" in emitter.trouble
    tokens.append(lane.where_to()[1])
    assert emitter.close(20) == 0
    assert len(lane.stored()) == 50


def test_an_unknown_run_is_named_in_the_refusal(stub: rpc.TrainerStub) -> None:
    """Asking for a run that is not there says so."""
    call = stub.StreamRunSteps(
        pb.StreamRunStepsRequest(run_id="01JD00000000000000000000QQ"),
        metadata=AUTH,
        timeout=PATIENCE_S,
    )
    with pytest.raises(grpc.RpcError, match="there is no run '01JD00000000000000000000QQ'"):
        next(call)


def test_n04_viewers_that_vanish_leave_nothing_behind(
    lane: LaneServer, stub: rpc.TrainerStub
) -> None:
    """500 viewers that hang up in the middle cost no memory and no open files."""
    publish(stub, [pb.StepBatch(run_id=RUN, steps=make_steps(1, 100))], 100)
    assert lane.process is not None
    process = psutil.Process(lane.process.pid)

    def look(times: int) -> None:
        for _ in range(times):
            view = stub.StreamRunSteps(
                pb.StreamRunStepsRequest(run_id=RUN, follow=True), metadata=AUTH, timeout=PATIENCE_S
            )
            assert len(next(view).steps) == 100
            view.cancel()

    look(20)
    files = process.num_fds()
    look(500)
    wait_until(lambda: process.num_fds() <= files + 3)


def test_following_a_run_that_is_over_ends_by_itself(
    lane: LaneServer, stub: rpc.TrainerStub
) -> None:
    """A viewer of a finished run gets everything and is not left waiting."""
    publish(stub, [pb.StepBatch(run_id=RUN, steps=make_steps(1, 700))], 700)
    (lane.run_dir(RUN) / "exit.json").write_text("{}")
    assert sum(len(b.steps) for b in read(stub, follow=True)) == 700


def test_minimal_telemetry_sends_summaries_only(lane: LaneServer) -> None:
    """An analytics worker shows that it lives without a record a step."""
    emitter = lane.emitter(minimal=True, summary_every_s=3600)
    for n in range(1000):
        emitter.step(episode=n, step=0, observation=0, action=0, reward=1.0)
        emitter.episode(episode=n, length=1, total_reward=1.0)
    assert emitter.close(10) == 0
    assert lane.stored() == []
    [summary] = lane.stored(Kind.EPISODES)
    assert summary.outcome == "summary"
    assert '"episodes":1000' in summary.info_json
