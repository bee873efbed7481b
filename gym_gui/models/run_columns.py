"""The columns of the run table: what each shows, sorts by and gives to a spreadsheet."""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeGuard

from mosaic.presenting import formatting
from mosaic.presenting.run_status import one_line, status_of, title_of
from mosaic.records import RunRecord
from mosaic.records.fields import fields_of

METRIC, SETTING = "metric:", "setting:"
DAEMON = "daemon"
Value = object
SettingOf = Callable[[RunRecord, str], Value]
WhereOf = Callable[[RunRecord], str]
# What each field of the record is, in its own words: the tips of the columns that show one.
_DESCRIPTIONS = {info.name: info.description for info in fields_of(RunRecord)}


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        key: Stable name, used when a view is saved.
        title: What the header says.
        value: The plain value, for a spreadsheet; None when there is none.
        text: What a cell shows; the value itself by default.
        order: What it sorts by; the value by default.
        numeric: Right-aligned; runs that differ in their seed show mean and spread.
        width: Pixels at the normal font size.
        tip: What the header's tool tip says.
        lively: A change of a run's vital signs can move it when sorted by this.
        editable: Can be changed in place.
        shown: Part of the table before anybody chose columns.
    """

    key: str
    title: str
    value: Callable[[RunRecord], Value]
    text: Callable[[RunRecord], str] | None = None
    order: Callable[[RunRecord], Value] | None = None
    numeric: bool = False
    width: int = 100
    tip: str = ""
    lively: bool = False
    editable: bool = False
    shown: bool = True

    def show(self, run: RunRecord) -> str:
        """What a cell says."""
        if self.text is not None:
            return self.text(run)
        return _shown(self.value(run))

    def sort(self, run: RunRecord) -> tuple[int, float | str]:
        """What a row sorts by: nothing first, then numbers, then words."""
        value = self.order(run) if self.order is not None else self.value(run)
        # A kind before each value, because Python refuses to compare numbers with words.
        if isinstance(value, (int, float)):
            return (0, 0) if value != value else (1, value)
        if value is None:
            return (0, 0)
        return (2, value if isinstance(value, str) else str(value))


def _shown(value: Value) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return formatting.number(value) if isinstance(value, (int, float)) else str(value)


def _eta(run: RunRecord) -> float | None:
    # While it is paused, no one knows.
    return run.progress.eta_s if run.is_running and run.progress.eta_s > 0 else None


def _saved_at(run: RunRecord) -> float | None:
    newest = run.newest_checkpoint()
    return newest.saved_at if newest else None


def _spent(run: RunRecord) -> float | None:
    if not run.started_at or not run.finished_at:
        return None
    return float(run.finished_at - run.started_at)


def _field(
    name: str,
    title: str,
    *,
    key: str = "",
    text: Callable[[RunRecord], str] | None = None,
    numeric: bool = False,
    width: int = 100,
    editable: bool = False,
    shown: bool = True,
) -> Column:
    """A column that shows a field of the record and explains it in the record's own words."""
    return Column(
        key or name,
        title,
        lambda run: _plain(getattr(run, name)),
        text,
        numeric=numeric,
        width=width,
        tip=_DESCRIPTIONS[name],
        editable=editable,
        shown=shown,
    )


