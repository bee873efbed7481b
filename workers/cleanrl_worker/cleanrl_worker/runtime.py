"""`CleanRLWorkerRuntime`: the worker process W. It starts the training process T, shakes hands,
passes events and commands between them, and says how it ended.

T is started before anything of gRPC is loaded: forked when this process already has torch (it was
itself forked from a warm one), else as a fresh interpreter.
"""

from __future__ import annotations

import hashlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cleanrl_worker.analytics import upstreams_policies, write_manifest
from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.modes import Plan, mode_of
from cleanrl_worker.pipeline_process import PipelineProcess
from cleanrl_worker.relay import Event, Relay
from cleanrl_worker.resolution import DEFAULT_ALGO_REGISTRY, UPSTREAM_PREFIX
from cleanrl_worker.running.bridge import CURVES_DIR
from cleanrl_worker.script_folders import SCRIPT_DIR, curves_folder
from cleanrl_worker.summaries import open_summaries
from cleanrl_worker.training_process import TrainingProcess
from mosaic.config.json_types import object_at
from mosaic.runs.directory import read_json
from mosaic.runs.disk import forgive_full_disks
from mosaic.runs.provenance import add_facts, write_provenance
from mosaic.workers import HandshakeRefusedError, LifecycleEmitter, WorkerSession
from mosaic.workers.lifecycle import HEARTBEAT_S

__all__ = ["DEFAULT_ALGO_REGISTRY", "CleanRLWorkerRuntime"]

EXIT_FAILED, EXIT_REFUSED, EXIT_TERMINATED = 1, 2, 128 + signal.SIGTERM
# How soon an end without a word is noticed; everything else wakes `select`.
_TURN_S = 0.5

Child = TrainingProcess | PipelineProcess


