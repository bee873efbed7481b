"""A pipeline (a shell script) as W sees it: its stdout tells what its phases do.

Runs of the worker inside the pipeline print their own lifecycle lines. They count as this run's:
steps are added up over phases, checkpoints keep their place in the run directory. Everything else
is passed on to stdout as it is.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from cleanrl_worker.modes.plan import Plan
from cleanrl_worker.relay import Event
from mosaic.config.pipeline import PipelineHeader, read_header
from mosaic.system import atomic
from mosaic.system.processes import process_state
from mosaic.workers.lifecycle import MARK

_PHASE = re.compile(rb"^@phase[:\s]+(.+?)\s*$")
_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 20
# What the lifecycle line of a run inside the pipeline says about that run alone.
_ITS_OWN = ("run_id", "seq", "at", "schema")


class PipelineProcess:
    """bash and whatever it starts, in this process's own group."""

    def __init__(
        self, child: subprocess.Popen[bytes], header: PipelineHeader, run_dir: Path
    ) -> None:
        self._child = child
        self._phases = _Phases(header, run_dir)
        self._unread = b""
        assert child.stdout is not None
        self._output = child.stdout
        # W must not wait for a silent pipeline: it has heartbeats to send and commands to obey.
        os.set_blocking(self._output.fileno(), False)

    @classmethod
    def start(cls, plan: Plan, environment: Mapping[str, str]) -> PipelineProcess:
        """Start bash on the plan's pipeline."""
        assert plan.pipeline is not None
        if plan.pipeline_text:
            atomic.write_text(plan.pipeline, plan.pipeline_text)
        child = subprocess.Popen(
            plan.command(),
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=plan.folder,
        )
        return cls(child, read_header(plan.pipeline), Path(environment["MOSAIC_RUN_DIR"]))

    @property
    def pid(self) -> int:
        """bash's own."""
        return self._child.pid

    def fileno(self) -> int:
        """What to wait on for news."""
        return self._output.fileno()

    def events(self) -> tuple[list[Event], bool]:
        """What the phases have said, and whether any process of it may say more."""
        try:
            chunk = os.read(self._output.fileno(), _CHUNK)
        except BlockingIOError:
            return [], True
        if not chunk:
            last, self._unread = self._unread, b""
            return self._lines([last]), False
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        # A progress bar without line ends would otherwise grow here for hours.
        if len(self._unread) > _LONGEST_LINE:
            lines, self._unread = [*lines, self._unread], b""
        return self._lines(lines), True

    def send(self, command: str) -> None:
        """Only `stop` means something to a pipeline."""
        if command == "stop":
            self._signal_everyone(signal.SIGTERM)

    def wait(self, block: bool) -> int | None:
        """bash's raw wait status once it, and all that holds its stdout, has ended."""
        code = self._child.wait() if block else self._child.poll()
        if code is None:
            return None
        # As `waitpid` gives it, so that W treats both kinds of children alike.
        return -code if code < 0 else code << 8

    def is_stopped(self) -> bool:
        """Whether bash is stopped by a signal."""
        return process_state(self.pid) == "T"

    def kill(self) -> None:
        """End bash and everything it started, at once."""
        self._signal_everyone(signal.SIGKILL)
        self._child.wait()

    def close(self) -> None:
        """Close the pipe; a last line without an end is passed on too."""
        self._lines([self._unread])
        self._output.close()

    def _signal_everyone(self, number: int) -> None:
        try:
            # One by one and not as a group: the group is W's own, too.
            bash = psutil.Process(self.pid)
            everyone = [bash, *bash.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in everyone:
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                pass

    def _lines(self, lines: list[bytes]) -> list[Event]:
        events: list[Event] = []
        for line in lines:
            found = self._phases.read(line)
            if found is None:
                sys.stdout.buffer.write(line + b"\n" if line else b"")
            else:
                events += found
        sys.stdout.buffer.flush()
        return events


class _Phases:
    """Turns the lines of a pipeline into events of one run."""

    def __init__(self, header: PipelineHeader, run_dir: Path) -> None:
        self._header = header
        self._run_dir = run_dir
        self._started = 0
        self._announced = False
        self._done = self._previous = self._step = 0
        self._folder = run_dir

    def read(self, line: bytes) -> list[Event] | None:
        """The events in a line; None when it is the pipeline's own output."""
        if match := _PHASE.match(line):
            self._announced = True
            return [self._begin(match[1].decode(errors="replace"))]
        if not line.startswith(MARK):
            return None
        try:
            event = json.loads(line)
            return self._nested({key: event[key] for key in event if key not in _ITS_OWN})
        except (KeyError, TypeError, ValueError):
            return None

    def _nested(self, event: Event) -> list[Event]:
        match event.get("event"):
            case "run_started":
                self._folder = Path(str(event.get("run_dir") or self._run_dir))
                name = f"{event.get('algo')} in {event.get('env_id')}"
                began = [] if self._announced else [self._begin(self._planned_name(name))]
                if event.get("mode") == "resume_training":
                    # Its steps continue where the phase before it ended.
                    self._done -= self._previous
                return began
            case "metrics":
                self._step = int(event["step"])
                total = self._header.total_timesteps
                return [{**event, "step": self._done + self._step, "total": total}]
            case "checkpoint_saved":
                return self._checkpoint(event)
            case "run_completed" | "run_failed":
                self._done, self._previous, self._step = self._done + self._step, self._step, 0
                return []
            case "heartbeat":
                return []
            case "curriculum_stage" if "step" in event:
                return [{**event, "step": self._done + int(event["step"])}]
            case _:
                return [event]

    def _checkpoint(self, event: Event) -> list[Event]:
        path = self._folder / str(event["path"])
        if not path.is_relative_to(self._run_dir):
            return []
        relative = path.relative_to(self._run_dir).as_posix()
        step = self._done + int(event["step"])
        return [{**event, "path": relative, "step": step}]

    def _planned_name(self, fallback: str) -> str:
        planned = self._header.phases
        return planned[self._started] if self._started < len(planned) else fallback

    def _begin(self, name: str) -> Event:
        number, self._started = self._started, self._started + 1
        return {
            "event": "phase_started",
            "phase": number,
            "name": name,
            "phases": len(self._header.phases),
            # Of the whole run: charts begin another curve here.
            "step": self._done + self._step,
        }
