"""Stored runs as the message that clients make a record of."""

from dataclasses import fields

from mosaic.records.run import (
    Outcome,
    Progress,
    RunRecord,
    State,
)
from mosaic.records.wire import write_run
from mosaic.trainer.core.states import Run
from mosaic.trainer.storage.registry import StoredRun
from mosaic.wire import trainer_pb2 as pb

# Most of the record is the stored row under the same names; `run_message` makes the rest.
_AS_STORED = tuple({item.name for item in fields(RunRecord)} & {item.name for item in fields(Run)})


def run_message(stored: StoredRun, run_dir: str, wait_reason: str = "") -> pb.Run:
    """A run as it is sent to clients, who read it as a `RunRecord`."""
    run, vitals = stored.run, stored.vitals
    values: dict[str, object] = {name: getattr(run, name) for name in _AS_STORED}
    values |= {
        # By its enum: one that no client knows must fail here, where the run is shown as damaged.
        "outcome": Outcome(run.outcome) if run.outcome else None,
        "reason": run.reason or None,
        "wait_reason": wait_reason or None,
        "pid": run.pid or None,
        # As Python's `subprocess` has it: below zero it is the signal that ended the process.
        "exit_code": run.exit_code if run.exit_signal is None else -run.exit_signal,
        "progress": _progress(stored),
        "metrics": vitals.metrics,
        "started_at": run.started_at or None,
        "finished_at": run.finished_at or None,
        "last_heartbeat": vitals.last_heartbeat or None,
        "run_dir": run_dir,
        "stopping": run.stopping if run.live else "",
        "quarantined_lines": vitals.quarantined,
    }
    return write_run(values)


def _progress(stored: StoredRun) -> Progress:
    run, vitals = stored.run, stored.vitals
    total = vitals.total or run.total_timesteps
    # The estimate of a run that no longer trains is out of date.
    training = run.state in (State.EXEC, State.PAUSE)
    return Progress(
        step=vitals.step,
        total=total,
        fraction=_fraction(stored, total),
        sps=vitals.metrics.get("sps", 0.0),
        eta_s=vitals.eta_s if training else 0.0,
    )


def _fraction(stored: StoredRun, total: int) -> float:
    """The share that is done. A completed run has done everything, unless it was to stop before.

    Its last step may be below the total, which need not be a multiple of the batch.
    """
    stops_before = stored.run.stop_at is not None and stored.run.stop_at < total
    if stored.run.outcome == Outcome.COMPLETED and not stops_before:
        return 1.0
    return min(1.0, stored.vitals.step / total) if total else 0.0
