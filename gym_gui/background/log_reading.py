"""Reading a log through the daemon: its end, what fits a search, or a page from anywhere.

These generators run on a stream's thread.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mosaic.client import TrainerClient
from mosaic.records import LogChunk

# Several screens; the rest is a search or a scroll away.
TAIL_LINES = 3000
_PAGE_LINES = 3000
_PAGE_BYTES = 65_536
# Some lines before an error often name its cause.
_CONTEXT_BYTES = 8192
# More hits than anyone reads; a narrower search is the answer.
_MAX_HITS = 5000


@dataclass
class Place:
    """A stretch of one stream's log that is on screen, away from its end.

    Attributes:
        stream: stdout or stderr.
        start: Its first byte, which may be in the middle of a line.
        offset: The byte after it; the next page begins there.
        at_error: The first error in it is to be shown.
    """

    stream: str
    start: int
    offset: int
    at_error: bool = False


def newest_or_fitting(
    run_id: str, typed: str, level: str, lifecycle: bool, client: TrainerClient
) -> Iterator[LogChunk]:
    """The last lines and then new ones; with a search or a level, all lines that fit both."""
    hits = 0
    pattern = typed or level
    # One pattern cannot ask for both, wherever they are in the line. The daemon looks for what
    # was typed, which is the rarer, and the level is our own.
    on_level = re.compile(level).search if typed and level else None
    chunks = client.logs(
        run_id,
        follow=True,
        lifecycle=lifecycle,
        grep=pattern,
        progress=bool(pattern),
        tail_lines=0 if pattern else TAIL_LINES,
    )
    for chunk in chunks:
        if on_level is not None:
            fitting = [line for line in chunk.text.splitlines(keepends=True) if on_level(line)]
            chunk = replace(chunk, text="".join(fitting))
        hits += chunk.text.count("\n")
        yield chunk
        if pattern and hits >= _MAX_HITS:
            text = f"… more than {_MAX_HITS:,} lines match; narrow the search\n"
            yield replace(chunk, text=text)
            return


def page(
    run_id: str, stream: str, offset: int, lifecycle: bool, cut: bool, client: TrainerClient
) -> Iterator[LogChunk]:
    """Some lines of one stream from a byte on; `cut` drops what is left of a line there."""
    lines = 0
    chunks = client.logs(
        run_id, stream=stream, offset=offset, lifecycle=lifecycle, chunk_bytes=_PAGE_BYTES
    )
    for chunk in chunks:
        if cut:
            cut, chunk = False, replace(chunk, text=chunk.text.partition("\n")[2])
        lines += chunk.text.count("\n")
        yield chunk
        if lines >= _PAGE_LINES:
            return


def first_error(
    run_id: str, errors: str, lifecycle: bool, client: TrainerClient
) -> Iterator[LogChunk | Place]:
    """How far the search is, then the place of the first error."""
    for chunk in client.logs(run_id, grep=errors, lifecycle=lifecycle, progress=True):
        if chunk.text:
            start = max(0, chunk.first - _CONTEXT_BYTES)
            yield Place(chunk.stream, start, start, at_error=True)
            return
        yield chunk
