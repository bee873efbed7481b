"""The columns of the run table: what each shows and sorts by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gym_gui.models import formatting
from gym_gui.models.run_status import Record, newest_checkpoint, one_line, status_of, title_of

_FIRST = float("-inf")


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        key: Stable name, used when a view is saved.
        title: What the header says.
        text: What a cell shows.
        sort: What it sorts by.
        numeric: Right-aligned, in digits of equal width.
        width: Pixels at the normal font size.
        tip: What the header's tool tip says.
    """

    key: str
    title: str
    text: Callable[[Record], str]
    sort: Callable[[Record], Any]
    numeric: bool = False
    width: int = 100
    tip: str = ""


def _return(run: Record) -> float | None:
    return run["metrics"].get("episodic_return")


def _or_first(value: float | None) -> float:
    return _FIRST if value is None else value


def _eta(run: Record) -> str:
    if run["state"] not in ("EXEC", "PAUSE") or run["progress"]["eta_s"] <= 0:
        return "—"
    return formatting.duration(run["progress"]["eta_s"])


def _checkpoint(run: Record) -> str:
    newest = newest_checkpoint(run)
    return formatting.ago(newest["saved_at"]) if newest else "—"


def _checkpoint_age(run: Record) -> float:
    newest = newest_checkpoint(run)
    return newest["saved_at"] if newest else _FIRST


def _seed(run: Record) -> str:
    return "—" if run["seed"] is None else str(run["seed"])


COLUMNS: tuple[Column, ...] = (
    Column("state", "State", lambda r: status_of(r).label, lambda r: status_of(r).rank, width=112),
    Column("name", "Name", title_of, lambda r: title_of(r).lower(), width=210),
    Column(
        "progress",
        "Progress",
        lambda r: f"{r['progress']['fraction'] * 100:.0f} %",
        lambda r: r["progress"]["fraction"],
        width=120,
    ),
    Column(
        "return",
        "Return",
        lambda r: formatting.number(_return(r)),
        lambda r: _or_first(_return(r)),
        True,
        104,
        "Newest mean episodic return",
    ),
    Column(
        "sps",
        "Steps/s",
        lambda r: formatting.number(round(r["progress"]["sps"])) if r["progress"]["sps"] else "—",
        lambda r: r["progress"]["sps"],
        True,
        76,
    ),
    Column(
        "eta",
        "Time left",
        _eta,
        lambda r: r["progress"]["eta_s"] if r["state"] == "EXEC" else _FIRST,
        True,
        96,
        "Estimated from the speed so far",
    ),
    Column("algo", "Algorithm", lambda r: r["algo"] or "—", lambda r: r["algo"], width=140),
    Column("env", "Environment", lambda r: r["env_id"] or "—", lambda r: r["env_id"], width=150),
    Column("seed", "Seed", _seed, lambda r: _or_first(r["seed"]), True, 56),
    Column(
        "checkpoint",
        "Checkpoint",
        _checkpoint,
        _checkpoint_age,
        width=100,
        tip="Age of the newest checkpoint; a run with one can be continued",
    ),
    Column(
        "created",
        "Created",
        lambda r: formatting.ago(r["created_at"]),
        lambda r: r["created_at"],
        width=96,
    ),
    Column("why", "Waiting for / reason", one_line, one_line, width=320),
    Column("tags", "Tags", lambda r: ", ".join(r["tags"]), lambda r: r["tags"], width=110),
)
BY_KEY = {column.key: index for index, column in enumerate(COLUMNS)}
