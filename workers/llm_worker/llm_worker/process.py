"""The worker's process: handshake, lifecycle lines, pause and stop, telemetry of each step."""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from llm_worker import WORKER
from llm_worker.errors import LlmError
from llm_worker.play.actions import Json
from mosaic.runs.disk import forgive_full_disks
from mosaic.workers.process import EXIT_FAILED, WorkerProcess

if TYPE_CHECKING:
    from mosaic.telemetry.emitter import TelemetryEmitter


@dataclass(frozen=True)
class Start:
    """What a run announces.

    Attributes:
        total: Episodes to play, or updates to learn.
        live: Whether each step is reported, as an agent that plays does.
    """

    algo: str
    env_id: str
    total: int
    live: bool = True


class LlmProcess(WorkerProcess):
    """One run of this worker; works with and without a daemon."""

    def __init__(self, config: Json, run_id: str, run_dir: Path) -> None:
        super().__init__(dict(config), run_id, run_dir)
        self.summary: Json = {}
        self.telemetry: TelemetryEmitter | None = None

    def begin(self, start: Start, target: str) -> None:
        """Shake hands when there is a daemon, then announce the start."""
        # Before anything is written: a full disk must not end the run in its first line.
        forgive_full_disks()
        signal.signal(signal.SIGTERM, self._terminated)
        facts: Json = {"algo": start.algo, "env_id": start.env_id}
        self._facts = {"worker": WORKER, **facts, "total": start.total}
        if target:
            self._connect(
                target, WORKER, {**facts, "supports_pause": True, "supports_checkpoint": True}
            )
            if start.live:
                self.telemetry = self._open_telemetry()
        self._announce()
        self._beat = threading.Thread(target=self._beat_forever, daemon=True)
        self._beat.start()

    def _open_telemetry(self) -> TelemetryEmitter:
        from mosaic.telemetry.emitter import TelemetryEmitter, follow_daemon

        return TelemetryEmitter(self.run_id, self.run_dir, follow_daemon(self.session))

    def _report_end(self, error: BaseException | None) -> int:
        # Telemetry first: the last line ends the run, and what comes after it is not read.
        if self.telemetry is not None:
            self.telemetry.close()
        if isinstance(error, LlmError):
            self.emit.run_failed(str(error), error.hint)
            return EXIT_FAILED
        if error is None and not self.stopping:
            self.emit.run_completed(**self.summary)
            return 0
        return super()._report_end(error)
