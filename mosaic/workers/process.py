"""One run from the worker's side: arguments, handshake, heartbeat, pause, stop.

A worker written with it is a loop:

    with WorkerProcess.start("example", capabilities) as worker:
        for step in range(total):
            if not worker.safe_point():
                break
            ...
            worker.emit.metrics(step, total, {"estimate": value})
"""

import argparse
import faulthandler
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from mosaic.errors import HandshakeRefusedError
from mosaic.runs.disk import forgive_full_disks
from mosaic.runs.opening import read_end
from mosaic.workers.handshake import WorkerSession
from mosaic.workers.lifecycle import HEARTBEAT_S, LifecycleEmitter, last_number

EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_TERMINATED = 128 + signal.SIGTERM
# A heartbeat comes every few seconds: among so many bytes there is one, whatever else is printed.
_LAST_LINES = 4 << 20
# Shorter than the daemon's patience with a process that has said its end.
_LINGERS_S = 10.0
_STDERR = 2


class WorkerProcess:
    """The plumbing of a worker; the work itself stays with its author.

    Attributes:
        config: The worker's own fields from the config file.
        run_dir: Where everything it produces goes.
        restarts: How often this run's worker was killed and started again.
        emit: The lifecycle channel.
    """

    def __init__(self, config: dict[str, Any], run_id: str, run_dir: Path) -> None:
        self.config = config
        self.run_id = run_id
        self.run_dir = run_dir
        self.restarts = int(os.environ.get("MOSAIC_RESTARTS", "0"))
        self.emit = LifecycleEmitter(run_id, after=self._said_so_far())
        self.session: WorkerSession | None = None
        self._stop = threading.Event()
        self._not_paused = threading.Event()
        self._not_paused.set()
        self._ended = threading.Event()
        self._checkpoint_wanted = threading.Event()
        self._beat: threading.Thread | None = None
        self._facts: dict[str, object] = {}

    @classmethod
    def start(
        cls,
        worker_kind: str,
        capabilities: Mapping[str, object],
        arguments: Sequence[str] | None = None,
    ) -> "WorkerProcess":
        """Read the command line and the config, shake hands, announce the start.

        Args:
            worker_kind: The worker's type.
            capabilities: What the worker registers with.
            arguments: The command line, `sys.argv` by default.

        Raises:
            SystemExit: The daemon refused the handshake (2).
        """
        options = parse_arguments(worker_kind, arguments)
        config = load_config(options.config) if options.config else {}
        # The environment counts: a config that was copied by hand may name another run.
        run_id = os.environ.get("MOSAIC_RUN_ID") or str(config.get("run_id", "standalone"))
        run_dir = Path(os.environ.get("MOSAIC_RUN_DIR", "."))
        process = cls(config, run_id, run_dir)
        forgive_full_disks()
        # Before the handshake: a run that is cancelled while it registers ends in good order.
        signal.signal(signal.SIGTERM, process._terminated)
        # The facts of `run_started`, kept because a daemon that joins late needs them again.
        process._facts = {"worker": worker_kind, "total": config.get("total_timesteps") or 0}
        if options.grpc:
            process._connect(options.grpc_target, worker_kind, capabilities)
        process._announce()
        process._beat = threading.Thread(target=process._beat_forever, daemon=True)
        process._beat.start()
        return process

    def safe_point(self, save: Callable[[], None] | None = None) -> bool:
        """Call often. Blocks while paused; False once the worker is asked to stop.

        Args:
            save: Writes a checkpoint of this moment; called before a pause and on request. A
                worker that registers with `supports_checkpoint` must give it.
        """
        self._checkpoint_if_wanted(save)
        if not self._not_paused.is_set() and not self._stop.is_set():
            # Saved before the answer: a paused run may be killed without losing anything.
            if save is not None:
                save()
            self._report("paused")
            # Looks up now and then: SIGTERM and a request to save only set a flag.
            while not self._not_paused.wait(timeout=0.5) and not self._stop.is_set():
                self._checkpoint_if_wanted(save)
            self._report("resumed")
        return not self._stop.is_set()

    @property
    def stopping(self) -> bool:
        """Whether the worker is asked to stop."""
        return self._stop.is_set()

    def __enter__(self) -> "WorkerProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Say how it ended and exit with the code that the contract asks for."""
        # The heartbeat stops first: the contract wants the end to be the last line.
        self._ended.set()
        code = self._report_end(error)
        if self.session is not None:
            self.session.close()
        # Interpreters have hung while they shut down, with gRPC's threads still there. One that
        # does says where in the run's error log, before the daemon ends it.
        faulthandler.dump_traceback_later(_LINGERS_S, file=_STDERR)
        if code and error is None:
            sys.exit(code)

    def _report_end(self, error: BaseException | None) -> int:
        # An exit that the worker chose itself keeps its own status.
        if isinstance(error, SystemExit):
            return 0
        if error is not None:
            self.emit.run_failed(f"{type(error).__name__}: {error}")
            return EXIT_FAILED
        if self._stop.is_set():
            self.emit.run_failed("terminated")
            return EXIT_TERMINATED
        self.emit.run_completed()
        return 0

    def _said_so_far(self) -> int:
        """The number of the last line before this process was started again."""
        if not self.restarts:
            return 0
        return last_number(read_end(self.run_dir, "logs/stdout.log", _LAST_LINES), self.run_id)

    def _connect(self, target: str, worker_kind: str, capabilities: Mapping[str, object]) -> None:
        try:
            self.session = WorkerSession.register(target, worker_kind, capabilities)
        except HandshakeRefusedError as error:
            self.emit.run_failed(str(error))
            sys.exit(EXIT_REFUSED)
        self.session.listen(self._obey, self._announce)

    def _announce(self) -> None:
        self.emit.run_started(**self._facts)

    def _obey(self, command: str) -> None:
        match command:
            case "pause":
                self._not_paused.clear()
            case "resume":
                was_paused = not self._not_paused.is_set()
                self._not_paused.set()
                # Taken back before the safe point: the loop never paused, so it will not answer.
                if not was_paused:
                    self._report("resumed")
            case "checkpoint":
                # Saved by the loop at its next safe point: here, on the session's thread, the
                # worker's state may be half changed.
                self._checkpoint_wanted.set()
            case "stop":
                self._stop.set()

    def _checkpoint_if_wanted(self, save: Callable[[], None] | None) -> None:
        if not self._checkpoint_wanted.is_set():
            return
        # Cleared before the save: a request that arrives during it asks for another one.
        self._checkpoint_wanted.clear()
        if save is None:
            self._report("refused", "this worker has nothing to save")
            return
        try:
            save()
        except OSError as error:
            # A full disk costs this checkpoint, not the run.
            self._report("refused", f"the checkpoint could not be written: {error}")
        else:
            self._report("checkpointed")

    def _report(self, status: str, detail: str = "") -> None:
        if self.session is not None:
            self.session.report(status, detail)

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        # Only a flag: the signal may have interrupted any line, even a save.
        self._stop.set()

    def _beat_forever(self) -> None:
        self.emit.heartbeat()
        while not self._ended.wait(HEARTBEAT_S):
            self.emit.heartbeat()


def parse_arguments(program: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line every worker understands."""
    parser = argparse.ArgumentParser(prog=program)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--grpc", action="store_true")
    parser.add_argument("--grpc-target", default="127.0.0.1:50055")
    return parser.parse_args(arguments)


def load_config(path: Path) -> dict[str, Any]:
    """The worker's own fields, from the nested or the flat shape."""
    document: dict[str, Any] = json.loads(path.read_text())
    nested = document.get("metadata", {}).get("worker", {}).get("config")
    return nested if isinstance(nested, dict) else document