@dataclass
class CleanRLWorkerRuntime:
    """One run, from start to last word.

    Attributes:
        config: What is asked, completed by its mode.
        run_dir: Where everything goes.
        target: The daemon's address, or None to work alone.
    """

    config: CleanRLWorkerConfig
    run_dir: Path
    target: str | None = None
    _session: WorkerSession | None = None
    _stopping: bool = False
    _plan: Plan = field(init=False)
    _curves: Path = field(init=False)

    def __post_init__(self) -> None:
        self._plan = mode_of(self.config).plan(self.config, self.run_dir)

    def command(self) -> list[str]:
        """The exact command line of the training process."""
        return self._plan.command()

    def run(self) -> int:
        """Do what the config asks; returns this process's exit status."""
        self.run_dir.mkdir(parents=True, exist_ok=True)
        forgive_full_disks()
        self._curves = curves_folder(self.run_dir)
        emitter = LifecycleEmitter(self.config.run_id)
        child = self._start()
        signal.signal(signal.SIGTERM, lambda *_: self._stop(child))
        signal.signal(signal.SIGINT, lambda *_: self._stop(child))
        try:
            self._shake_hands(child, emitter)
        except HandshakeRefusedError as error:
            child.kill()
            emitter.run_failed(str(error))
            return EXIT_REFUSED
        self._announce(emitter)
        child.send("go")
        # While T imports its libraries: listing the installed packages takes a moment.
        self._save_provenance()
        summaries = open_summaries(self.config, self.run_dir, self._session)
        relay = Relay(emitter, self._report, self._note_facts, summaries)
        status = self._follow(child, emitter, relay)
        child.close()
        relay.close()
        self._name_upstreams_policies(emitter, relay.step)
        # Before the last line, which the contract wants to be the last thing a run says.
        _unless_disk_is_full(lambda: write_manifest(self.config, self.run_dir))
        code = self._last_words(status, emitter, relay)
        if self._session is not None:
            self._session.close()
        return code

    def _name_upstreams_policies(self, emitter: LifecycleEmitter, step: int) -> None:
        """Tell of what an upstream script has saved, which says nothing about it itself."""
        if not self.config.algo.startswith(UPSTREAM_PREFIX):
            return
        for path in upstreams_policies(self.run_dir):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            name = path.relative_to(self.run_dir).as_posix()
            emitter.checkpoint_saved(name, step, digest, "policy")

    def _start(self) -> Child:
        kind = TrainingProcess if self._plan.pipeline is None else PipelineProcess
        return kind.start(self._plan, self._environment())

    def _announce(self, emitter: LifecycleEmitter) -> None:
        in_script = {"first_step": self._plan.first_step, "curves": str(self._curves)}
        emitter.run_started(
            worker="cleanrl",
            algo=self.config.algo,
            env_id=self.config.env_id,
            total=self.config.total_timesteps or 0,
            mode=self.config.mode,
            run_dir=str(self.run_dir),
            **(in_script if SCRIPT_DIR in os.environ else {}),
        )

    def _shake_hands(self, child: Child, emitter: LifecycleEmitter) -> None:
        if self.target is None:
            return
        capabilities = {
            "algo": self.config.algo,
            "env_id": self.config.env_id,
            "supports_pause": self._plan.obeys,
            "supports_checkpoint": self._plan.saves,
            "extras": {"mode": self.config.mode},
        }
        self._session = WorkerSession.register(self.target, "cleanrl", capabilities)
        self._session.listen(child.send, lambda: self._announce(emitter))

    def _report(self, status: str, detail: str = "") -> None:
        if self._session is not None:
            self._session.report(status, detail)

    def _note_facts(self, facts: Event) -> None:
        known = read_json(self.run_dir / "provenance.json") or {}
        environment = {**object_at(known, "environment"), **facts["environment"]}
        _unless_disk_is_full(lambda: add_facts(self.run_dir, environment=environment))

    def _follow(self, child: Child, emitter: LifecycleEmitter, relay: Relay) -> int:
        """Pass events on until the training process has ended; its raw wait status."""
        beat_at = 0.0
        moved = relay.step, time.monotonic()
        while True:
            readable, _, _ = select.select([child], [], [], _TURN_S)
            events, open_ = child.events() if readable else ([], True)
            for event in events:
                relay.handle(event)
            now = time.monotonic()
            moved = moved if relay.step == moved[0] else (relay.step, now)
            if now >= beat_at and not child.is_stopped():
                self._beat(child, emitter, relay.step, now - moved[1])
                beat_at = now + HEARTBEAT_S
            # A child that still talks has not ended; one that is silent may have.
            status = None if events else child.wait(block=not open_)
            if status is not None:
                return self._drain(child, relay, status)

    def _beat(self, child: Child, emitter: LifecycleEmitter, step: int, standing_s: float) -> None:
        """Say how far training is and, if it does not move, where it stands.

        Only our own scripts count for certain: any other may train for hours and tell no step.
        """
        if not self._plan.saves or not isinstance(child, TrainingProcess):
            emitter.heartbeat()
            return
        emitter.heartbeat(step, child.where() if standing_s >= HEARTBEAT_S else "")

    def _drain(self, child: Child, relay: Relay, status: int) -> int:
        """What was said before the end still counts. A script that was stopped may have left
        phases behind that are still saving; one that ended by itself is not waited for longer."""
        waits = self._stopping and isinstance(child, PipelineProcess)
        open_ = True
        while open_:
            readable, _, _ = select.select([child], [], [], _TURN_S)
            if not readable and not waits:
                return status
            events, open_ = child.events() if readable else ([], True)
            for event in events:
                relay.handle(event)
        return status

    def _stop(self, child: Child) -> None:
        self._stopping = True
        child.send("stop")

    def _last_words(self, status: int, emitter: LifecycleEmitter, relay: Relay) -> int:
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if self._stopping:
                emitter.run_failed("terminated")
                return EXIT_TERMINATED
            name = signal.Signals(number).name
            emitter.run_failed(f"the training process was killed by signal {number} ({name})")
            return 128 + number
        code = os.WEXITSTATUS(status)
        if code == 0:
            emitter.run_completed(step=relay.step)
            return 0
        if self._stopping and code in (EXIT_TERMINATED, 128 + signal.SIGINT):
            emitter.run_failed("terminated")
            return EXIT_TERMINATED
        emitter.run_failed(relay.failure or f"the training process ended with exit code {code}")
        return EXIT_FAILED

    def _environment(self) -> dict[str, str]:
        """What the training process needs beside this process's own environment."""
        from cleanrl_worker.fastlane.launch import launch_environment
        from cleanrl_worker.running.tensorboard import SWITCH

        extras = self.config.extras
        # Frames are shown unless the run says no; the rest has defaults in the child.
        frames = {"fastlane_video_mode": "single", **extras.model_dump(exclude_unset=True)}
        return {
            **launch_environment(frames),
            **({} if extras.tensorboard_enabled else {SWITCH: "off"}),
            **self._plan.environment,
            "MOSAIC_RUN_DIR": str(self.run_dir),
            CURVES_DIR: str(self._curves),
            "CLEANRL_RUN_DIR": str(self.run_dir),
        }

    def _save_provenance(self) -> None:
        if not (self.run_dir / "provenance.json").exists():
            seeds, env_id = {"seed": self.config.seed}, self.config.env_id
            command = self.command()
            _unless_disk_is_full(lambda: write_provenance(self.run_dir, command, seeds, env_id))


def _unless_disk_is_full(write: Callable[[], object]) -> None:
    """Write a file that a run can do without; the run itself must still say how it ended."""
    try:
        write()
    except OSError as error:
        print(f"a file of the run directory could not be written: {error}", file=sys.stderr)
