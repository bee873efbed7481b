"""Events on disk: what was written is read back, what was never an event is named and refused."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.trainer import Trainer

from mosaic.errors import EventError, RunDamagedError
from mosaic.records import Outcome
from mosaic.runs import eventlog
from mosaic.runs.eventlog import LogLine
from mosaic.trainer.core.decisions import Now, decide
from mosaic.trainer.core.eventcodec import decode, encode
from mosaic.trainer.core.events import Annotated, CheckpointSaved, Copied, RunEvent
from mosaic.trainer.core.folding import evolve
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.core.stimuli import AnnotateRequested
from mosaic.trainer.storage import history

KINDS = get_args(RunEvent)
# Lines as MOSAIC wrote them before events had classes.
OLD_LOG: list[tuple[str, dict[str, Any]]] = [
    (
        "submitted",
        {
            "run_name": "a run",
            "worker": "cleanrl",
            "module": "cleanrl_worker",
            "algo": "ppo",
            "env_id": "CartPole-v1",
            "seed": None,
            "mode": "train",
            "total_timesteps": 1000,
            "priority": 0,
            "parent_run_id": "",
            "parent_step": None,
            "idempotency_key": "",
            "cold": False,
            "request": {"cpus": 1, "gpus": 0, "gpus_mandatory": 0, "memory_mb": 0},
            "wallclock_s": None,
            "tags": ["a"],
            "notes": "",
        },
    ),
    ("slots_reserved", {"slots": ["cpu:0"], "epoch": 1, "boot_id": "b"}),
    ("launch_undone", {}),
    ("slots_reserved", {"slots": ["cpu:0"], "epoch": 2, "boot_id": "b"}),
    ("spawned", {"supervisor_pid": 10, "pid": 11}),
    ("worker_registered", {"capabilities": {"supports_pause": True, "extras": {"mode": "x"}}}),
    ("run_started", {}),
    ("worker_note", {"text": "hello", "event": "note"}),
    ("pause_requested", {"by_signal": False, "release": True}),
    ("paused", {}),
    ("resume_requested", {}),
    ("slots_regained", {"slots": ["cpu:1"]}),
    ("resumed", {}),
    ("stalled", {"detail": "no sign of life for 61 s"}),
    ("recovered", {}),
    ("adopted", {"epoch": 3}),
    ("worker_restarted", {"pid": 4711}),
    ("checkpoint_saved", {"path": "checkpoints/a", "step": 7, "sha256": "0", "kind": "full"}),
    ("stop_requested", {"outcome": "cancelled", "reason": "by hand", "kill_at_mono": 9}),
    ("failure_reported", {"reason": "terminated", "hint": ""}),
    ("completion_reported", {"summary": {"step": 7}}),
    ("faulted", {"reason": "the worker left 1 process behind"}),
    ("process_ended", {"code": 143, "signal": None, "detail": ""}),
    ("settled", {"outcome": "cancelled", "reason": "by hand", "finished_at": 20.5}),
    ("annotated", {"notes": "kept", "tags": []}),
    ("annotated", {"parent_run_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}),
    ("deleted", {}),
    ("restored", {}),
]


def _lines(happened: list[tuple[str, dict[str, Any]]]) -> list[LogLine]:
    return [LogLine(seq, kind, 10.0, 1, data) for seq, (kind, data) in enumerate(happened, 1)]


@pytest.mark.parametrize("kind", KINDS, ids=[kind.kind for kind in KINDS])
@given(data=st.data())
def test_every_event_survives_the_log(kind: Any, data: st.DataObject) -> None:
    """Written as JSON and read back, an event is the same event."""
    event = data.draw(st.builds(kind, **_free_fields(kind)))
    name, stored = encode(event)
    assert decode(name, json.loads(json.dumps(stored))) == event


def _free_fields(kind: Any) -> dict[str, Any]:
    """Numbers as a database holds them; free fields do not collide with named ones."""
    free = st.dictionaries(st.text().map(lambda key: f"x{key}"), st.integers() | st.text())
    whole, real = st.integers(-(2**63) + 1, 2**63 - 1), st.floats(-1e15, 1e15)
    # Damage is found in the files; no event says it.
    recorded = st.sampled_from([each for each in Outcome if each is not Outcome.DAMAGED])
    by_type = {
        int: whole,
        int | None: st.none() | whole,
        float: real,
        float | None: real,
        Outcome: recorded,
    }
    found = {each.name: by_type[each.type] for each in fields(kind) if each.type in by_type}
    free_names = {"said", "capabilities"} & {each.name for each in fields(kind)}
    return {**found, **dict.fromkeys(free_names, free)}


def test_a_log_of_an_earlier_version_is_read_whole(tmp_path: Path) -> None:
    """Everything an older MOSAIC wrote still gives its run, field by field."""
    eventlog.append(tmp_path, _lines(OLD_LOG))
    run = history.load(tmp_path)
    assert run is not None
    assert (run.state, run.outcome, run.version) == (State.TERM, "cancelled", len(OLD_LOG))
    assert (run.run_name, run.notes, run.tags) == ("a run", "kept", ())
    assert (run.parent_run_id, run.exit_code, run.finished_at) == (
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        143,
        20.5,
    )
    assert run.checkpoints[0].kind == "full"
    assert {kind for kind, _ in OLD_LOG} | {
        "checkpoint_requested",
        "checkpoint_confirmed",
        "checkpoint_refused",
        "copied",
        "alarm",
        "placed",
        "requeued",
        "contact_lost",
        "contact_regained",
        "stood_still",
    } == {kind.kind for kind in KINDS}


@pytest.mark.parametrize(
    ("kind", "data", "problem"),
    [
        ("surprise", {}, "kind: 'surprise' is not an event"),
        (7, {}, "kind: 7 is not an event"),
        ("deleted", [], r"data: \[\] is not an object"),
        ("deleted", {"more": 1}, "more: unknown field"),
        ("annotated", {"state": "TERM"}, "state: unknown field"),
        ("annotated", {"run_id": "x"}, "run_id: unknown field"),
        ("annotated", {"notes": 5}, "notes: 5 is not text"),
        ("annotated", {"tags": "ab"}, "tags: 'ab' is not a list"),
        ("annotated", {"tags": [1]}, "tags: 1 is not text"),
        ("annotated", {"notes": "\ud800"}, "notes: .* is not valid text"),
        ("spawned", {"pid": 1}, "supervisor_pid: missing"),
        ("spawned", {"pid": True, "supervisor_pid": 1}, "pid: True is not a whole number"),
        ("adopted", {"epoch": 2**70}, "epoch: .* is not a whole number"),
        ("settled", {"outcome": "won", "reason": "", "finished_at": 1}, "outcome: 'won' is not an"),
        (
            "settled",
            {"outcome": "lost", "reason": "", "finished_at": float("nan")},
            "finished_at: nan is not a finite number",
        ),
        ("pause_requested", {"by_signal": 1, "release": False}, "by_signal: 1 is neither"),
        ("submitted", {"request": {"cpus": "one"}}, "request: cpus: 'one' is not a whole number"),
        ("worker_registered", {"capabilities": 3}, "capabilities: 3 is not an object"),
    ],
)
def test_what_is_no_event_is_named(kind: Any, data: Any, problem: str) -> None:
    """The error says which field is wrong, what it holds and what it should be."""
    with pytest.raises(EventError, match=problem):
        decode(kind, data)


def test_the_error_names_run_event_and_field(tmp_path: Path) -> None:
    """A person can open the log at the line that is meant."""
    run_dir = tmp_path / "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    run_dir.mkdir()
    lines = [*OLD_LOG[:4], ("spawned", {"supervisor_pid": 1, "pid": "eleven"})]
    eventlog.append(run_dir, _lines(lines))
    with pytest.raises(RunDamagedError, match=r"01ARZ.*: event 5 \(spawned\).*pid: 'eleven'"):
        history.load(run_dir)


def test_an_annotation_changes_four_fields_and_no_other() -> None:
    """Name, notes, tags and priority; everything else of the row is out of its reach."""
    assert {each.name for each in fields(Annotated)} == {"run_name", "notes", "tags", "priority"}
    run = Run("r", state=State.TERM, run_name="old", notes="n", tags=("t",), version=3)
    decision = decide(run, AnnotateRequested(run_name="new", tags=()), Now(1.0, 1.0))
    after = evolve(run, history.Event(4, 1.0, 1.0, decision.events[0]))
    names = [each.name for each in fields(Run)]
    changed = {name for name in names if getattr(after, name) != getattr(run, name)}
    assert changed == {"run_name", "tags", "version"}
    sooner = decide(run, AnnotateRequested(priority=3), Now(1.0, 1.0)).events[0]
    assert evolve(run, history.Event(4, 1.0, 1.0, sooner)).priority == 3
    assert decide(run, AnnotateRequested(), Now(1.0, 1.0)).events == ()


def test_the_kind_of_a_checkpoint_keeps_its_name_on_disk() -> None:
    """The log calls it `kind`, as it always did; old readers and new ones agree."""
    event = CheckpointSaved("checkpoints/a", 5, "0", "full")
    assert encode(event) == (
        "checkpoint_saved",
        {"path": "checkpoints/a", "step": 5, "sha256": "0", "kind": "full"},
    )
    assert encode(Copied("x")) == ("copied", {"parent_run_id": "x"})


def test_a_damaged_log_is_one_runs_trouble(trainer: Trainer) -> None:
    """A daemon that must rebuild its registry names the damaged run and serves all the others."""
    sound, hurt = trainer.submit("short"), trainer.submit("short")
    trainer.ended(sound)
    trainer.ended(hurt)
    running = trainer.stepping().run_id
    trainer.kill()
    trainer.home.registry.unlink()
    path = trainer.directory(hurt).path / eventlog.FILE_NAME
    path.write_text(path.read_text().replace('"outcome": "completed"', '"outcome": "won"'))
    trainer.start()
    assert trainer.client.get(sound).outcome == "completed"
    assert trainer.wait_for(running, "EXEC")
    shown = trainer.client.get(hurt)
    assert shown.outcome == "damaged"
    assert "outcome: 'won' is not an outcome" in str(shown.reason)
    assert trainer.client.list_runs()[2] == 3
