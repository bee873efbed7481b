"""The worker's process: handshake, lifecycle lines, signals, pause and stop, telemetry."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.runs.disk import forgive_full_disks
from mosaic.workers.process import EXIT_FAILED, WorkerProcess
from spade_bdi_rl_worker.errors import WorkerError
from spade_bdi_rl_worker.manifest import write_manifest
from spade_bdi_rl_worker.settings import Settings

if TYPE_CHECKING:
    from mosaic.telemetry.emitter import TelemetryEmitter
    from spade_bdi_rl_worker.worlds import Move

WORKER = "spade_bdi"


class SpadeProcess(WorkerProcess):
    """One run of this worker; works with and without a daemon."""

    def __init__(self, config: dict[str, object], run_id: str, run_dir: Path) -> None:
        super().__init__(config, run_id, run_dir)
        self.summary: dict[str, object] = {}
        self.telemetry: TelemetryEmitter | None = None

    def begin(self, settings: Settings, target: str) -> None:
        """Shake hands when there is a daemon, then announce the start."""
        self._settings = settings
        # Before anything is written: a full disk must not end the run in its first line.
        forgive_full_disks()
        signal.signal(signal.SIGTERM, self._terminated)
        capabilities = {
            "algo": "q_learning",
            "env_id": settings.env_id,
            "supports_pause": True,
            "supports_checkpoint": settings.mode != "policy_eval",
            "extras": {"mode": settings.mode, "headless": settings.headless},
        }
        self._facts = {
            "worker": WORKER,
            "algo": "q_learning",
            "env_id": settings.env_id,
            "total": settings.total_timesteps or settings.planned_episodes,
        }
        if target:
            self._connect(target, WORKER, capabilities)
            self.telemetry = self._open_telemetry(settings)
        self._announce()
        self._beat = threading.Thread(target=self._beat_forever, daemon=True)
        self._beat.start()

    async def safe_point_async(self, save: Callable[[], None]) -> bool:
        """A safe point that keeps the event loop, and so the XMPP link, alive while paused."""
        self._checkpoint_if_wanted(save)
        if self._is_paused():
            # Saved before it is reported: a paused run may be killed without losing anything.
            save()
            self._report("paused")
            # Not `safe_point`, which blocks the event loop. A tenth of a second is soon enough
            # for a person.
            while self._is_paused():
                self._checkpoint_if_wanted(save)
                await asyncio.sleep(0.1)
            self._report("resumed")
        return not self.stopping

    def tell_step(
        self,
        episode: int,
        step: int,
        move: Move,
        picture: bytes,
        info: Mapping[str, object] | None = None,
        agent_id: str = "",
    ) -> None:
        """Record a step when there is a daemon to record it."""
        if self.telemetry is not None:
            self.telemetry.step(
                episode=episode,
                step=step,
                observation=move.seen,
                action=move.action,
                reward=move.reward,
                terminated=move.terminated,
                truncated=move.truncated,
                info=info,
                frame=picture,
                agent_id=agent_id,
            )

    def tell_episode(
        self,
        episode: int,
        length: int,
        total: float,
        won: bool,
        seed: int,
        info: Mapping[str, object] | None = None,
        agent_id: str = "",
    ) -> None:
        """Record a finished episode when there is a daemon to record it."""
        if self.telemetry is not None:
            self.telemetry.episode(
                episode=episode,
                length=length,
                total_reward=total,
                outcome="won" if won else "lost",
                seed=seed,
                info=info,
                agent_id=agent_id,
            )

    def finish_telemetry(self) -> None:
        """Deliver what is left, and say so when something stays behind."""
        if self.telemetry is None:
            return
        left = self.telemetry.close()
        dropped = sum(stats.dropped for stats in self.telemetry.stats().values())
        if left or dropped:
            self.emit.note(
                "note", {"text": f"telemetry: {left} records spooled, {dropped} dropped"}
            )

    def _open_telemetry(self, settings: Settings) -> TelemetryEmitter:
        from mosaic.telemetry.emitter import TelemetryEmitter, follow_daemon

        return TelemetryEmitter(
            self.run_id,
            self.run_dir,
            follow_daemon(self.session),
            policy=settings.telemetry_policy,
            minimal=settings.minimal_telemetry or settings.headless,
        )

    def _is_paused(self) -> bool:
        return not self._not_paused.is_set() and not self._stop.is_set()

    def _report_end(self, error: BaseException | None) -> int:
        # Telemetry first: the last line ends the run, and what comes after it is not read.
        self.finish_telemetry()
        write_manifest(self.run_id, self._settings, self.run_dir)
        if isinstance(error, WorkerError):
            self.emit.run_failed(str(error), error.hint)
            return EXIT_FAILED
        if error is None and not self.stopping:
            self.emit.run_completed(**self.summary)
            return 0
        return super()._report_end(error)
