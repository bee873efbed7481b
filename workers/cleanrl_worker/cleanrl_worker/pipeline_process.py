"""A pipeline (a shell script) as W sees it: its stdout tells what its phases do.

Runs of the worker inside the pipeline print their own lifecycle lines. They count as this run's:
steps are added up over phases, curves follow each other (`phase_curves`), checkpoints keep their
place in the run directory. Everything else is passed on to stdout as it is.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import psutil

from cleanrl_worker.modes.plan import Plan
from cleanrl_worker.phase_curves import Events, PhaseCurves, Shift
from cleanrl_worker.relay import Event
from cleanrl_worker.running.bridge import CURVES_DIR
from cleanrl_worker.script_folders import SCRIPT_DIR
from mosaic.config.pipeline import PipelineHeader, read_header
from mosaic.curves.names import EPISODES, tag_of
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

    def __init__(self, child: subprocess.Popen[bytes], phases: _Phases) -> None:
        self._child = child
        self._phases = phases
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
        run_dir = Path(environment["MOSAIC_RUN_DIR"])
        curves = PhaseCurves(Path(environment[CURVES_DIR]), partial(_events, plan, environment))
        # Each phase has curves of its own; these here are made of them.
        variables = {**os.environ, **environment, SCRIPT_DIR: str(run_dir)}
        del variables[CURVES_DIR]
        child = subprocess.Popen(
            plan.command(),
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=plan.folder,
        )
        return cls(child, _Phases(read_header(plan.pipeline), run_dir, curves))

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
        self._phases.close()

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


def _events(plan: Plan, environment: Mapping[str, str]) -> Events:
    """The event file of the whole run, unless it wants none."""
    # Here: the worker of a run that is no pipeline starts without it.
    from cleanrl_worker.running.tensorboard import SWITCH, EventWriter, NoEvents

    assert plan.events is not None
    # W's own environment counts where this pipeline is a phase of another one.
    wanted = "off" not in (environment.get(SWITCH), os.environ.get(SWITCH))
    return EventWriter(plan.events) if wanted else NoEvents()


class _Phases:
    """Turns the lines of a pipeline into events of one run."""

    def __init__(self, header: PipelineHeader, run_dir: Path, curves: PhaseCurves) -> None:
        self._header = header
        self._run_dir = run_dir
        self._curves = curves
        self._started = 0
        self._announced = False
        # Of the whole run: steps trained, episodes finished and episodes judged.
        self._reached, self._episodes, self._judged = 0, 0.0, 0
        self._shift = Shift()
        # The last step of each phase, as the phase counts, and its episodes till there.
        self._ends: dict[int, float] = {}
        self._evaluates = False
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

    def close(self) -> None:
        """The pipeline has ended."""
        self._curves.close()

    def _nested(self, event: Event) -> list[Event]:
        match event.get("event"):
            case "run_started":
                return self._follow(event)
            case "metrics":
                return [self._metrics(event)]
            case "checkpoint_saved":
                return self._checkpoint(event)
            case "run_completed" | "run_failed":
                self._end()
                return []
            case "heartbeat":
                return []
            case "curriculum_stage" if "step" in event:
                return [{**event, "step": self._shift.steps + int(event["step"])}]
            case _:
                return [event]

    def _follow(self, event: Event) -> list[Event]:
        """A run of the worker begins inside the pipeline."""
        # One that was killed has not said that it ended.
        self._end()
        self._folder = Path(str(event.get("run_dir") or self._run_dir))
        self._evaluates = event.get("mode") == "policy_eval"
        # One that continues another counts that one's steps and episodes, too. Where that one is
        # not of this pipeline, they stay in, as in any run that is continued.
        first = int(event.get("first_step", 0))
        self._shift = Shift(
            steps=self._reached - first if self._reached else 0,
            episodes=self._episodes - self._ends.get(first, 0.0),
            judged=self._judged,
        )
        curves = event.get("curves")
        self._curves.begin(Path(str(curves)) if curves else None, self._shift)
        name = f"{event.get('algo')} in {event.get('env_id')}"
        return [] if self._announced else [self._begin(self._planned_name(name))]

    def _end(self) -> None:
        """What the phase has stored is there in full: no later point can be one of its own."""
        self._curves.catch_up()
        self._reached = max(self._reached, self._curves.reached)
        self._judged = max(self._judged, self._curves.judged)
        own = self._reached - self._shift.steps
        self._ends[own] = self._episodes - self._shift.episodes

    def _metrics(self, event: Event) -> Event:
        step, total = int(event["step"]), self._header.total_timesteps
        values = {
            name: self._shift.value(tag_of(name), value) for name, value in event["values"].items()
        }
        if self._evaluates:
            # Its steps are episodes and its return is no return of training, so neither is passed
            # on where something was trained: they are in the curves of evaluations.
            if self._reached:
                step, values = self._reached, {}
            return {**event, "step": step, "total": total, "values": values}
        self._reached = max(self._reached, self._shift.steps + step)
        self._episodes = max(self._episodes, values.get(EPISODES, 0.0))
        self._curves.note(self._reached, total, values)
        return {**event, "step": self._reached, "total": total, "values": values}

    def _checkpoint(self, event: Event) -> list[Event]:
        path = self._folder / str(event["path"])
        if not path.is_relative_to(self._run_dir):
            return []
        relative = path.relative_to(self._run_dir).as_posix()
        step = self._shift.steps + int(event["step"])
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
            "step": self._reached,
        }
