"""Reading a run's logs, whatever is in them: gigabytes, endless lines, NULs, broken UTF-8."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_SHOWN_LINE = 16 * 1024
_BLOCK = 1 << 18
_TURN = 1 << 20
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[@-_]")


@dataclass(frozen=True)
class Lines:
    """Some whole lines and the byte after them."""

    lines: tuple[str, ...]
    offset: int


def tail_offset(path: Path, count: int) -> int:
    """Where the last `count` lines begin, found from the end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        end = os.fstat(descriptor).st_size
        first = first_data(descriptor)
        position, wanted = end, count + 1
        while position > first:
            start = max(first, position - _BLOCK)
            block = os.pread(descriptor, position - start, start)
            if position == end and block.endswith(b"\n"):
                block = block[:-1] + b" "
                wanted = count
            found = block.count(b"\n")
            if found >= wanted:
                cut = len(block)
                for _ in range(wanted):
                    cut = block.rindex(b"\n", 0, cut)
                return start + cut + 1
            wanted -= found
            position = start
        return first
    finally:
        os.close(descriptor)


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
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Lines((), offset)
    try:
        offset = max(offset, first_data(descriptor))
        content = os.pread(descriptor, _TURN, offset)
        if len(content) == _TURN and b"\n" not in content:
            return _endless_line(descriptor, offset, content)
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


def _endless_line(descriptor: int, offset: int, beginning: bytes) -> Lines:
    """Skip to the end of a line that is longer than a turn."""
    position = offset + len(beginning)
    while True:
        block = os.pread(descriptor, _TURN, position)
        newline = block.find(b"\n")
        if newline >= 0:
            length = position + newline - offset
            shown = show(beginning[:MAX_SHOWN_LINE])
            return Lines((f"{shown} … [a line of {length:,} bytes]",), position + newline + 1)
        if len(block) < _TURN:
            return Lines((), offset)
        position += len(block)
