"""`events.jsonl`: the truth about a run, append-only, one JSON object a line."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mosaic.config.json_types import JsonValue
from mosaic.runs import opening
from mosaic.system import atomic

FILE_NAME = "events.jsonl"
# A log of a million events; what is larger was not written by us.
LARGEST = 256 * 2**20


@dataclass(frozen=True)
class LogLine:
    """One event as stored."""

    seq: int
    kind: str
    at: float
    mono: float
    data: Mapping[str, JsonValue]


def append(run_dir: Path, lines: Sequence[LogLine]) -> None:
    """Add events durably; a half line left by a crash is cut off first.

    Something else in the log's place is moved aside: a run that is still at work must be able to
    end. What the log held before is in the registry.
    """
    text = "".join(json.dumps(asdict(line)) + "\n" for line in lines)
    opening.clear_the_way(run_dir / FILE_NAME)
    descriptor = opening.open_regular(run_dir, FILE_NAME, os.O_RDWR | os.O_CREAT)
    try:
        end = _whole_lines_end(descriptor)
        os.ftruncate(descriptor, end)
        try:
            _write_all(descriptor, text.encode(), end)
            os.fsync(descriptor)
        except OSError:
            # All or none: the events of one decision belong together, and the caller tries them
            # again.
            os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)


def read(run_dir: Path, mend: bool = False) -> list[LogLine]:
    """All whole events in order; reading stops at the first line that is not one.

    Args:
        run_dir: Where the log is.
        mend: Cut a damaged log after its last whole event, so that it can continue; a copy is
            kept. A log without a single whole event is left as it is: there is nothing to continue.

    Raises:
        OSError: What is there is no file that could be read.
    """
    try:
        content = opening.read_regular(run_dir, FILE_NAME, LARGEST)
    except FileNotFoundError:
        return []
    events, good = _whole_events(content)
    # An empty line too: events that were appended behind it would never be read.
    if mend and 0 < good < len(content):
        path = run_dir / FILE_NAME
        # The copy first: what is cut off may be all that a person has to repair the log with.
        atomic.write_bytes(path.with_suffix(".damaged"), content)
        atomic.write_bytes(path, content[:good])
    return events


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
        # From the end, block by block: a log has thousands of lines, and only the last may be torn.
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
