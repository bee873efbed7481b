"""The lifecycle channel: one JSON object a line on stdout, written by workers, read by the daemon.

Writing and reading live side by side because they are one contract.
"""

import json
import math
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
    "run_completed",
    "run_failed",
}
_METRICS_INTERVAL_S = 1.0
_MAX_DEPTH = 8
_LARGEST = 2**63


class LifecycleEmitter:
    """Writes lifecycle lines, each with one system call, so that lines never mix."""

    def __init__(self, run_id: str, descriptor: int | None = None) -> None:
        self._run_id = run_id
        self._descriptor = sys.stdout.fileno() if descriptor is None else descriptor
        self._lock = threading.Lock()
        self._seq = 0
        self._metrics_at = -math.inf
        self._held: dict[str, Any] | None = None

    def run_started(self, **fields: Any) -> None:
        """The worker has shaken hands and begins."""
        self._emit("run_started", fields)

    def heartbeat(self) -> None:
        """The worker is alive."""
        self._emit("heartbeat", {})

    def metrics(self, step: int, total: int, values: Mapping[str, float]) -> None:
        """Headline numbers; more than one a second are merged, the newest winning."""
        held = self._held["values"] if self._held else {}
        self._held = {"step": step, "total": total, "values": {**held, **finite(values)}}
        if time.monotonic() - self._metrics_at >= _METRICS_INTERVAL_S:
            self.flush_metrics()

    def flush_metrics(self) -> None:
        """Emit the numbers still held back."""
        held, self._held = self._held, None
        if held is not None:
            self._metrics_at = time.monotonic()
            self._emit("metrics", held)

    def checkpoint_saved(self, path: str, step: int, sha256: str, kind: str) -> None:
        """A checkpoint lies in the run directory under `path`."""
        fields = {"path": path, "step": step, "sha256": sha256, "kind": kind}
        self._emit("checkpoint_saved", fields)

    def note(self, event: str, fields: Mapping[str, Any]) -> None:
        """Any other event: `curriculum_stage`, `phase_started`, `note`."""
        self._emit(event, dict(fields))

    def run_completed(self, **summary: Any) -> None:
        """The last line of a run that did what it was asked."""
        self.flush_metrics()
        self._emit("run_completed", {"summary": summary})

    def run_failed(self, reason: str, hint: str = "") -> None:
        """The last line of a run that did not."""
        self.flush_metrics()
        self._emit("run_failed", {"reason": reason, "hint": hint})

    def _emit(self, event: str, fields: dict[str, Any]) -> None:
        with self._lock:
            self._seq += 1
            document = {
                "event": event,
                "run_id": self._run_id,
                "seq": self._seq,
                "at": time.time(),
                "schema": SCHEMA,
                **fields,
            }
            line = json.dumps(document, allow_nan=False, default=str, separators=(",", ":"))
            sys.stdout.flush()
            os.write(self._descriptor, line.encode() + b"\n")


def finite(values: Mapping[str, float]) -> dict[str, float]:
    """Only the numbers that are numbers."""
    return {name: float(value) for name, value in values.items() if math.isfinite(value)}


@dataclass(frozen=True)
class LifecycleLine:
    """A line that keeps the contract."""

    event: str
    seq: int
    fields: dict[str, Any]


@dataclass(frozen=True)
class QuarantinedLine:
    """A line that looks like one of ours and breaks the contract."""

    reason: str


def parse_line(line: bytes, run_id: str, after_seq: int) -> LifecycleLine | QuarantinedLine | None:
    """Read one line of a worker's stdout; None when it is the script's own output."""
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


def _checked(
    document: dict[str, Any], run_id: str, after_seq: int
) -> LifecycleLine | QuarantinedLine:
    event, seq = document.get("event"), document.get("seq")
    if not isinstance(event, str) or event not in KNOWN_EVENTS:
        return QuarantinedLine(f"unknown event {str(event)[:40]!r}")
    if document.get("run_id") != run_id:
        return QuarantinedLine("of another run")
    if document.get("schema", SCHEMA) != SCHEMA:
        return QuarantinedLine(f"schema {document['schema']!r}, this daemon reads {SCHEMA}")
    if seq is None:
        seq = after_seq  # numbering is optional; what has no number cannot be told from a replay
    elif not _is_int(seq) or seq <= after_seq:
        return QuarantinedLine(f"sequence {seq!r} after {after_seq}")
    if _depth(document) > _MAX_DEPTH:
        return QuarantinedLine(f"nested deeper than {_MAX_DEPTH}")
    reserved = ("event", "run_id", "seq", "at", "schema")
    fields = {key: value for key, value in document.items() if key not in reserved}
    problem = _field_problem(event, fields)
    return QuarantinedLine(problem) if problem else LifecycleLine(event, seq, fields)


def _field_problem(event: str, fields: dict[str, Any]) -> str:
    if event == "metrics":
        values = fields.get("values")
        if not _is_int(fields.get("step")) or not _is_int(fields.get("total", 0)):
            return "metrics without whole numbers for step and total"
        if not isinstance(values, dict) or not all(map(_is_number, values.values())):
            return "metrics without numbers in values"
    if event == "checkpoint_saved":
        texts = all(isinstance(fields.get(name), str) for name in ("path", "sha256", "kind"))
        if not texts or not _is_int(fields.get("step")) or set(fields) - _CHECKPOINT_FIELDS:
            return "checkpoint_saved needs path, step, sha256 and kind"
        if fields["path"].startswith("/") or ".." in fields["path"].split("/"):
            return "checkpoint path leads outside the run directory"
    if event == "run_failed" and not isinstance(fields.get("reason"), str):
        return "run_failed without a reason"
    return ""


_CHECKPOINT_FIELDS = {"path", "step", "sha256", "kind"}


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST


def _is_number(value: Any) -> bool:
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key is given twice")
    return result


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
