"""The public record of a run: what `mosaic show --json` prints and the SDK returns."""

import json
from typing import Any

from mosaic.wire import trainer_pb2 as pb

RECORD_FIELDS = (
    "run_id",
    "run_name",
    "worker",
    "algo",
    "env_id",
    "seed",
    "state",
    "outcome",
    "reason",
    "wait_reason",
    "pid",
    "exit_code",
    "slots",
    "progress",
    "metrics",
    "created_at",
    "started_at",
    "finished_at",
    "last_heartbeat",
    "run_dir",
    "checkpoints",
    "capabilities",
    "stalled",
    "stopping",
    "priority",
    "parent_run_id",
    "tags",
    "notes",
    "version",
    "quarantined_lines",
    "mode",
)
_EMPTY_IS_NULL = ("outcome", "reason", "wait_reason", "pid", "started_at", "finished_at")


def run_record(run: pb.Run) -> dict[str, Any]:
    """A run as a plain dictionary with a stable set of keys."""
    record: dict[str, Any] = {}
    for name in RECORD_FIELDS:
        record[name] = getattr(run, name, None)
    record["seed"] = run.seed if run.HasField("seed") else None
    record["exit_code"] = run.exit_code if run.HasField("exit_code") else None
    record["slots"] = list(run.slots)
    record["tags"] = list(run.tags)
    record["metrics"] = dict(run.metrics)
    progress = run.progress
    record["progress"] = {
        "step": progress.step,
        "total": progress.total,
        "fraction": progress.fraction,
        "sps": progress.sps,
        "eta_s": progress.eta_s,
    }
    record["checkpoints"] = [
        {
            "path": item.path,
            "step": item.step,
            "sha256": item.sha256,
            "kind": item.kind,
            "saved_at": item.saved_at,
        }
        for item in run.checkpoints
    ]
    record["capabilities"] = json.loads(run.capabilities_json or "{}")
    for name in (*_EMPTY_IS_NULL, "last_heartbeat"):
        record[name] = record[name] or None
    return record


def change_record(change: pb.RunChange) -> dict[str, Any]:
    """One message of WatchRuns: `kind` is run, removed, snapshot_end or gap."""
    kind = change.WhichOneof("change")
    record: dict[str, Any] = {
        "kind": kind,
        "generation": change.generation,
        "sequence": change.sequence,
    }
    if kind == "run":
        record["run"] = run_record(change.run)
    elif kind == "removed":
        record["run_id"] = change.removed
    elif kind == "gap":
        record["from"], record["to"] = getattr(change.gap, "from"), change.gap.to
    return record
