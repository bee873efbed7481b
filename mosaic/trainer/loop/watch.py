"""What the daemon keeps in memory about a live run, beyond its row.

The position in its log, the newest vital signs, its processes and clocks, and the curves that the
daemon keeps for workers without any. Nothing here is lost with the daemon: it is read again.
"""

import time
from dataclasses import dataclass, field, replace

from mosaic.runs.directory import RunDirectory
from mosaic.runs.supervised import process_keys, process_place
from mosaic.system.processes import ProcessKey, is_alive
from mosaic.trainer.loop.health import HealthWatch
from mosaic.trainer.loop.tailer import LineTailer
from mosaic.trainer.storage.curves import CurveKeeper
from mosaic.trainer.storage.registry import Vitals
from mosaic.workers.lifecycle import LifecycleLine

# Of what a worker says about where its training process is, or what it is doing.
LONGEST_PLACE = 300


@dataclass
class Watch:
    """What the daemon knows about a live run beyond its row.

    Attributes:
        vitals: Newest vital signs.
        heartbeat_mono: When the worker was last heard.
        watched_mono: Since when this daemon watches without a break; no worker could register
            with it before.
        last_word_mono: When this daemon first saw that the worker had said its end; 0 before that.
        wait_reason: Why it is not running yet, or what it does before its first step.
        vitals_dirty: The vital signs have not been published yet.
        curves: Its headline numbers on disk, where the worker does not store them itself.
        health: What the rules make of its headline numbers.
        persisted_mono: When the vital signs were last stored.
        frozen_s: How long nothing ran here while the run was alive, as far as that is not in its
            event log yet.
        host: The machine of its worker, as the supervisor wrote it down; empty on this one.
        job: The job there that the supervisor belongs to.
        lease: What the supervisor's lease held when it last changed.
        lease_mono: When that was, by our own clock: clocks of other machines may be hours off.
        looked_mono: When the files of a run that waits elsewhere were last looked at.
    """

    directory: RunDirectory
    vitals: Vitals
    tailer: LineTailer
    heartbeat_mono: float = field(default_factory=time.monotonic)
    watched_mono: float = field(default_factory=time.monotonic)
    last_word_mono: float = 0.0
    wait_reason: str = ""
    vitals_dirty: bool = False
    persisted_mono: float = 0.0
    frozen_s: float = 0.0
    keys: list[ProcessKey] = field(default_factory=list)
    host: str = ""
    job: str = ""
    lease: bytes = b""
    lease_mono: float = field(default_factory=time.monotonic)
    looked_mono: float = 0.0
    curves: CurveKeeper = field(init=False)
    health: HealthWatch = field(init=False)
    rate: "StepRate" = field(default_factory=lambda: StepRate())
    movement: "Movement" = field(default_factory=lambda: Movement())

    def __post_init__(self) -> None:
        self.curves = CurveKeeper(self.directory.path)
        self.health = HealthWatch(self.directory.path)

    @classmethod
    def of(cls, directory: RunDirectory, vitals: Vitals) -> "Watch":
        """Begin where the last daemon stopped reading."""
        return cls(directory, vitals, LineTailer(directory.stdout, offset=vitals.log_offset))

    def forgive(self, now: float) -> None:
        """Begin all waits again: nothing could be heard until now."""
        self.watched_mono = self.heartbeat_mono = self.movement.since = now
        self.last_word_mono = 0.0

    def thaw(self, gap_s: float, now: float) -> None:
        """Remember a time in which this process stood still until it is in the run's log."""
        self.forgive(now)
        self.frozen_s += gap_s

    def begin_attempt(self, number: int) -> None:
        """Look at the records of another attempt, whose worker numbers its lines afresh."""
        self.directory = replace(self.directory, attempt=number)
        self.keys, self.host, self.job, self.lease = [], "", "", b""
        self.vitals = replace(self.vitals, log_seq=0)
        self.movement, self.rate = Movement(), StepRate()

    def worker_key(self) -> ProcessKey | None:
        """The worker's process, once the supervisor has written it down."""
        if not self.keys:
            self.keys = process_keys(self.directory)
            self.host, self.job = process_place(self.directory) if self.keys else ("", "")
        return self.keys[0] if self.keys else None

    def anyone_alive(self) -> bool:
        """Whether the worker or its supervisor runs."""
        key = self.worker_key()
        if key is not None and is_alive(key):
            return True
        # A worker that was killed may have been started again by its supervisor.
        self.keys = process_keys(self.directory) or self.keys
        return any(is_alive(key) for key in self.keys)


@dataclass
class Movement:
    """Whether a run moves, and not only its pulse.

    A worker's heartbeat comes from the worker, not from the training process, which may spin for
    ever behind it. Only the step that the worker tells shows whether anything happens.

    Attributes:
        counted: The worker tells its step; without that nothing can be said.
        step: The newest step.
        since: When the step last changed.
        where: What the training process does instead, if the worker knows.
    """

    counted: bool = False
    step: int = -1
    since: float = field(default_factory=time.monotonic)
    where: str = ""

    def hear(self, line: LifecycleLine, now: float) -> None:
        """Take a vital sign into account."""
        step = line.fields.get("step")
        if not isinstance(step, int):
            return
        if line.event == "heartbeat":
            self.counted = True
            self.where = str(line.fields.get("where", ""))[:LONGEST_PLACE]
        if step != self.step:
            self.step, self.since = step, now

    def stuck(self, now: float, limit_s: float) -> bool:
        """Whether the step has not moved for longer than `limit_s`."""
        return self.counted and now - self.since > limit_s


@dataclass
class StepRate:
    """Steps a second, smoothed, for the estimate of the time left."""

    step: int = -1
    mono: float = 0.0
    value: float = 0.0

    def update(self, step: int, mono: float) -> float:
        """The rate after one more observation."""
        if self.step >= 0 and mono > self.mono and step >= self.step:
            fresh = (step - self.step) / (mono - self.mono)
            self.value = fresh if self.value == 0 else 0.7 * self.value + 0.3 * fresh
        self.step, self.mono = step, mono
        return self.value
