"""The lifecycle channel: one JSON object per line on stdout, from workers to the daemon.

Writing and reading are in one module because they are one contract.
"""

import json
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

from mosaic.config.json_types import JsonValue
from mosaic.curves.pace import Marks
from mosaic.runs.disk import refuses

SCHEMA = 1
MAX_LINE = 64 * 1024
MARK = b'{"event":'
VITAL_SIGNS = frozenset({"heartbeat", "metrics"})
KNOWN_EVENTS = VITAL_SIGNS | {
    "run_started",
    "checkpoint_saved",
    "curriculum_stage",
    "phase_started",
    "note",
    "alarm",
    "run_completed",
    "run_failed",
}
# A third of what the contract allows (30 s): one line that the disk refuses is no alarm.
HEARTBEAT_S = 10.0
# For people who watch. The daemon reads every line of every run.
_METRICS_INTERVAL_S = 1.0
# A disk that stays full must not fill the memory as well.
_MOST_UNSAID = 1000
# Well within the usual grace period (30 s), after which the process would be killed.
_LAST_LINE_PATIENCE_S = 5.0
_RETRY_S = 0.2
_MAX_DEPTH = 8
# What SQLite and protobuf can hold.
_LARGEST = 2**63


class _Word(NamedTuple):
    """A line before it has a number: what the disk refuses must not leave a gap."""

    event: str
    at: float
    fields: str


class _Number(NamedTuple):
    """A number and the step at which it was measured."""

    step: int
    value: float


