"""Output of the commands: tables on a terminal, plain lines in a pipe, JSON on request."""

import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TextIO

from mosaic.records import RunRecord
from mosaic.records.fields import plain
from mosaic.statistics.tables import score as score

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# Control characters but tab and line end, and the marks that turn the direction of a line.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

STATE_STYLES = {
    "INIT": "yellow",
    "HSHK": "cyan",
    "RDY": "cyan",
    "EXEC": "bold green",
    "PAUSE": "magenta",
    "FAULT": "bold red",
    "TERM": "dim",
}
OUTCOME_STYLES = {
    "completed": "green",
    "failed": "bold red",
    "cancelled": "yellow",
    "time_limit": "yellow",
    "budget": "yellow",
    "lost": "bold red",
    "interrupted": "yellow",
    "damaged": "bold red",
}


@cache
def console() -> "Console":
    """The terminal, or a plain stream."""
    from rich.console import Console

    return Console(highlight=False)


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def print_json(document: object) -> None:
    """One JSON document on standard output."""
    print(json.dumps(plain(document), indent=2 if on_terminal() else None))


@dataclass(frozen=True)
class Styled:
    """Words of ours in a colour. Everything else is printed as plain text, never as markup."""

    text: str
    style: str


Cell = str | Styled


def visible(text: str) -> str:
    """A text with its control characters written out, so that a terminal shows them.

    Names, reasons, notes and logs come from elsewhere: an escape sequence in one of them could
    change the terminal's title, clear the screen, or make one run look like another.
    """
    return _OBEYED.sub(lambda match: ascii(match[0])[1:-1], text)


def say(*parts: Cell, end: str = "\n", to: TextIO | None = None) -> None:
    """One line for people: the only way in which text from elsewhere reaches the terminal."""
    if to is None and on_terminal() and any(isinstance(part, Styled) for part in parts):
        from rich.text import Text

        line = Text(" ").join(_rich(part) for part in parts)
        console().print(line, soft_wrap=True, end=end)
    else:
        print(" ".join(map(_plain, parts)), end=end, file=to, flush=True)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """A table for people, or tab-separated lines for programs."""
    if not on_terminal():
        print("\t".join(columns))
        for row in rows:
            # A tab or a line end inside a name would be taken for the next column or row.
            print("\t".join(_plain(cell).replace("\t", " ").replace("\n", " ") for cell in row))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        right = column in ("PROGRESS", "RETURN", "SPS", "AGE", "ETA")
        table.add_column(column, justify="right" if right else "left", overflow="ellipsis")
    for row in rows:
        table.add_row(*map(_rich, row))
    console().print(table)


def _plain(cell: Cell) -> str:
    return visible(cell.text if isinstance(cell, Styled) else cell)


def _rich(cell: Cell) -> "Text":
    from rich.text import Text

    return Text(_plain(cell), style=cell.style if isinstance(cell, Styled) else "")


_SHORT_ID = 12

# The codes are for programs and the log; people read what they mean.
STATE_WORDS = {
    "INIT": "queued",
    "HSHK": "starting",
    "RDY": "starting",
    "EXEC": "running",
    "PAUSE": "paused",
    "FAULT": "failing",
    "TERM": "finished",
}


def state_word(record: RunRecord) -> str:
    """A run's state in a word, with its code."""
    return f"{STATE_WORDS.get(record.state, 'in')} ({record.state})"


def short_id(run_id: str) -> str:
    """The beginning of an id, enough to name the run: ten letters are the time in milliseconds."""
    return run_id[:_SHORT_ID]


def state_cell(record: RunRecord) -> Styled:
    """A run's state or outcome, coloured, never by colour alone."""
    if record.ended:
        outcome = record.outcome or "ended"
        return Styled(outcome, OUTCOME_STYLES.get(outcome, "default"))
    words = state_word(record)
    if record.stopping:
        words += " stopping"
    elif record.stalled:
        words += " stalled"
    return Styled(words, STATE_STYLES.get(record.state, "default"))


def duration(seconds: float | None) -> str:
    """A length of time in two units at most."""
    if not seconds or seconds < 0:
        return "-"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def age(moment: float | None) -> str:
    """How long ago something was."""
    return duration(time.time() - moment) if moment else "-"


def number(value: float | None, digits: int = 1) -> str:
    """A number, or a dash."""
    return "-" if value is None else f"{value:,.{digits}f}"


def clock(moment: float | None) -> str:
    """A moment as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment)) if moment else "-"
