"""Reading a run's logs, whatever is in them: gigabytes, endless lines, NULs, broken UTF-8."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mosaic.runs import opening
from mosaic.runs.log_filter import LineFilter

MAX_SHOWN_LINE = 16 * 1024
_BLOCK = 1 << 18
MEGABYTE = 1 << 20
# Some 128 MB: a log of hidden lines alone must not be read to its beginning for a tail.
_FARTHEST_TAIL = 1 << 27
_PLAIN = bytes([*b"\t\n", *range(0x20, 0x7F)])
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[@-_]")


@dataclass(frozen=True)
class Lines:
    """Some whole lines of a log.

    Attributes:
        lines: As people read them.
        offset: The byte after the last line that was looked at.
        first: The byte at which the first of `lines` begins.
        size: Of the log, in bytes.
    """

    lines: tuple[str, ...]
    offset: int
    first: int = 0
    size: int = 0


def tail_offset(path: Path, count: int, hidden: bytes = b"") -> int:
    """Where the last `count` lines begin, found from the end.

    Args:
        path: The log.
        count: How many lines.
        hidden: Lines with these bytes in them are not shown and therefore not counted.
    """
    descriptor = _open(path)
    if descriptor is None:
        return 0
    try:
        end = os.fstat(descriptor).st_size
        first = max(first_data(descriptor), end - _FARTHEST_TAIL)
        for offset, secret in _line_starts(descriptor, first, end, hidden):
            count -= not secret
            if count == 0:
                return offset
        return first
    finally:
        os.close(descriptor)


def _open(path: Path) -> int | None:
    """A log for reading; None when there is none, or a link that may lead anywhere."""
    try:
        # From the run directory on: `logs` itself may be a link, too.
        return opening.open_regular(path.parent.parent, f"{path.parent.name}/{path.name}")
    except OSError:
        return None


def _line_starts(
    descriptor: int, first: int, end: int, hidden: bytes
) -> Iterator[tuple[int, bool]]:
    """Beginnings of lines from the last to the first, and whether the line is a hidden one."""
    position, later, secret = end, b"", False
    while position > first:
        start = max(first, position - _BLOCK)
        block = os.pread(descriptor, position - start, start)
        cut = len(block)
        while True:
            newline = block.rfind(b"\n", 0, cut)
            part = block[newline + 1 : cut] + later
            secret = secret or (bool(hidden) and hidden in part)
            if newline < 0:
                # Only as much as is needed to find a mark that two blocks share.
                later = part[: len(hidden)]
                break
            if start + newline + 1 < end:
                yield start + newline + 1, secret
            cut, later, secret = newline, b"", False
        position = start


def first_data(descriptor: int) -> int:
    """Where a log begins to hold text; the space before it was freed."""
    try:
        return os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError:
        return 0


def read_lines(
    path: Path,
    offset: int,
    final: bool = False,
    wanted: LineFilter | None = None,
    turn: int = MEGABYTE,
) -> Lines:
    """Whole lines from `offset` on.

    Args:
        path: The log.
        offset: A line's beginning.
        final: The log has no writer any more: a last line without its end counts too.
        wanted: Which lines; all when it is not given.
        turn: How many bytes to look at.
    """
    descriptor = _open(path)
    if descriptor is None:
        return Lines((), offset)
    try:
        # The oldest part may have been freed; as zeros it would read like one endless line.
        offset = max(offset, first_data(descriptor))
        size = os.fstat(descriptor).st_size
        content = os.pread(descriptor, turn, offset)
        if len(content) == turn and b"\n" not in content:
            return _endless_line(descriptor, offset, content, final, wanted)
    finally:
        os.close(descriptor)
    whole = content.rfind(b"\n") + 1
    if final and len(content) < turn:
        whole = len(content)
    content = content[:whole]
    shown, first = _select(content, wanted)
    return Lines(shown, offset + whole, offset + first, size)


def _select(content: bytes, wanted: LineFilter | None) -> tuple[tuple[str, ...], int]:
    """The lines that are wanted, and where in `content` the first of them begins."""
    if wanted is None:
        return tuple(map(show, _split(content))), 0
    if not content or not wanted.may_be_in(content):
        return (), 0
    # Nearly every log is plain text; it is searched at once and not line by line.
    if not content.translate(None, delete=_PLAIN):
        spans = list(wanted.spans(content.removesuffix(b"\n")))
        first = spans[0][0] if spans else 0
        return tuple(show(content[begin:end]) for begin, end in spans), first
    raw = list(_split(content))
    places = [place for place, line in enumerate(map(show, raw)) if wanted.takes(line)]
    first = sum(len(line) + 1 for line in raw[: places[0]]) if places else 0
    return tuple(show(raw[place]) for place in places), first


def show(line: bytes) -> str:
    """A line for people: no control characters, no NULs, and not longer than they can read."""
    cut = len(line) - MAX_SHOWN_LINE
    if cut <= 0 and not line.translate(None, delete=_PLAIN):
        return line.decode("ascii")
    text = _ANSI.sub(b"", line[:MAX_SHOWN_LINE]).decode("utf-8", errors="replace")
    clean = "".join(c for c in text if c == "\t" or c.isprintable() or ord(c) >= 0xA0)
    return f"{clean} … [{cut:,} more bytes]" if cut > 0 else clean


def _split(content: bytes) -> Iterator[bytes]:
    if content:
        yield from content.removesuffix(b"\n").split(b"\n")


def _endless_line(
    descriptor: int, offset: int, beginning: bytes, final: bool, wanted: LineFilter | None
) -> Lines:
    """Skip to the end of a line that is longer than a turn."""
    size = os.fstat(descriptor).st_size
    position = offset + len(beginning)
    while True:
        block = os.pread(descriptor, MEGABYTE, position)
        newline = block.find(b"\n")
        over = len(block) < MEGABYTE
        if newline < 0 and over and not final:
            return Lines((), offset, offset, size)
        if newline >= 0 or over:
            end = position + (newline if newline >= 0 else len(block))
            shown = f"{show(beginning[:MAX_SHOWN_LINE])} … [a line of {end - offset:,} bytes]"
            lines = (shown,) if wanted is None or wanted.takes(shown) else ()
            return Lines(lines, end + (newline >= 0), offset, size)
        position += len(block)
