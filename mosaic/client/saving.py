"""Saving on request: a running run is asked for a checkpoint, and its answer is waited for."""

from mosaic.client.sdk import TrainerClient
from mosaic.errors import MosaicError
from mosaic.records import RunRecord


def save_now(trainer: TrainerClient, run_id: str, limit_s: float) -> RunRecord:
    """Ask a run to save, and wait until it has.

    Args:
        trainer: The daemon.
        run_id: A run that trains.
        limit_s: The longest wait for the worker's answer, in seconds.

    Returns:
        The run after it has saved.

    Raises:
        InvalidTransitionError: It does not run, or its worker cannot save on request.
        MosaicError: It refused, ended first, or has not answered in time.
    """
    asked = trainer.checkpoint(run_id)
    run_id, seen = asked.run_id, asked.version
    try:
        for record in trainer.follow(run_id, timeout_s=limit_s):
            # The answer is an event, and every event raises the version.
            for event in trainer.events(run_id, after=seen) if record.version > seen else ():
                seen = event.seq
                match event.kind:
                    case "checkpoint_confirmed":
                        return trainer.get(run_id)
                    case "checkpoint_refused":
                        reason = event.data["reason"]
                        raise MosaicError(f"run {run_id} saved nothing: {reason}")
        raise MosaicError(f"run {run_id} ended before it saved")
    except TimeoutError:
        raise MosaicError(
            f"run {run_id} has not answered within {limit_s:g} s; it saves at its next safe "
            f"point. See: mosaic show {run_id} --events"
        ) from None
