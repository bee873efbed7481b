"""Tracebacks as one line that can be opened: finds them in a stream of log lines."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_BEGIN = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "')
_CHAIN = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
# A traceback that never ends is not one; what was taken for it is shown line by line.
_MOST_LINES = 2000


@dataclass(frozen=True)
class Entry:
    """One line of the log, or a traceback that is shown as one line.

    Attributes:
        stream: Where it was written: stdout or stderr.
        text: The line, or the exception the traceback ends with.
        folded: The traceback's lines; none for an ordinary line.
    """

    stream: str
    text: str
    folded: tuple[str, ...] = ()


class TracebackFolder:
    """Takes lines as they come and gives entries; holds a traceback until it has ended."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    @property
    def holds(self) -> bool:
        """Whether lines wait for the end of their traceback."""
        return bool(self._open)

    def feed(self, stream: str, lines: Iterable[str]) -> Iterator[Entry]:
        """Entries that are complete after these lines of a stream."""
        for line in lines:
            held = self._open.get(stream)
            if held is not None:
                if held.takes(line):
                    continue
                del self._open[stream]
                yield from held.entries(stream)
            if line == _BEGIN:
                self._open[stream] = _Open(line)
            else:
                yield Entry(stream, line)

    def flush(self) -> Iterator[Entry]:
        """What is held, complete or not; nothing more comes for now."""
        held, self._open = self._open, {}
        for stream, one in held.items():
            yield from one.entries(stream)


class _Open:
    """A traceback that is still being read."""

    def __init__(self, first: str) -> None:
        self._lines = [first]
        self._after: list[str] = []
        self._exception = ""

    def takes(self, line: str) -> bool:
        """Whether a line belongs to the traceback; remembers it when it does."""
        if len(self._lines) >= _MOST_LINES:
            return False
        if not self._exception:
            self._lines.append(line)
            if line and not line[0].isspace():
                self._exception = line
            return True
        if not line.strip() and len(self._after) < 2:
            self._after.append(line)
            return True
        if self._after and (line in _CHAIN or (line == _BEGIN and self._chained())):
            self._lines += [*self._after, line]
            self._after = []
            self._exception = "" if line == _BEGIN else self._exception
            return True
        return False

    def _chained(self) -> bool:
        return any(line in _CHAIN for line in self._lines[-2:])

    def entries(self, stream: str) -> Iterator[Entry]:
        """The traceback as one entry, and the empty lines that turned out to follow it."""
        if self._exception:
            frames = sum(bool(_FRAME.match(line)) for line in self._lines)
            word = "frame" if frames == 1 else "frames"
            yield Entry(stream, f"{self._exception} ({frames} {word})", tuple(self._lines))
        else:
            yield from (Entry(stream, line) for line in self._lines)
        yield from (Entry(stream, line) for line in self._after)
