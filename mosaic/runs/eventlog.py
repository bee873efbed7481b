"""`events.jsonl`: the truth about a run, append-only, one JSON object a line."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mosaic.system import atomic

FILE_NAME = "events.jsonl"


@dataclass(frozen=True)
class LogLine:
    """One event as stored."""

    seq: int
    kind: str
    at: float
    mono: float
    data: dict[str, Any]


def append(run_dir: Path, lines: Sequence[LogLine]) -> None:
    """Add events durably; a half line left by a crash is cut off first."""
    text = "".join(json.dumps(asdict(line)) + "\n" for line in lines)
    descriptor = os.open(run_dir / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        end = _whole_lines_end(descriptor)
        os.ftruncate(descriptor, end)
        try:
            _write_all(descriptor, text.encode(), end)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)


def read(run_dir: Path) -> list[LogLine]:
    """All whole events in order; reading stops at the first line that is not one."""
    try:
        content = (run_dir / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return []
    return _whole_events(content)[0]


def repair(run_dir: Path) -> None:
    """Cut a damaged log after its last whole event, so that it can go on; a copy is kept."""
    path = run_dir / FILE_NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    _, good = _whole_events(content)
    if content[good:].strip():
        atomic.write_bytes(path.with_suffix(".damaged"), content)
        atomic.write_bytes(path, content[:good])


def _whole_events(content: bytes) -> tuple[list[LogLine], int]:
    """The events up to the first line that is not one, and the byte after them."""
    events: list[LogLine] = []
    good = 0
    for raw in content.splitlines(keepends=True):
        try:
            item = json.loads(raw)
            event = LogLine(item["seq"], item["kind"], item["at"], item["mono"], item["data"])
        except (ValueError, KeyError, TypeError, RecursionError):
            break
        if event.seq != len(events) + 1 or not raw.endswith(b"\n"):
            break
        events.append(event)
        good += len(raw)
    return events, good


def _whole_lines_end(descriptor: int) -> int:
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - 4096)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _write_all(descriptor: int, content: bytes, offset: int) -> None:
    while content:
        written = os.pwrite(descriptor, content, offset)
        content, offset = content[written:], offset + written
