"""What a chart draws: curves, what they are drawn over, and how."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gym_gui.models.series import Floats, Series
from gym_gui.widgets.chart_bands import BandKind
from gym_gui.widgets.chart_marks import Mark
from mosaic.curves.members import Member
from mosaic.curves.names import EPISODES, TAGS, ends_of


@dataclass(frozen=True)
class Look:
    """How all charts of a panel are drawn: over steps, unless `by_time` or `by_episodes`."""

    smoothing: float = 0.6
    log_y: bool = False
    by_time: bool = False
    bands: BandKind | None = None
    by_episodes: bool = False


@dataclass(frozen=True)
class Line:
    """One curve of a chart.

    Attributes:
        group: What it has in common with other seeds of its configuration; empty if it is alone.
        dots: Single results in no order, such as the episodes of an evaluation: not a curve.
        marks: Steps of the run where something went wrong, and what.
        phases: Steps where a phase of a script or a stage of a curriculum began, and its name. The
            curve is interrupted there: one phase's values say nothing about the next one's.
        episodes: How many episodes the run had finished at each step; None if that is not known.
        ends: The lower and the upper end of an interval around it.
    """

    series: Series
    name: str
    colour: str
    strong: bool = False
    group: str = ""
    dots: bool = False
    marks: tuple[Mark, ...] = ()
    phases: tuple[Mark, ...] = ()
    episodes: Series | None = None
    ends: tuple[Series, Series] | None = None

    def piece_starts(self) -> list[int]:
        """The places of the first values of all pieces of the curve but the first."""
        if self.dots or len(self.phases) < 2:
            return []
        # A phase begins after the last step of the one before, whose value is at that step.
        begins = np.asarray([at for at, _ in self.phases[1:]])
        places = np.searchsorted(self.series.steps, begins, side="right")
        return sorted({int(place) for place in places})

    def has_place(self, look: Look) -> bool:
        """Whether it can be drawn; without a count of episodes its steps would mislead."""
        return not look.by_episodes or self.dots or bool(self.episodes)

    def across(self, look: Look, series: Series | None = None) -> Floats:
        """What it is drawn over: steps, episodes, or seconds since its first point.

        Args:
            look: How it is drawn.
            series: Another curve of the same run; this one by default.
        """
        drawn = self.series if series is None else series
        if look.by_time and len(drawn):
            since_start: Floats = drawn.walls - drawn.walls[0]
            return since_start
        if not look.by_episodes or self.dots:
            return drawn.steps
        assert self.episodes is not None, "`has_place` was asked before"
        return np.interp(drawn.steps, self.episodes.steps, self.episodes.values)


def member_line(
    series: Series,
    run: str,
    colour: str,
    member: Member | None,
    *,
    strong: bool = False,
    group: str = "",
) -> Line:
    """The curve of a run, or of one of the members that it trained side by side."""
    if member is None:
        return Line(series, run, colour, strong, group)
    # Seeds of one combination of settings belong together, those of another do not.
    together = " ".join(filter(None, [group or run, member.settings.replace(",", " ")]))
    return Line(series, f"{run}, {member}", colour, strong, together)


def member_colours(
    charts: Iterable[Iterable[Member | None]], series: Sequence[str]
) -> dict[Member | None, str]:
    """A colour for each member: the same for those that differ in their seed only."""
    members = list(dict.fromkeys(member for chart in charts for member in chart))
    settings = list(dict.fromkeys(member.settings for member in members if member))
    places = {text: place for place, text in enumerate(settings)}
    return {
        member: series[places[member.settings] % len(series) if member else 0] for member in members
    }


def member_key(run_id: str, member: Member | None) -> str:
    """What a chart calls the curve of a run, or of one of its members."""
    return run_id if member is None else member.tag(run_id)


def drawn_line(
    line: Line, chart: str, curves: Mapping[str, Series], phases: tuple[Mark, ...] = ()
) -> Line:
    """A line with what the other curves of its run say about it.

    Args:
        line: The line.
        chart: The curve's name.
        curves: All curves of the run.
        phases: Where the run's phases began.
    """
    low, high = (curves.get(end) for end in ends_of(chart))
    return replace(
        line,
        # Episodes of an evaluation have no order: a curve through them would look like learning.
        dots=chart.startswith("eval/"),
        phases=phases,
        episodes=curves.get(TAGS[EPISODES]),
        ends=None if low is None or high is None else (low, high),
    )
