"""The record of a run: one list of fields behind the wire, `--json` and the reference page."""

import json
from dataclasses import FrozenInstanceError, fields

import pytest

from mosaic.records import (
    AlarmRecord,
    Capabilities,
    CheckpointRecord,
    Outcome,
    Progress,
    RunRecord,
    State,
)
from mosaic.records.fields import fields_of
from mosaic.records.wire import read_run, write_run
from mosaic.wire import trainer_pb2 as pb

# What `mosaic show --json` printed when the record became public. Names may be added, never lost.
PUBLIC = """
run_id run_name worker algo env_id seed state outcome reason wait_reason pid exit_code slots
progress metrics created_at started_at finished_at last_heartbeat run_dir checkpoints
alarms capabilities stalled stopping priority parent_run_id parent_step tags notes version
quarantined_lines mode
"""

FULL = RunRecord(
    run_id="01ARZ3NDEKTSV4RRFFQ69G5FAV",
    run_name="a name",
    worker="cleanrl",
    algo="ppo",
    env_id="CartPole-v1",
    seed=0,
    state=State.TERM,
    outcome=Outcome.FAILED,
    reason="it broke",
    wait_reason="gpu:0 is held",
    pid=12,
    exit_code=-9,
    slots=("cpu:0", "gpu:1"),
    progress=Progress(step=5, total=10, fraction=0.5, sps=2.5, eta_s=2.0),
    metrics={"sps": 2.5},
    created_at=1.5,
    started_at=2.5,
    finished_at=3.5,
    last_heartbeat=3.25,
    run_dir="/home/runs/x",
    checkpoints=(
        CheckpointRecord(path="a.pt", step=3, sha256="ab", kind="full", saved_at=2.75),
        CheckpointRecord(path="b.pt", step=4, sha256="cd", kind="policy", saved_at=3.0),
    ),
    alarms=(
        AlarmRecord(
            rule="kl-explosion",
            step=512,
            evidence="far",
            advice="less",
            checkpoint="a.pt",
            checkpoint_step=3,
            raised_at=3.5,
        ),
    ),
    capabilities=Capabilities({"algo": "ppo", "supports_pause": True, "its own": [1]}),
    stalled=True,
    stopping="cancelled",
    priority=-3,
    parent_run_id="01ARZ3NDEKTSV4RRFFQ69G5FAW",
    parent_step=4096,
    tags=("x", "y"),
    notes="note",
    version=7,
    quarantined_lines=2,
    mode="train",
    site="slurm:debug",
    job="812",
    host="n1",
    attempt=2,
)


def test_no_field_is_lost_on_the_wire() -> None:
    """Every field of a record arrives as it was sent, also one that is empty, zero or null."""
    empty = RunRecord(run_id="x")
    for item in fields(RunRecord):
        if item.name != "run_id":
            assert getattr(FULL, item.name) != getattr(empty, item.name), item.name
    for record in (FULL, empty):
        values = {item.name: getattr(record, item.name) for item in fields(record)}
        values["capabilities"] = dict(record.capabilities)
        sent = write_run(values).SerializeToString()
        assert read_run(pb.Run.FromString(sent)) == record


def test_the_wire_has_no_field_that_the_record_lacks() -> None:
    """What the daemon can send, clients can read: the message and the record have equal fields."""
    on_the_wire = {name.removesuffix("_json") for name in pb.Run.DESCRIPTOR.fields_by_name}
    assert on_the_wire == {item.name for item in fields(RunRecord)}


def test_json_keeps_its_keys_and_nulls() -> None:
    """A program that reads `mosaic show --json` finds the same keys, and null for what is unset."""
    printed = json.loads(json.dumps(FULL.to_dict()))
    public = PUBLIC.split()
    assert list(printed)[: len(public)] == public
    assert printed["state"] == "TERM"
    assert printed["slots"] == ["cpu:0", "gpu:1"]
    assert printed["progress"]["fraction"] == 0.5
    assert printed["checkpoints"][1]["kind"] == "policy"
    assert printed["capabilities"] == {"algo": "ppo", "supports_pause": True, "its own": [1]}
    unset = RunRecord(run_id="x").to_dict()
    nulls = {name for name, value in unset.items() if value is None}
    assert nulls == {
        "seed",
        "outcome",
        "reason",
        "wait_reason",
        "pid",
        "exit_code",
        "started_at",
        "finished_at",
        "last_heartbeat",
        "parent_step",
    }
    assert unset["capabilities"] == {}


def test_a_record_says_what_its_state_means() -> None:
    """A reader need not know the state machine's words, and cannot change a record."""
    assert FULL.ended
    assert not FULL.live
    assert not FULL.completed
    paused = RunRecord(run_id="x", state=State.PAUSE)
    assert paused.live
    assert paused.is_paused
    assert not paused.is_running
    newest, full = FULL.newest_checkpoint(), FULL.newest_checkpoint("full")
    assert newest is FULL.checkpoints[1]
    assert full is FULL.checkpoints[0]
    assert paused.newest_checkpoint() is None
    with pytest.raises(FrozenInstanceError):
        FULL.__setattr__("state", State.EXEC)


def test_every_field_is_described() -> None:
    """Whoever meets a field finds a sentence about it."""
    for record in (RunRecord, Progress, CheckpointRecord):
        for item in fields_of(record):
            assert item.description.endswith("."), item