class LifecycleEmitter:
    """Writes lifecycle lines, each with one system call, so that lines never mix.

    A full disk does not end the run: vital signs that cannot be written are dropped and counted,
    everything else waits and is written before the next line.

    Attributes:
        lost: How many lines could not be written at all.
    """

    def __init__(self, run_id: str, descriptor: int | None = None, after: int = 0) -> None:
        """Begin after the line with number `after`, the last of a process that was killed."""
        self._run_id = run_id
        self._descriptor = sys.stdout.fileno() if descriptor is None else descriptor
        self._lock = threading.Lock()
        self._seq = after
        self._metrics_at = -math.inf
        self._held: dict[str, _Number] = {}
        self._unsaid_step: int | None = None
        self._total = 0
        self._marks = Marks()
        self._unsaid: deque[_Word] = deque()
        self._refused = ""
        # A process that was killed may have left half a line.
        self._torn = after > 0
        self._untold = 0
        self.lost = 0

    def run_started(self, **fields: object) -> None:
        """The worker has shaken hands and begins."""
        self._emit("run_started", fields)

    def heartbeat(self, step: int | None = None, where: str = "", doing: str | None = None) -> None:
        """The worker is alive.

        Args:
            step: How far the work is, where that is counted: a run whose step does not move is
                shown as stalled. Leave it out for work that has no steps.
            where: What the work is doing while its step does not move, as far as that is known.
            doing: Why no step is taken yet, such as `compiling, 6 s`; shown to people until a
                heartbeat says something else. Empty when it is over.
        """
        fields: dict[str, object] = {} if step is None else {"step": step}
        if where:
            fields["where"] = where
        if doing is not None:
            fields["doing"] = doing
        self._emit("heartbeat", fields)

    def metrics(self, step: int, total: int, values: Mapping[str, float]) -> None:
        """Headline numbers: at each mark of the stored curve, and once a second for watchers.

        Numbers in between are replaced by newer ones. What is stored does not depend on the time:
        the first value at or after a mark is always written.
        """
        self._unsaid_step, self._total = step, total
        numbers = finite(values)
        due = [name for name in numbers if self._marks.due(name, step, total)]
        for name in due:
            self._marks.store(name, step)
        for name, value in numbers.items():
            self._held[name] = _Number(step, value)
        if due or time.monotonic() - self._metrics_at >= _METRICS_INTERVAL_S:
            self.flush_metrics()

    def flush_metrics(self) -> None:
        """Emit the numbers still held back."""
        held, self._held = self._held, {}
        newest, self._unsaid_step = self._unsaid_step, None
        if newest is None:
            return
        self._metrics_at = time.monotonic()
        # One line for each step: a number is never reported at a step that is not its own. The
        # newest comes last, also without numbers, because it says how far the run is.
        steps = dict.fromkeys([*(number.step for number in held.values()), newest])
        for step in sorted(steps, key=lambda step: (step == newest, step)):
            values = {name: number.value for name, number in held.items() if number.step == step}
            self._emit("metrics", {"step": step, "total": self._total, "values": values})

    def checkpoint_saved(self, path: str, step: int, sha256: str, kind: str) -> None:
        """A checkpoint was saved in the run directory, at `path`."""
        fields = {"path": path, "step": step, "sha256": sha256, "kind": kind}
        self._emit("checkpoint_saved", fields)

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        """Any other event: `curriculum_stage`, `phase_started`, `note`."""
        self._emit(event, fields)

    def alarm(self, rule: str, step: int, evidence: str, advice: str = "") -> None:
        """Something is wrong with the training that only the worker can see; the run continues.

        Args:
            rule: What, in a word or two: `not-a-number`.
            step: Where it began.
            evidence: The numbers, in a sentence.
            advice: What to try.
        """
        fields = {"rule": rule, "step": step, "evidence": evidence, "advice": advice}
        self._emit("alarm", fields)

    def run_completed(self, **summary: object) -> None:
        """The last line of a run that did what it was asked."""
        self.flush_metrics()
        self._emit("run_completed", {"summary": summary})
        self._wait_for_the_disk()

    def run_failed(self, reason: str, hint: str = "") -> None:
        """The last line of a run that did not."""
        self.flush_metrics()
        self._emit("run_failed", {"reason": reason, "hint": hint})
        self._wait_for_the_disk()

    def _emit(self, event: str, fields: Mapping[str, object]) -> None:
        with self._lock:
            word = _Word(event, time.time(), _to_json(fields))
            self._unsaid.append(word)
            self._catch_up()
            # An old heartbeat or number is worth nothing later, so it does not wait.
            if event in VITAL_SIGNS and self._unsaid and self._unsaid[-1] is word:
                self._unsaid.pop()
                self._count_lost()
            if len(self._unsaid) > _MOST_UNSAID:
                self._unsaid.popleft()
                self._count_lost()

    def _catch_up(self) -> None:
        """Write the waiting lines, as far as the disk allows, after a note that it was full."""
        # What the script printed so far comes before our lines, as it happened.
        with suppress(OSError):
            sys.stdout.flush()
        if self._refused:
            text = f"the disk was full ({self._refused}); {self._untold} lines were lost"
            if not self._write(_Word("note", time.time(), _to_json({"text": text}))):
                return
            self._refused, self._untold = "", 0
        while self._unsaid and self._write(self._unsaid[0]):
            self._unsaid.popleft()

    def _write(self, word: _Word) -> bool:
        """Whether a whole line was written; half a line is ended before the next one."""
        head = {
            "event": word.event,
            "run_id": self._run_id,
            "seq": self._seq + 1,
            "at": word.at,
            "schema": SCHEMA,
        }
        separator = "" if word.fields == "{}" else ","
        text = _to_json(head)[:-1] + separator + word.fields[1:]
        content = f"\n{text}\n".encode() if self._torn else f"{text}\n".encode()
        written, reason = 0, "no space left"
        try:
            # Not through `sys.stdout`, whose buffer could be split between two system calls.
            written = os.write(self._descriptor, content)
        except OSError as error:
            if not refuses(error):
                raise
            reason = error.strerror or str(error)
        # A number is used up only by a whole line, so that the reader sees no gap.
        whole = written == len(content)
        self._seq += whole
        self._torn = not whole and (self._torn or written > 0)
        if not whole:
            self._note_refusal(reason)
        return whole

    def _count_lost(self) -> None:
        self.lost += 1
        self._untold += 1

    def _note_refusal(self, reason: str) -> None:
        if not self._refused:
            self._refused = reason
            with suppress(OSError):
                print(
                    f"the run's log cannot be written: {reason}; the run continues", file=sys.stderr
                )

    def _wait_for_the_disk(self) -> None:
        """Wait a little for the last line: without it a completed run counts as failed."""
        deadline = time.monotonic() + _LAST_LINE_PATIENCE_S
        while self._unsaid and time.monotonic() < deadline:
            time.sleep(_RETRY_S)
            with self._lock:
                self._catch_up()


def _to_json(fields: Mapping[str, object]) -> str:
    return json.dumps(dict(fields), allow_nan=False, default=str, separators=(",", ":"))


def finite(values: Mapping[str, float]) -> dict[str, float]:
    """Only the numbers that are numbers."""
    return {name: float(value) for name, value in values.items() if math.isfinite(value)}


