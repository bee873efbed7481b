"""Rows and events as protobuf messages."""

import json

from mosaic.trainer.core.states import State
from mosaic.trainer.storage.registry import StoredRun
from mosaic.wire import trainer_pb2 as pb


def _fraction(stored: StoredRun, total: int) -> float:
    """How much is done. A completed run has done everything it was asked to do.

    Its last step may lie below the total, which need not be a multiple of the batch.
    """
    if stored.run.outcome == "completed":
        return 1.0
    return min(1.0, stored.vitals.step / total) if total else 0.0


def run_message(stored: StoredRun, run_dir: str, wait_reason: str = "") -> pb.Run:
    """A run as clients see it."""
    run, vitals = stored.run, stored.vitals
    total = vitals.total or run.total_timesteps
    sps = vitals.metrics.get("sps", 0.0)
    running = run.state in (State.EXEC, State.PAUSE)
    return pb.Run(
        run_id=run.run_id,
        run_name=run.run_name,
        worker=run.worker,
        algo=run.algo,
        env_id=run.env_id,
        seed=run.seed,
        state=str(run.state),
        outcome=run.outcome,
        reason=run.reason,
        wait_reason=wait_reason,
        pid=run.pid,
        exit_code=run.exit_code if run.exit_signal is None else -run.exit_signal,
        slots=run.slots,
        progress=pb.Progress(
            step=vitals.step,
            total=total,
            fraction=_fraction(stored, total),
            sps=sps,
            eta_s=vitals.eta_s if running else 0.0,
        ),
        metrics=vitals.metrics,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        last_heartbeat=vitals.last_heartbeat,
        run_dir=run_dir,
        checkpoints=[
            pb.Checkpoint(
                path=item.path,
                step=item.step,
                sha256=item.sha256,
                kind=item.kind,
                saved_at=item.saved_at,
            )
            for item in run.checkpoints
        ],
        capabilities_json=json.dumps(dict(run.capabilities)),
        stalled=run.stalled,
        stopping=run.stopping if run.live else "",
        priority=run.priority,
        parent_run_id=run.parent_run_id,
        tags=run.tags,
        notes=run.notes,
        version=run.version,
        quarantined_lines=vitals.quarantined,
        mode=run.mode,
    )
