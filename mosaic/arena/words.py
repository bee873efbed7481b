"""The table in words, the same in the terminal and in the window. Pure."""

from collections.abc import Sequence

from mosaic.arena.elo import Rating, Teammate
from mosaic.arena.table import Row
from mosaic.statistics.intervals import Interval
from mosaic.statistics.tables import score

COLUMNS = (
    "agent",
    "episodes",
    "success",
    "95 %",
    "return",
    "95 %",
    "lead",
    "95 %",
    "tokens/solved",
    "$/solved",
    "s/solved",
    "ms/step",
)

RATING_COLUMNS = ("agent", "elo", "95 %", "games", "won", "drawn", "lost")
TEAM_COLUMNS = ("agent", "games", "return", "95 %", "with each partner")


def cells(row: Row) -> Sequence[str]:
    """One agent's row, a text for each column."""
    return [
        row.agent,
        str(row.episodes),
        "-" if row.success is None else f"{row.success:.0%}",
        _share(row.success_interval),
        score(row.mean_return),
        between(row.return_interval),
        "-" if row.lead is None else f"{row.lead.mean:+.2f} on {row.lead.seeds}",
        between(row.lead.interval if row.lead else None),
        _number(row.tokens_per_solved, 0),
        _number(row.cost_per_solved, 4),
        _number(row.seconds_per_solved, 2),
        _number(row.milliseconds_per_step, 1),
    ]


def standing(row: Rating | Teammate) -> Sequence[str]:
    """One agent of a round robin, a text for each column."""
    if isinstance(row, Rating):
        ends = f"{row.interval.low:.0f} to {row.interval.high:.0f}" if row.interval else "-"
        counts = (row.games, row.won, row.drawn, row.lost)
        return [row.agent, f"{row.elo:.0f}", ends, *(str(count) for count in counts)]
    partners = ", ".join(f"{name} {score(mean)}" for name, mean in row.partners.items())
    return [row.agent, str(row.games), score(row.mean_return), between(row.interval), partners]


def between(interval: Interval | None) -> str:
    """An interval with two digits, or a dash."""
    return f"{interval.low:.2f} to {interval.high:.2f}" if interval else "-"


def _share(interval: Interval | None) -> str:
    return f"{interval.low:.0%} to {interval.high:.0%}" if interval else "-"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