class Metrics(NamedTuple):
    """What a `metrics` line says; `total` is 0 where the worker does not know it."""

    step: int
    total: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class LifecycleLine:
    """A line that keeps the contract.

    Attributes:
        at: The worker's clock when it wrote the line; 0 if the line does not say.
    """

    event: str
    seq: int
    fields: dict[str, JsonValue]
    at: float = 0.0

    def metrics(self) -> Metrics:
        """The numbers of a `metrics` line, which `parse_line` has checked."""
        step, total, values = (self.fields.get(name, 0) for name in ("step", "total", "values"))
        assert isinstance(step, int)
        assert isinstance(total, int)
        assert isinstance(values, dict)
        return Metrics(step, total, {name: v for name, v in values.items() if _is_number(v)})


@dataclass(frozen=True)
class QuarantinedLine:
    """A line that looks like one of ours and breaks the contract."""

    reason: str


def parse_line(line: bytes, run_id: str, after_seq: int) -> LifecycleLine | QuarantinedLine | None:
    """Read one line of a worker's stdout; None when it is the script's own output."""
    # Anywhere in the line: what the script printed before it may have had no line end.
    position = line.find(MARK)
    if position < 0:
        return None
    if len(line) > MAX_LINE:
        return QuarantinedLine(f"longer than {MAX_LINE} bytes")
    try:
        document = json.loads(
            line[position:], object_pairs_hook=_unique, parse_constant=_refuse_constant
        )
        if b"\\u" in line:
            json.dumps(document, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        return QuarantinedLine(f"not valid JSON: {error}")
    return _checked(document, run_id, after_seq)


def last_number(log: bytes, run_id: str) -> int:
    """The number of the last whole line of ours in a log; 0 when there is none."""
    parsed = (parse_line(line, run_id, 0) for line in log.split(b"\n"))
    return max((line.seq for line in parsed if isinstance(line, LifecycleLine)), default=0)


def _checked(
    document: dict[str, JsonValue], run_id: str, after_seq: int
) -> LifecycleLine | QuarantinedLine:
    event, seq = document.get("event"), document.get("seq")
    if not isinstance(event, str) or event not in KNOWN_EVENTS:
        return QuarantinedLine(f"unknown event {str(event)[:40]!r}")
    if document.get("run_id") != run_id:
        return QuarantinedLine(f"of another run: {str(document.get('run_id'))[:40]!r}")
    if document.get("schema", SCHEMA) != SCHEMA:
        return QuarantinedLine(f"schema {document['schema']!r}, this daemon reads {SCHEMA}")
    if seq is None:
        seq = after_seq  # numbering is optional; without it a repeated line cannot be recognised
    elif not _is_int(seq) or seq <= after_seq:
        return QuarantinedLine(f"sequence {seq!r} after {after_seq}")
    if _depth(document) > _MAX_DEPTH:
        return QuarantinedLine(f"nested deeper than {_MAX_DEPTH}")
    reserved = ("event", "run_id", "seq", "at", "schema")
    fields = {key: value for key, value in document.items() if key not in reserved}
    problem = _field_problem(event, fields)
    if problem:
        return QuarantinedLine(problem)
    at = document.get("at", 0.0)
    return LifecycleLine(event, seq, fields, float(at) if _is_number(at) else 0.0)


def _field_problem(event: str, fields: Mapping[str, object]) -> str:
    if event == "metrics":
        values = fields.get("values")
        if not _is_int(fields.get("step")) or not _is_int(fields.get("total", 0)):
            return "metrics without whole numbers for step and total"
        if not isinstance(values, dict) or not all(map(_is_number, values.values())):
            return "metrics without numbers in values"
    texts = all(isinstance(fields.get(name, ""), str) for name in ("where", "doing"))
    if event == "heartbeat" and not (texts and _is_int(fields.get("step", 0))):
        return "heartbeat with a step that is no whole number, or a place that is no text"
    if event == "checkpoint_saved":
        texts = all(isinstance(fields.get(name), str) for name in ("path", "sha256", "kind"))
        if not texts or not _is_int(fields.get("step")) or set(fields) - _CHECKPOINT_FIELDS:
            return "checkpoint_saved needs path, step, sha256 and kind"
        path = str(fields["path"])
        if path.startswith("/") or ".." in path.split("/"):
            return "checkpoint path leads outside the run directory"
    if event == "alarm":
        said = (fields.get("rule"), fields.get("evidence"), fields.get("advice", ""))
        if not all(isinstance(text, str) for text in said) or not _is_int(fields.get("step")):
            return "alarm needs rule, step and evidence"
    if event == "run_failed" and not isinstance(fields.get("reason"), str):
        return "run_failed without a reason"
    return ""


_CHECKPOINT_FIELDS = {"path", "step", "sha256", "kind"}


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST


def _is_number(value: object) -> TypeGuard[float]:
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key is given twice")
    return result


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
