"""Reading a run's logs, whatever is in them: gigabytes, endless lines, NULs, broken UTF-8."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_SHOWN_LINE = 16 * 1024
_BLOCK = 1 << 18
_TURN = 1 << 20
_FARTHEST_TAIL = 1 << 27
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[@-_]")


@dataclass(frozen=True)
class Lines:
    """Some whole lines and the byte after them."""

    lines: tuple[str, ...]
    offset: int


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
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
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
                later = part[: len(hidden)]
                break
            if start + newline + 1 < end:
                yield start + newline + 1, secret
            cut, later, secret = newline, b"", False
        position = start


def first_data(descriptor: int) -> int:
    """Where a log begins to hold text; the space before it was given back."""
    try:
        return os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError:
        return 0


def read_lines(path: Path, offset: int, final: bool = False) -> Lines:
    """Whole lines from `offset` on, about a megabyte of them.

    Args:
        path: The log.
        offset: A line's beginning.
        final: Nobody writes any more: a last line without its end counts too.
    """
    descriptor = _open(path)
    if descriptor is None:
        return Lines((), offset)
    try:
        offset = max(offset, first_data(descriptor))
        content = os.pread(descriptor, _TURN, offset)
        if len(content) == _TURN and b"\n" not in content:
            return _endless_line(descriptor, offset, content, final)
    finally:
        os.close(descriptor)
    whole = content.rfind(b"\n") + 1
    if final and len(content) < _TURN:
        whole = len(content)
    shown = tuple(show(line) for line in _split(content[:whole]))
    return Lines(shown, offset + whole)


def show(line: bytes) -> str:
    """A line for people: no control characters, no NULs, and not longer than they can read."""
    cut = len(line) - MAX_SHOWN_LINE
    text = _ANSI.sub(b"", line[:MAX_SHOWN_LINE]).decode("utf-8", errors="replace")
    clean = "".join(c for c in text if c == "\t" or c.isprintable() or ord(c) >= 0xA0)
    return f"{clean} … [{cut:,} more bytes]" if cut > 0 else clean


def _split(content: bytes) -> Iterator[bytes]:
    if content:
        yield from content.removesuffix(b"\n").split(b"\n")


def _endless_line(descriptor: int, offset: int, beginning: bytes, final: bool) -> Lines:
    """Skip to the end of a line that is longer than a turn."""
    position = offset + len(beginning)
    while True:
        block = os.pread(descriptor, _TURN, position)
        newline = block.find(b"\n")
        over = len(block) < _TURN
        if newline < 0 and over and not final:
            return Lines((), offset)
        if newline >= 0 or over:
            end = position + (newline if newline >= 0 else len(block))
            shown = f"{show(beginning[:MAX_SHOWN_LINE])} … [a line of {end - offset:,} bytes]"
            return Lines((shown,), end + (newline >= 0))
        position += len(block)
