"""How the command line speaks: tables on a terminal, plain lines in a pipe, JSON when asked."""

import json
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from mosaic.records import RunRecord
from mosaic.records.fields import plain

if TYPE_CHECKING:
    from rich.console import Console

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
    """Whether a person looks at standard output."""
    return sys.stdout.isatty()


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(plain(document), indent=2 if on_terminal() else None))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for people, or tab-separated lines for programs."""
    if not on_terminal():
        print("\t".join(columns))
        for row in rows:
            print("\t".join(_plain(cell) for cell in row))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        right = column in ("PROGRESS", "RETURN", "SPS", "AGE", "ETA")
        table.add_column(column, justify="right" if right else "left", overflow="ellipsis")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def _plain(cell: str) -> str:
    from rich.text import Text

    return Text.from_markup(cell).plain


def state_cell(record: RunRecord) -> str:
    """A run's state or outcome, coloured, never by colour alone."""
    if record.ended:
        outcome = record.outcome or "ended"
        return f"[{OUTCOME_STYLES.get(outcome, 'default')}]{outcome}[/]"
    words = str(record.state)
    if record.stopping:
        words += " stopping"
    elif record.stalled:
        words += " stalled"
    return f"[{STATE_STYLES.get(record.state, 'default')}]{words}[/]"


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


def score(value: float | None) -> str:
    """A return: those of sparse tasks lie between 0 and 1, and there every hundredth counts."""
    return number(value, 2 if value is not None and abs(value) < 10 else 1)


def clock(moment: float | None) -> str:
    """A moment as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment)) if moment else "-"
