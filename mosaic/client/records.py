"""Messages of the daemon as plain data."""

from typing import Any

from mosaic.records.wire import read_run
from mosaic.wire import trainer_pb2 as pb


def change_record(change: pb.RunChange) -> dict[str, Any]:
    """One message of WatchRuns: `kind` is run, removed, snapshot_end or gap."""
    kind = change.WhichOneof("change")
    record: dict[str, Any] = {
        "kind": kind,
        "generation": change.generation,
        "sequence": change.sequence,
    }
    if kind == "run":
        record["run"] = read_run(change.run)
    elif kind == "removed":
        record["run_id"] = change.removed
    elif kind == "gap":
        record["from"], record["to"] = getattr(change.gap, "from"), change.gap.to
    return record
