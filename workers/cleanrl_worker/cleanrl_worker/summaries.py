"""Minimal telemetry: a summary of the episodes every few seconds, in the telemetry lane.

For people and tools that follow the lane of steps and episodes; the full numbers stay where a run
of this worker has them, in TensorBoard and its metric files.
"""

from __future__ import annotations

from pathlib import Path

from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.running.logger import EndedEpisodes
from mosaic.workers import WorkerSession


class Summaries:
    """Folds the episodes that the training process reports into records of the daemon's store."""

    def __init__(self, run_id: str, run_dir: Path, session: WorkerSession) -> None:
        from mosaic.telemetry.emitter import TelemetryEmitter, follow_daemon

        self._emitter = TelemetryEmitter(run_id, run_dir, follow_daemon(session), minimal=True)
        self._episodes = 0

    def note(self, ended: EndedEpisodes) -> None:
        """Episodes have ended: `count`, and the sums of their `steps` and `returns`."""
        count = int(ended["count"])
        self._episodes += count
        self._emitter.add_to_summary(count, int(ended["steps"]), float(ended["returns"]))
        self._emitter.summarise(self._episodes)

    def close(self) -> None:
        """Send the last summary."""
        self._emitter.close()


def open_summaries(
    config: CleanRLWorkerConfig, run_dir: Path, session: WorkerSession | None
) -> Summaries | None:
    """What `minimal_telemetry` asks for; nothing without it or without a daemon."""
    if not config.extras.minimal_telemetry or session is None:
        return None
    return Summaries(config.run_id, run_dir, session)
