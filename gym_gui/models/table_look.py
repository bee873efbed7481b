"""How the run table is looked at, as something that can be named, stored and brought back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from gym_gui.models.run_columns import COLUMNS
from gym_gui.models.stored import fields, items, whole

_VERSION = 1
# A width stored by mistake must not push every other column out of sight.
_WIDEST = 2000


@dataclass(frozen=True)
class TableLook:
    """Filter, order, grouping and columns of the table.

    Attributes:
        filter: As typed.
        sort: Key of the column it is sorted by.
        descending: The largest first.
        grouped: Runs that differ only in their seed stand together.
        columns: Keys and widths of the visible columns, from left to right.
        by_experiment: Runs of an experiment are one row.
    """

    filter: str = ""
    sort: str = "created"
    descending: bool = True
    grouped: bool = False
    columns: tuple[tuple[str, int], ...] = tuple(
        (column.key, column.width) for column in COLUMNS if column.shown
    )
    by_experiment: bool = False

    def to_json(self) -> dict[str, object]:
        """For storing."""
        return {
            "filter": self.filter,
            "sort": self.sort,
            "descending": self.descending,
            "grouped": self.grouped,
            "by_experiment": self.by_experiment,
            "columns": [list(column) for column in self.columns],
        }

    @classmethod
    def from_json(cls, document: object) -> Self:
        """What was stored.

        Raises:
            ValueError: It is something else.
        """
        try:
            stored = fields(document)
            columns = tuple(_column(one) for one in items(stored["columns"]))
            if not columns:
                raise ValueError("a view has at least one column")
            return cls(
                str(stored["filter"]),
                str(stored["sort"]),
                bool(stored["descending"]),
                bool(stored["grouped"]),
                columns,
                bool(stored.get("by_experiment")),
            )
        except KeyError as error:
            raise ValueError(f"this is not a stored view of the table: {error}") from None


def _column(stored: object) -> tuple[str, int]:
    key, width = items(stored)
    return str(key), min(_WIDEST, max(20, whole(width)))


def encode_views(views: Mapping[str, TableLook]) -> dict[str, object]:
    """For storing."""
    return {"version": _VERSION, "views": {name: look.to_json() for name, look in views.items()}}


def decode_views(document: object) -> tuple[dict[str, TableLook], str]:
    """The views that can be read, and a notice when some could not."""
    if document is None:
        return {}, ""
    try:
        if fields(document)["version"] != _VERSION:
            return {}, "The saved views of the run table are from another version; none are shown"
        stored = fields(fields(document)["views"])
    except (KeyError, ValueError):
        return {}, "The saved views of the run table could not be read"
    views: dict[str, TableLook] = {}
    notice = ""
    for name, look in stored.items():
        try:
            views[str(name)] = TableLook.from_json(look)
        except ValueError:
            notice = f"The saved view {name!r} could not be read"
    return views, notice