def _plain(value: Value) -> Value:
    """A field's value for a cell or a spreadsheet: nothing for an empty one."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or None
    return None if value == "" else value


_FIRST: tuple[Column, ...] = (
    Column(
        "state",
        "State",
        lambda r: status_of(r).label,
        order=lambda r: status_of(r).rank,
        width=112,
        lively=True,
    ),
    Column("name", "Name", title_of, order=lambda r: title_of(r).lower(), width=210, editable=True),
    Column(
        "progress",
        "Progress",
        lambda r: r.progress.fraction,
        lambda r: f"{r.progress.fraction * 100:.0f} %",
        width=120,
        lively=True,
    ),
    Column(
        "return",
        "Return",
        lambda r: r.metrics.get("episodic_return"),
        numeric=True,
        width=104,
        tip="Newest mean episodic return",
        lively=True,
    ),
    Column(
        "sps",
        "Steps/s",
        lambda r: r.progress.sps or None,
        lambda r: formatting.number(round(r.progress.sps)) if r.progress.sps else "—",
        numeric=True,
        width=76,
        lively=True,
    ),
    Column(
        "eta",
        "Time left",
        _eta,
        lambda r: formatting.duration(_eta(r)),
        numeric=True,
        width=96,
        tip="Estimated from the speed so far",
        lively=True,
    ),
    _field("algo", "Algorithm", width=140),
    _field("env_id", "Environment", key="env", width=150),
    _field("seed", "Seed", numeric=True, width=56),
    Column(
        "checkpoint",
        "Checkpoint",
        _saved_at,
        lambda r: formatting.ago(_saved_at(r)),
        width=100,
        tip="Age of the newest checkpoint; a run with one can be continued",
        lively=True,
    ),
    _field(
        "created_at",
        "Created",
        key="created",
        text=lambda r: formatting.ago(r.created_at),
        width=96,
    ),
    _field("tags", "Tags", text=lambda r: ", ".join(r.tags), width=110, editable=True),
    _field("notes", "Notes", text=lambda r: " ".join(r.notes.split()), width=180, editable=True),
    Column(
        "why",
        "Waiting for / reason",
        lambda r: one_line(r) or None,
        one_line,
        width=320,
        lively=True,
    ),
    Column(
        "steps",
        "Steps",
        lambda r: r.progress.step,
        numeric=True,
        width=90,
        lively=True,
        shown=False,
    ),
    Column(
        "spent",
        "Took",
        _spent,
        lambda r: formatting.duration(_spent(r)),
        numeric=True,
        width=96,
        tip="From start to end",
        lively=True,
        shown=False,
    ),
    _field("worker", "Worker", width=110, shown=False),
    _field("mode", "Mode", width=100, shown=False),
    _field("run_id", "Run id", key="id", width=230, shown=False),
)
# Fields that a column above shows, alone or with others, and those that are no single value.
_SHOWN_ABOVE = frozenset(
    {
        "run_id", "run_name", "worker", "algo", "env_id", "seed", "state", "progress", "metrics",
        "created_at", "checkpoints", "tags", "notes", "mode", "wait_reason", "reason",
        "capabilities", "version",
    }
)  # fmt: skip


def _others() -> tuple[Column, ...]:
    """Every other field of the record, so that a new one can be chosen without a line here."""
    columns = []
    for name in _DESCRIPTIONS:
        if name not in _SHOWN_ABOVE:
            title = name.removesuffix("_at").removesuffix("_id").replace("_", " ").capitalize()
            moment = name.endswith("_at") or name == "last_heartbeat"
            columns.append(
                _field(
                    name,
                    title,
                    text=_moment_of(name) if moment else None,
                    width=_wide_enough(title),
                    shown=False,
                )
            )
    return tuple(columns)


def _moment_of(name: str) -> Callable[[RunRecord], str]:
    return lambda run: formatting.ago(getattr(run, name))


def _wide_enough(title: str) -> int:
    """Pixels that hold a title, within reason."""
    return min(210, max(100, 28 + 8 * len(title)))


COLUMNS: tuple[Column, ...] = (*_FIRST, *_others())
BY_KEY = {column.key: index for index, column in enumerate(COLUMNS)}
_MOMENTS = frozenset({"checkpoint", "created", "started_at", "finished_at", "last_heartbeat"})
_DURATIONS = frozenset({"eta", "spent"})
_SPEEDS = frozenset({"sps", "steps"})


def metric_column(name: str) -> Column:
    """The newest value of a metric."""
    return Column(
        METRIC + name,
        name,
        lambda run: run.metrics.get(name),
        numeric=True,
        width=_wide_enough(name),
        tip=f"Newest value of {name}",
        lively=True,
        shown=False,
    )


def setting_column(name: str, setting_of: SettingOf) -> Column:
    """A value of the run's config, or the script's default when it was not given."""
    return Column(
        SETTING + name,
        name.replace("_", " "),
        lambda run: setting_of(run, name),
        numeric=True,
        width=_wide_enough(name),
        tip=f"{name} of the run's config; the script's default where none was given",
        shown=False,
    )


def daemon_column(where_of: WhereOf) -> Column:
    """Which daemon a run is on."""
    return Column(
        DAEMON,
        "Daemon",
        where_of,
        width=130,
        tip="The daemon that the run is on; commands go to the one named first",
        shown=False,
    )


def column_of(key: str, setting_of: SettingOf, where_of: WhereOf | None = None) -> Column | None:
    """The column with this key; None when there is none.

    Args:
        key: The column's stable name.
        setting_of: Gives a run's setting.
        where_of: Names a run's daemon; None where there is only one, which needs no column.
    """
    if key == DAEMON:
        return daemon_column(where_of) if where_of is not None else None
    if key in BY_KEY:
        return COLUMNS[BY_KEY[key]]
    if key.startswith(METRIC) and len(key) > len(METRIC):
        return metric_column(key[len(METRIC) :])
    if key.startswith(SETTING) and len(key) > len(SETTING):
        return setting_column(key[len(SETTING) :], setting_of)
    return None


def group_text(column: Column, runs: Iterable[RunRecord], *, alike: bool = True) -> str:
    """What a column says about several runs: mean and spread, or what they have in common.

    Args:
        column: The column.
        runs: The runs of the group.
        alike: Whether they differ in their seed alone. A mean over different configurations
            would say nothing about any of them.
    """
    members = list(runs)
    values = [column.value(run) for run in members]
    if column.key == "seed":
        return _seeds([value for value in values if isinstance(value, int)])
    given = [value for value in values if value is not None]
    if not given or column.key in _MOMENTS:
        return ""
    if len(given) == len(values) and all(value == given[0] for value in given):
        return column.show(members[0])
    numbers = [value for value in given if _is_number(value)]
    if not column.numeric or len(numbers) < len(given):
        return ""
    mean = statistics.fmean(numbers)
    if column.key in _DURATIONS:
        return formatting.duration(mean)
    if column.key in _SPEEDS:
        return formatting.number(round(mean))
    if not alike:
        return ""
    if len(numbers) < 2:
        # The first seed of a group has a number before the others have: a mean without a spread.
        return _rounded(mean, 4)
    return f"{_rounded(mean, 4)} ± {_rounded(statistics.stdev(numbers), 2)} SD"


def _seeds(seeds: list[int]) -> str:
    low, high, count = min(seeds, default=0), max(seeds, default=0), len(set(seeds))
    return f"{low}–{high}" if count > 1 and high - low == count - 1 else f"{count} ×"


def _rounded(value: float, digits: int) -> str:
    """Few digits: the spread says how many are worth reading."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:g}"


def _is_number(value: Value) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def cell_for_file(column: Column, run: RunRecord) -> str:
    """A cell for a spreadsheet: whole numbers and moments, nothing shortened."""
    value = column.value(run)
    if value is None:
        return ""
    if column.key in _MOMENTS and _is_number(value):
        return formatting.moment(value)
    return str(value)
