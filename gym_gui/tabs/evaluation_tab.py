"""How well a run's policies do, and what happens inside their episodes, one or two at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from qtpy.QtWidgets import QComboBox, QSizePolicy, QWidget

from gym_gui.background.evaluation_reading import read_episode_inside, read_evaluations
from gym_gui.background.recordings import Picture
from gym_gui.models.episodes import Inside, Judged, Recorded, best_of, first_difference
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.controls import button
from gym_gui.widgets.episode_view import EpisodeView
from gym_gui.widgets.evaluation_chart import EvaluationChart
from gym_gui.widgets.interval_plot import IntervalPlot, IntervalRow
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row, scrolled
from gym_gui.widgets.messages import EmptyState
from gym_gui.widgets.wrapping import FoldingSplitter, WrappingRow
from mosaic.client import TrainerClient
from mosaic.curves.names import EVALUATED_RETURN
from mosaic.presenting.run_status import title_of

# Each is read whole to offer its episodes; more would take a moment.
_MOST_OTHERS = 6
_ALONE = "No other episode"
Evaluations = Mapping[str, tuple[Judged, ...]]


@dataclass(frozen=True)
class _Episode:
    """An episode of a run that can be opened."""

    run_id: str
    recorded: Recorded
    name: str


class EvaluationTab(RunTab):
    """The evaluation curve, one evaluation of it, and its episodes."""

    title = "Evaluation"
    icon = "flag"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._known: Evaluations = {}
        self._place = -1
        self._seen_points = -1
        self._wanted_seed: int | None = None
        self.chart = EvaluationChart(services.themes)
        self.chart.chosen.connect(self.choose)
        self.said = label("", wrap=True)
        self.spread = IntervalPlot(services.themes)
        self.episodes = _short_list("Episode of the evaluation", "What can be looked into")
        self.episodes.currentIndexChanged.connect(lambda _place: self._on_episode())
        self.view = EpisodeView(services.themes)
        self.other = EpisodeView(services.themes)
        self.other.hide()
        self.beside = _short_list("Episode beside it", "The same seed, played by another policy")
        self.beside.currentIndexChanged.connect(lambda _place: self._on_beside())
        self.jump = button("First different action", self.jump_to_difference)
        self.jump.setEnabled(False)
        for one, two in ((self.view, self.other), (self.other, self.view)):
            one.player.slider.valueChanged.connect(partial(self._follow, two))
        numbers = QWidget()
        numbers.setLayout(column(self.said, self.spread, 1, spacing=6))
        above = FoldingSplitter()
        above.addWidget(self.chart)
        above.addWidget(numbers)
        above.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        tools = QWidget()
        tools.setLayout(
            WrappingRow(
                label("Episode", "muted"),
                self.episodes,
                label("beside", "muted"),
                self.beside,
                self.jump,
            )
        )
        both = row(self.view, self.other, spacing=10)
        both.setStretch(0, 1)
        both.setStretch(1, 1)
        page = QWidget()
        page.setLayout(column(above, tools, both, spacing=8, stretch={2: 1}))
        self._page = scrolled(page)
        self._empty = EmptyState(
            "Not evaluated yet",
            "Train with `Evaluate every` in the form (--eval-every), or press the flag above the "
            "table to evaluate its policy now.",
        )
        self.setLayout(column(self._empty, self._page, margin=10))
        self._page.hide()
        services.feeds.grown.connect(self._on_grown)
        services.selection.changed.connect(self._on_selection)

    def on_open(self) -> None:
        self.services.feeds.take(self.run_id)
        self.look()

    def on_close(self) -> None:
        self.services.feeds.give_back(self.run_id)
        for view in (self.view, self.other):
            view.player.stop()

    def on_other_run(self) -> None:
        self._known, self._place = {}, -1
        self._seen_points = -1
        self._wanted_seed = None
        self._fill()

    def look(self) -> None:
        """Read what there is now, of this run and of those selected with it."""
        if self.run is None:
            return
        run_id = self.run_id
        others = [one for one in self.services.selection.ids if one != run_id][:_MOST_OTHERS]

        def show(found: Evaluations) -> None:
            if run_id == self.run_id and found != self._known:
                self._known = found
                self._fill()

        self.services.daemons.ask_each(
            (run_id, *others),
            read_evaluations,
            show,
            lambda error: self._empty.say("Evaluations cannot be read", str(error)),
        )

    @property
    def evaluations(self) -> tuple[Judged, ...]:
        """Those of the run that is shown."""
        return self._known.get(self.run_id, ())

    def choose(self, place: int) -> None:
        """Show one evaluation and its episodes."""
        self._place = place
        self._fill()
        if self.episodes.currentIndex() < 0 and self.episodes.count():
            self.episodes.setCurrentIndex(0)

    def open_seed(self, seed: int) -> None:
        """Show the episode that began with a seed; when it is not listed yet, as soon as it is."""
        self._wanted_seed = seed
        self._choose_wanted()

    def _choose_wanted(self) -> None:
        if self._wanted_seed is None:
            return
        for place in range(self.episodes.count()):
            one = self.episodes.itemData(place)
            if isinstance(one, _Episode) and one.recorded.seed == self._wanted_seed:
                self._wanted_seed = None
                self.episodes.setCurrentIndex(place)
                return

    def jump_to_difference(self) -> None:
        """Show the first step at which the two policies did not do the same."""
        ours, theirs = self.view.inside, self.other.inside
        if ours is None or theirs is None:
            return
        step = first_difference(ours, theirs)
        if step is None:
            self.jump.setText("No different action")
        else:
            self.view.player.slider.setValue(step)
            self.other.player.slider.setValue(step)

    def _on_grown(self, run_id: str, tags: set[str]) -> None:
        # A new point of the curve means that a new evaluation is complete.
        if self.active and run_id == self.run_id and EVALUATED_RETURN in tags:
            points = len(self.services.feeds.curves(run_id)[EVALUATED_RETURN])
            if points != self._seen_points:
                self._seen_points = points
                self.look()

    def _on_selection(self) -> None:
        if self.active:
            self.look()

    def _fill(self) -> None:
        found = self.evaluations
        self._empty.setVisible(not found)
        self._page.setVisible(bool(found))
        if not found:
            self.episodes.clear()
            return
        if not 0 <= self._place < len(found):
            self._place = len(found) - 1
        chosen, best = found[self._place], best_of(found)
        self.chart.setVisible(any(one.step is not None for one in found))
        self.chart.show_evaluations(found, self._place)
        self.said.setText(chosen.text(chosen.step is not None and chosen.step == best))
        colours = self.services.themes.theme.series
        named = [("best actions" if chosen.sampled else "episodes", colours[0], chosen.sure)]
        if chosen.sampled is not None:
            named.append(("sampled", colours[1], chosen.sampled))
        self.spread.show_rows(
            [
                IntervalRow(name, colour, np.array(one.returns), one.mean, one.low, one.high)
                for name, colour, one in named
            ],
            "return of an episode",
        )
        self._list(chosen)

    def _list(self, chosen: Judged) -> None:
        opened = self.episodes.currentData()
        wanted = [_Episode(self.run_id, one, one.label) for one in chosen.recorded]
        if [self.episodes.itemData(at) for at in range(self.episodes.count())] == wanted:
            return
        # Filling the list would open each episode in turn.
        self.episodes.blockSignals(True)
        self.episodes.clear()
        for one in wanted:
            self.episodes.addItem(self.services.themes.icon("film", "muted"), one.name, one)
        self.episodes.setCurrentIndex(wanted.index(opened) if opened in wanted else -1)
        self.episodes.blockSignals(False)
        if not wanted:
            self.view.clear("No episode of this evaluation was recorded.")
        elif opened not in wanted:
            self.view.clear("Click a point of the curve, or choose an episode.")
        self._offer_others(self.episodes.currentData())
        self._choose_wanted()

    def _on_episode(self) -> None:
        chosen = self.episodes.currentData()
        if isinstance(chosen, _Episode):
            self._open(self.view, chosen)
            self._offer_others(chosen)

    def _offer_others(self, chosen: _Episode | None) -> None:
        """List the episodes that other policies played with the same seed."""
        self.beside.blockSignals(True)
        self.beside.clear()
        self.beside.addItem(_ALONE, None)
        for run_id, evaluations in self._known.items():
            run = self.services.store.get(run_id)
            who = "" if run_id == self.run_id or run is None else f"{title_of(run)} · "
            for one in evaluations:
                step = "" if one.step is None else f"step {one.step:,} · "
                for recorded in one.recorded:
                    if chosen is not None and _same_seed(chosen, run_id, recorded):
                        name = f"{who}{step}{recorded.label}"
                        self.beside.addItem(name, _Episode(run_id, recorded, name))
        self.beside.blockSignals(False)
        self._on_beside()

    def _on_beside(self) -> None:
        chosen = self.beside.currentData()
        self.other.setVisible(chosen is not None)
        self.jump.setEnabled(False)
        self.jump.setText("First different action")
        if isinstance(chosen, _Episode):
            self._open(self.other, chosen)
        else:
            self.other.clear("")

    def _open(self, view: EpisodeView, chosen: _Episode) -> None:
        view.clear("Loading …")

        def show(loaded: tuple[Inside, list[Picture]]) -> None:
            if self._wanted(view) == chosen:
                view.show_episode(chosen.name, *loaded)
                both = self.view.inside is not None and self.other.inside is not None
                self.jump.setEnabled(both)

        def read(client: TrainerClient) -> tuple[Inside, list[Picture]]:
            cache = self.services.cache
            return read_episode_inside(client, cache, chosen.run_id, chosen.recorded.path)

        link = self.services.link_of(chosen.run_id)
        link.ask(read, show, lambda error: view.clear(str(error)))

    def _wanted(self, view: EpisodeView) -> object:
        """The episode that a view is to show now; another may have been chosen meanwhile."""
        if view is self.other:
            return self.beside.currentData()
        return self.episodes.currentData()

    def _follow(self, other: EpisodeView, step: int) -> None:
        """Two episodes beside each other show the same step."""
        if self.other.isVisible() and other.inside is not None:
            other.player.slider.setValue(min(step, other.player.slider.maximum()))


def _same_seed(chosen: _Episode, run_id: str, recorded: Recorded) -> bool:
    """Whether an episode is another one that began with the same seed."""
    if (run_id, recorded.path) == (chosen.run_id, chosen.recorded.path):
        return False
    return recorded.seed is not None and recorded.seed == chosen.recorded.seed


def _short_list(name: str, tip: str) -> QComboBox:
    box = QComboBox()
    box.setAccessibleName(name)
    box.setToolTip(tip)
    # As wide as a few words: the longest entry names a run, a step and a seed.
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(26)
    return box
