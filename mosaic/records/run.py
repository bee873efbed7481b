"""The record of a run: its only list of fields.

The messages of the wire, `mosaic show --json`, the table in `docs/reference.md` and the window's
columns are all made from this list, so that a new field is added here (and to
`trainer.proto`) and nowhere else.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from mosaic.records.fields import Record


class State(StrEnum):
    """Where a run is in its life."""

    INIT = "INIT"
    HSHK = "HSHK"
    RDY = "RDY"
    EXEC = "EXEC"
    PAUSE = "PAUSE"
    FAULT = "FAULT"
    TERM = "TERM"


class Outcome(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIME_LIMIT = "time_limit"
    # The worker ended in good order because it may not spend more: tokens, dollars or minutes.
    BUDGET = "budget"
    LOST = "lost"
    INTERRUPTED = "interrupted"
    # Not how it ended, but all that can be said: what it left makes no sense.
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Record):
    """How far a run has come."""

    step: Annotated[int, "Environment steps done."] = 0
    total: Annotated[int, "Environment steps asked for; 0 if unknown."] = 0
    fraction: Annotated[
        float, "Share done, 0 to 1; exactly 1 once completed, unless it was to stop before."
    ] = 0.0
    sps: Annotated[float, "Steps per second."] = 0.0
    eta_s: Annotated[float, "Seconds left; 0 if unknown or not running."] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord(Record):
    """A saved state of the agent."""

    path: Annotated[str, "Relative to the run directory."]
    step: Annotated[int, "Environment step at which it was saved."]
    sha256: Annotated[str, "Checksum of the file."]
    kind: Annotated[str, "`policy` (can be evaluated) or `full` (can be resumed)."]
    saved_at: Annotated[float, "When it was saved."]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRecord(Record):
    """Something that went wrong in the training."""

    rule: Annotated[str, "What, by name, such as `kl-explosion`."]
    step: Annotated[int, "Step where it began."]
    evidence: Annotated[str, "The numbers, in a sentence."]
    advice: Annotated[str, "What to try."]
    checkpoint: Annotated[str, "Last full checkpoint from before it, pinned; empty if none."]
    checkpoint_step: Annotated[int | None, "Step of that checkpoint."]
    raised_at: Annotated[float, "When it was found."]


class Capabilities(Mapping[str, object]):
    """What a worker registered with: its own document, unchanged, and what MOSAIC reads of it."""

    __slots__ = ("_document",)

    def __init__(self, document: Mapping[str, object] | None = None) -> None:
        self._document = dict(document or {})

    def __getitem__(self, name: str) -> object:
        return self._document[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def __repr__(self) -> str:
        return f"Capabilities({self._document!r})"

    @property
    def supports_pause(self) -> bool:
        """The worker pauses itself; others are stopped by a signal."""
        return bool(self._document.get("supports_pause"))

    @property
    def supports_checkpoint(self) -> bool:
        """The worker saves checkpoints."""
        return bool(self._document.get("supports_checkpoint"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(Record):
    """A run as clients see it. Times are seconds since the epoch, for display."""

    run_id: Annotated[str, "ULID; unique everywhere, sorts by creation time."]
    run_name: Annotated[str, "Name for people."] = ""
    worker: Annotated[str, "Type of the worker that executes it."] = ""
    algo: Annotated[str, "Algorithm."] = ""
    env_id: Annotated[str, "Environment."] = ""
    seed: Annotated[int | None, "Random seed."] = None
    state: Annotated[State, "INIT, HSHK, RDY, EXEC, PAUSE, FAULT or TERM; see below."] = State.INIT
    outcome: Annotated[
        Outcome | None,
        "Set in TERM: completed, failed, cancelled, time_limit, budget, lost, interrupted or "
        "damaged.",
    ] = None
    reason: Annotated[str | None, "One sentence on why it ended, is in FAULT or is stalled."] = None
    wait_reason: Annotated[
        str | None, "Why it is not running yet, and which runs hold what it needs."
    ] = None
    pid: Annotated[int | None, "Process id of the worker, on its own machine."] = None
    exit_code: Annotated[int | None, "Of the worker; negative if a signal killed it."] = None
    slots: Annotated[tuple[str, ...], "Slots it holds, such as `cpu:0` and `gpu:0`."] = ()
    progress: Annotated[
        Progress, "`step`, `total`, `fraction` (1 once completed), `sps`, `eta_s`."
    ] = Progress()
    metrics: Annotated[Mapping[str, float], "Newest value of each headline metric."] = field(
        default_factory=dict
    )
    created_at: Annotated[float, "When it was submitted."] = 0.0
    started_at: Annotated[float | None, "When training began."] = None
    finished_at: Annotated[float | None, "When it ended."] = None
    last_heartbeat: Annotated[float | None, "Last sign of life of the worker."] = None
    run_dir: Annotated[str, "Directory with all its files."] = ""
    checkpoints: Annotated[
        tuple[CheckpointRecord, ...],
        "Newest last; `path` (relative to `run_dir`), `step`, `sha256`, `kind`, `saved_at`.",
    ] = ()
    alarms: Annotated[
        tuple[AlarmRecord, ...],
        "What health rules found, oldest first; `rule`, `step`, `evidence`, `advice`, "
        "`checkpoint`, `checkpoint_step`, `raised_at`.",
    ] = ()
    capabilities: Annotated[Capabilities, "What the worker registered with; empty before that."] = (
        field(default_factory=Capabilities)
    )
    stalled: Annotated[bool, "No sign of life, or no progress, for `stall_after_s` seconds."] = (
        False
    )
    stopping: Annotated[str, "Outcome it is being stopped for; empty if it is not."] = ""
    priority: Annotated[int, "Higher starts first."] = 0
    parent_run_id: Annotated[str, "Run that this one continues, repeats or evaluates."] = ""
    parent_step: Annotated[int | None, "Step of the parent's checkpoint that it started from."] = (
        None
    )
    tags: Annotated[tuple[str, ...], "Tags."] = ()
    notes: Annotated[str, "Notes."] = ""
    version: Annotated[int, "Number of its newest event."] = 0
    quarantined_lines: Annotated[int, "Malformed lines that its worker printed."] = 0
    mode: Annotated[str, "`train`, `resume_training`, `policy_eval`, `script`, …."] = ""
    site: Annotated[str, "Where it runs: `local`, `slurm:PARTITION`, `ssh://USER@HOST`."] = "local"
    job: Annotated[str, "Its job there, such as SLURM's number; empty for `local`."] = ""
    host: Annotated[str, "Machine of its worker; empty for `local` and before it has begun."] = ""
    attempt: Annotated[int, "How often it was begun; more than 1 after a preemption."] = 1

    @property
    def ended(self) -> bool:
        """True once every process of the run is gone."""
        return self.state is State.TERM

    @property
    def live(self) -> bool:
        """True until the run has ended."""
        return self.state is not State.TERM

    @property
    def completed(self) -> bool:
        """True if the run did all it was asked to do."""
        return self.outcome is Outcome.COMPLETED

    @property
    def is_running(self) -> bool:
        """True while it trains."""
        return self.state is State.EXEC

    @property
    def is_paused(self) -> bool:
        """True while it is paused."""
        return self.state is State.PAUSE

    def newest_checkpoint(self, kind: str | None = None) -> CheckpointRecord | None:
        """The newest checkpoint, or the newest of one kind; None if there is none."""
        fitting = (item for item in reversed(self.checkpoints) if kind in (None, item.kind))
        return next(fitting, None)

    def _repr_html_(self) -> str:
        """How a notebook shows a run: what it is, how far it is, its newest numbers."""
        from html import escape

        made = self.progress
        rows = {
            "run": self.run_id,
            "name": self.run_name,
            "what": " ".join(filter(None, (self.algo or self.worker, self.env_id))),
            "seed": "" if self.seed is None else str(self.seed),
            "state": f"{self.outcome} ({self.state})" if self.outcome else str(self.state),
            "reason": self.reason or self.wait_reason or "",
            "progress": f"{made.step:,} of {made.total:,} ({made.fraction:.0%})",
            **{name: f"{value:,.4g}" for name, value in sorted(self.metrics.items())},
        }
        lines = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in rows.items()
            if text
        )
        return f"<table>{lines}</table>"
