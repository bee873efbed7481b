"""`CleanRLWorkerRuntime`: the worker process W. It starts the training process T, shakes hands,
passes events and commands between them, and says how it ended.

T is started before anything of gRPC is loaded: forked when this process already has torch (it was
itself forked from a warm one), else as a fresh interpreter.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cleanrl_worker.analytics import write_manifest
from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.resolution import DEFAULT_ALGO_REGISTRY, Script, resolve
from cleanrl_worker.training_process import TrainingProcess
from mosaic.runs.provenance import write_provenance
from mosaic.workers import HandshakeRefusedError, LifecycleEmitter, WorkerSession

__all__ = ["DEFAULT_ALGO_REGISTRY", "CleanRLWorkerRuntime"]

EXIT_FAILED, EXIT_REFUSED, EXIT_TERMINATED = 1, 2, 128 + signal.SIGTERM
_HEARTBEAT_S = 10.0
_TURN_S = 0.5


@dataclass
class CleanRLWorkerRuntime:
    """One run, from start to last word.

    Attributes:
        config: What is asked.
        run_dir: Where everything goes.
        target: The daemon's address, or None to work alone.
    """

    config: CleanRLWorkerConfig
    run_dir: Path
    target: str | None = None
    _session: WorkerSession | None = None
    _failure: str = ""
    _stopping: bool = False
    _last_step: int = 0
    _unread: bytes = b""
    _handlers: dict[str, Callable[[dict[str, Any]], None]] = field(default_factory=dict)

    def command(self) -> list[str]:
        """The exact command line of the training process."""
        return [sys.executable, "-m", "cleanrl_worker.launcher", *self.launch_arguments()]

    def launch_arguments(self) -> list[str]:
        """What the launcher is told: the script and its flags."""
        script = resolve(self.config.algo)
        return [script.target, *script_flags(self.config, script, self.run_dir)]

    def run(self) -> int:
        """Train; returns this process's exit status."""
        self.run_dir.mkdir(parents=True, exist_ok=True)
        emitter = LifecycleEmitter(self.config.run_id)
        training = TrainingProcess.start(self.launch_arguments(), self._environment())
        signal.signal(signal.SIGTERM, lambda *_: self._stop(training))
        signal.signal(signal.SIGINT, lambda *_: self._stop(training))
        try:
            self._shake_hands(training)
        except HandshakeRefusedError as error:
            training.kill()
            emitter.run_failed(str(error))
            return EXIT_REFUSED
        emitter.run_started(
            worker="cleanrl",
            algo=self.config.algo,
            env_id=self.config.env_id,
            total=self.config.total_timesteps or 0,
        )
        training.send("go")
        self._save_provenance()
        status = self._follow(training, emitter)
        write_manifest(self.config, self.run_dir)
        code = self._last_words(status, emitter)
        if self._session is not None:
            self._session.close()
        return code

    def _shake_hands(self, training: TrainingProcess) -> None:
        if self.target is None:
            return
        capabilities = {
            "algo": self.config.algo,
            "env_id": self.config.env_id,
            "supports_pause": self._is_bundled(),
            "supports_checkpoint": self._is_bundled(),
            "extras": {"mode": self.config.mode},
        }
        self._session = WorkerSession.register(self.target, "cleanrl", capabilities)
        self._session.listen(training.send)

    def _is_bundled(self) -> bool:
        return resolve(self.config.algo).bundled

    def _follow(self, training: TrainingProcess, emitter: LifecycleEmitter) -> int:
        """Pass events on until the training process has ended; its raw wait status."""
        beat_at = 0.0
        while True:
            readable, _, _ = select.select([training.bridge], [], [], _TURN_S)
            open_ = self._relay(training.bridge, emitter) if readable else True
            now = time.monotonic()
            if now >= beat_at and not training.is_stopped():
                emitter.heartbeat()
                beat_at = now + _HEARTBEAT_S
            status = training.wait(block=not open_)
            if status is not None:
                self._relay(training.bridge, emitter)
                return status

    def _relay(self, bridge: socket.socket, emitter: LifecycleEmitter) -> bool:
        """Handle the lines that have arrived; False when T has closed its end."""
        while True:
            try:
                chunk = bridge.recv(1 << 16, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not chunk:
                return False
            *lines, self._unread = (self._unread + chunk).split(b"\n")
            for line in lines:
                self._handle(json.loads(line), emitter)

    def _handle(self, event: dict[str, Any], emitter: LifecycleEmitter) -> None:
        kind = event.pop("event")
        match kind:
            case "metrics":
                self._last_step = event["step"]
                emitter.metrics(event["step"], event["total"], event["values"])
            case "checkpoint_saved":
                emitter.checkpoint_saved(**event)
            case "run_failed":
                self._failure = str(event.get("reason", ""))
            case "paused" | "resumed":
                if self._session is not None:
                    self._session.report(kind)
            case _:
                emitter.note(kind, event)

    def _stop(self, training: TrainingProcess) -> None:
        self._stopping = True
        training.send("stop")

    def _last_words(self, status: int, emitter: LifecycleEmitter) -> int:
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
            emitter.run_completed(step=self._last_step)
            return 0
        if self._stopping and code == EXIT_TERMINATED:
            emitter.run_failed("terminated")
            return EXIT_TERMINATED
        emitter.run_failed(self._failure or f"the training process ended with exit code {code}")
        return EXIT_FAILED

    def _environment(self) -> dict[str, str]:
        """What the training process needs beside this process's own environment."""
        from cleanrl_worker.fastlane.launch import launch_environment

        extras = {"fastlane_video_mode": "single", **self.config.extras}
        return {
            **launch_environment(extras),
            "MOSAIC_RUN_DIR": str(self.run_dir),
            "CLEANRL_RUN_DIR": str(self.run_dir),
        }

    def _save_provenance(self) -> None:
        if not (self.run_dir / "provenance.json").exists():
            seeds = {"seed": self.config.seed}
            write_provenance(self.run_dir, self.command(), seeds, self.config.env_id)


def script_flags(config: CleanRLWorkerConfig, script: Script, run_dir: Path) -> Sequence[str]:
    """A run's settings as flags of its script; a setting the script does not know is left out
    where it is the worker's own, and was refused by validation where it is the user's."""
    extras, known = config.extras, script.schema.arguments
    settings: dict[str, Any] = {
        "env_id": config.env_id or None,
        "seed": config.seed,
        "total_timesteps": config.total_timesteps,
        "cuda": config.cuda,
        "track": extras.get("track_wandb") or None,
        "wandb_project_name": extras.get("wandb_project_name"),
        "wandb_entity": extras.get("wandb_entity"),
        "capture_video": extras.get("capture_video") or None,
        "run_dir": str(run_dir),
        "tensorboard_dir": str(run_dir / str(extras.get("tensorboard_dir") or "tensorboard")),
        "keep_checkpoints": extras.get("keep_checkpoints"),
        "resume": extras.get("checkpoint_path") if config.mode == "resume_training" else None,
        **config.script_parameters(),
    }
    flags: list[str] = []
    for name, value in settings.items():
        if name in known and value is not None:
            flags += format_flag(name, value)
    return flags


def format_flag(name: str, value: Any) -> list[str]:
    """One setting as tyro understands it."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", str(value)]
