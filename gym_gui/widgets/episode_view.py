"""One episode from inside: the picture, what the policy considered, and curves over the steps."""

from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from qtpy.QtWidgets import QComboBox, QWidget

from gym_gui.background.recordings import Picture
from gym_gui.models.episodes import Inside
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.axis import ReadableAxis
from gym_gui.widgets.labels import ElidedLabel, label
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.player import Player
from mosaic.presenting import formatting

_SCORES = {
    "probabilities": "Probability of each action",
    "values": "Value of each action",
    "mean": "Mean of each part of the action",
}
_PLOT_HEIGHT = 100


class EpisodeView(QWidget):
    """A player with the agent's numbers beside the picture."""

    def __init__(self, themes: ThemeManager) -> None:
        super().__init__()
        self._themes = themes
        self._inside: Inside | None = None
        self.title = ElidedLabel("", "section")
        self.player = Player(themes)
        self.said = label("", "muted", wrap=True)
        self._scores_title = label("", "muted")
        self.scores = _small_plot("What the policy considered")
        self.line = QComboBox()
        self.line.setAccessibleName("Curve of the episode")
        self.line.currentTextChanged.connect(lambda _text: self._draw_line())
        self.curve = _small_plot("Curve of the episode")
        self._cursor = pg.InfiniteLine(angle=90, movable=False)
        self._numbers = QWidget()
        considered = column(self._scores_title, self.scores, spacing=2)
        beside = row(considered, column(self.line, self.curve, spacing=2), spacing=6)
        beside.setStretch(0, 1)
        beside.setStretch(1, 1)
        self._numbers.setLayout(column(self.said, beside, spacing=4))
        self.setLayout(column(self.title, self.player, self._numbers, spacing=6, stretch={1: 1}))
        self.player.slider.valueChanged.connect(self.show_step)
        themes.changed.connect(self._recolour)
        self.clear("Choose an episode.")

    @property
    def inside(self) -> Inside | None:
        """The episode that is shown."""
        return self._inside

    def clear(self, words: str) -> None:
        """Show nothing but words."""
        self._inside = None
        self.title.set_full("")
        self._numbers.hide()
        self.player.clear(words)

    def show_episode(self, title: str, inside: Inside, pictures: Sequence[Picture]) -> None:
        """Show an episode from its first step."""
        self._inside = inside
        self.title.set_full(title)
        self._numbers.show()
        steps = max(len(inside.actions), 1)
        # Without a film the numbers alone can be stepped through.
        shown = list(pictures) or [Picture(b"", "") for _ in range(steps)]
        self.player.load([_captioned(at, one, inside) for at, one in enumerate(shown)], inside.rate)
        chosen = self.line.currentText()
        self.line.clear()
        self.line.addItems(list(inside.lines))
        self.line.setCurrentText(chosen if chosen in inside.lines else next(iter(inside.lines), ""))
        self._scores_title.setText(_SCORES.get(inside.scores_are, ""))
        self.scores.setVisible(bool(len(inside.scores)))
        self._recolour()

    def show_step(self, step: int) -> None:
        """Show what was considered and taken at a step."""
        inside = self._inside
        if inside is None:
            return
        self._cursor.setPos(step)
        if step >= len(inside.actions):
            self.said.setText(f"The end: return {formatting.number(inside.total)}")
            self.scores.clear()
            return
        parts = [f"step {step}", f"action {_action(inside.actions[step])}"]
        for name in ("reward", "value"):
            if name in inside.lines and step < len(inside.lines[name]):
                parts.append(f"{name} {formatting.number(float(inside.lines[name][step]))}")
        self.said.setText(" · ".join(parts))
        self._draw_scores(step, inside)

    def _draw_scores(self, step: int, inside: Inside) -> None:
        self.scores.clear()
        if step >= len(inside.scores):
            return
        now = inside.scores[step]
        taken = inside.actions[step]
        theme = self._themes.theme
        colours = [theme.series[0] if place == taken else theme.muted for place in range(len(now))]
        bars = pg.BarGraphItem(x=np.arange(len(now)), height=now, width=0.7, brushes=colours)
        self.scores.addItem(bars)
        known = inside.scores[np.isfinite(inside.scores)]
        if inside.scores_are == "probabilities":
            self.scores.setYRange(0, 1, padding=0)
        elif len(known):
            # The same scale at every step: bars that jump with their axis say nothing.
            self.scores.setYRange(min(0.0, float(known.min())), max(0.0, float(known.max())))
        ticks = [(place, str(place)) for place in range(len(now))]
        self.scores.getAxis("bottom").setTicks([ticks if len(ticks) <= 20 else []])

    def _draw_line(self) -> None:
        self.curve.clear()
        if self._inside is None or self.line.currentText() not in self._inside.lines:
            return
        values = self._inside.lines[self.line.currentText()]
        pen = pg.mkPen(self._themes.theme.series[0], width=1.5)
        self.curve.addItem(pg.PlotDataItem(np.arange(len(values)), values, pen=pen))
        self.curve.addItem(self._cursor, ignoreBounds=True)

    def _recolour(self) -> None:
        theme = self._themes.theme
        for plot in (self.scores, self.curve):
            plot.setBackground(theme.surface)
            for name in ("left", "bottom"):
                plot.getAxis(name).setPen(theme.border)
                plot.getAxis(name).setTextPen(theme.muted)
        self._cursor.setPen(pg.mkPen(theme.text, width=1))
        self._draw_line()
        self.show_step(self.player.slider.value())


def _captioned(step: int, picture: Picture, inside: Inside) -> Picture:
    if step >= len(inside.actions):
        return Picture(picture.data, f"the end · return {formatting.number(inside.total)}")
    return Picture(picture.data, f"action {_action(inside.actions[step])}")


def _action(action: object) -> str:
    if isinstance(action, list):
        return "[" + ", ".join(formatting.number(part) for part in action) + "]"
    return str(action)


def _small_plot(name: str) -> pg.PlotWidget:
    axes = {side: ReadableAxis(side) for side in ("left", "bottom")}
    plot = pg.PlotWidget(enableMenu=False, axisItems=axes)
    plot.hideButtons()
    plot.setMouseEnabled(x=False, y=False)
    plot.setAccessibleName(name)
    plot.setFixedHeight(_PLOT_HEIGHT)
    axes["left"].setWidth(48)
    return plot
