"""Charts of many tags in a grid, with the controls they share."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyqtgraph.exporters
from qtpy.QtCore import Qt, QTimer, Signal
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QGridLayout,
    QLineEdit,
    QMenu,
    QSlider,
    QToolButton,
    QWidget,
)

from gym_gui.models.facets import chart_order, split_facet
from gym_gui.models.series import Series, as_csv
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.chart import Chart
from gym_gui.widgets.chart_bands import KINDS, BandKind, legend
from gym_gui.widgets.chart_clock import ChartClock
from gym_gui.widgets.chart_lines import Line, Look
from gym_gui.widgets.labels import ElidedLabel, label
from gym_gui.widgets.layouts import column, framed, row, scrolled
from gym_gui.widgets.messages import EmptyState
from gym_gui.widgets.qt_types import sure
from gym_gui.widgets.wrapping import WrappingRow

Lines = Mapping[str, Mapping[str, Line]]
# Making a chart takes longer than filling one; this many cover an algorithm's tags.
_MOST_SPARE = 40
# Charts in sight are arranged as they come, those below all at once.
_FIRST_SCREEN = 8
_CARD_WIDTH = 320


class ChartCard(QWidget):
    """One tag's chart with its name and its menu.

    Signals:
        pinned: The pin was switched.
    """

    pinned = Signal()

    def __init__(self, tag: str, themes: ThemeManager, clock: ChartClock) -> None:
        super().__init__()
        self.tag = tag
        self.chart = Chart(themes, clock, tag)
        self.chart.setMinimumHeight(190)
        self._lines: Mapping[str, Line] = {}
        self.pin = QToolButton()
        self.pin.setObjectName("flat")
        self._themes = themes
        self.pin.setAccessibleName(f"Pin {tag}")
        self.pin.setCheckable(True)
        self.pin.setToolTip("Keep this chart at the top")
        themes.changed.connect(self._recolour)
        self._recolour()
        self.pin.toggled.connect(lambda _on: self.pinned.emit())
        more = QToolButton()
        more.setObjectName("flat")
        more.setText("⋯")
        more.setAccessibleName(f"More about {tag}")
        more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(more)
        sure(menu.addAction("Show everything")).triggered.connect(self.chart.reset_zoom)
        sure(menu.addAction("Export PNG …")).triggered.connect(
            lambda: self._choose("png", self.save_png)
        )
        sure(menu.addAction("Export CSV …")).triggered.connect(
            lambda: self._choose("csv", self.save_csv)
        )
        more.setMenu(menu)
        curve, facet = split_facet(tag)
        head = row(ElidedLabel(curve, "section"), self.pin, more)
        head.setStretch(0, 1)
        # On a line of its own: behind a long name it would be cut off, and charts look the same.
        self.facet = ElidedLabel(facet, "muted")
        parts = column(head, self.facet, self.chart, margin=8, spacing=4)
        self.setLayout(column(framed(parts)))
        # After the layout, which gives it a parent.
        self.facet.setVisible(bool(facet))

    def show_lines(self, lines: Mapping[str, Line], look: Look) -> None:
        """Show these curves."""
        self._lines = lines
        self.chart.set_lines(lines, look)

    def _recolour(self) -> None:
        self.pin.setIcon(self._themes.icon("pin", "muted"))

    def empty(self) -> None:
        """Show nothing, at once: the next curves may be another run's."""
        self.show_lines({}, Look())
        self.chart.draw()
        self.chart.reset_zoom()

    def save_png(self, path: Path) -> None:
        """Write the chart as a picture."""
        self.chart.draw()
        while self.chart.is_fresh:  # of many curves each turn draws some
            self.chart.draw()
        exporter = pyqtgraph.exporters.ImageExporter(self.chart.plot.getPlotItem())
        exporter.export(str(path))

    def save_csv(self, path: Path) -> None:
        """Write the curves' points."""
        named: dict[str, Series] = {
            f"{line.name} {key}": line.series for key, line in self._lines.items()
        }
        path.write_text(as_csv(named), encoding="utf-8")

    def _choose(self, ending: str, write: Callable[[Path], None]) -> None:
        name = self.tag.replace("/", "-") + "." + ending
        dialog = QFileDialog(self, "Export", name, f"*.{ending}")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.fileSelected.connect(lambda chosen: write(Path(chosen)))
        dialog.open()


class ChartGrid(QWidget):
    """Every tag's chart, with smoothing, log scale, band and search."""

    def __init__(
        self,
        themes: ThemeManager,
        clock: ChartClock,
        smoothing: float,
        *extra: QWidget,
    ) -> None:
        super().__init__()
        self._themes, self._clock = themes, clock
        self._cards: dict[str, ChartCard] = {}
        self._spare: dict[str, ChartCard] = {}
        self._lines: Lines = {}
        self._columns = 0
        self._make_controls(smoothing, extra)
        self._host = QWidget()
        self._grid = QGridLayout(self._host)
        self._grid.setContentsMargins(0, 0, 4, 0)
        self._grid.setSpacing(8)
        self._empty = EmptyState("No curves yet", "They appear with the first numbers of the run.")
        self._area = scrolled(self._host)
        self.setLayout(column(self._controls, self.legend, self._empty, self._area, spacing=6))
        self._area.hide()
        self._make_timer = QTimer(self)
        # One chart a turn of the event loop: forty at once would freeze the window.
        self._make_timer.setInterval(1)
        self._make_timer.timeout.connect(self._make_one)
        self._arrange_later = QTimer(self)
        self._arrange_later.setSingleShot(True)
        self._arrange_later.setInterval(60)
        self._arrange_later.timeout.connect(self._arrange)

    def _make_controls(self, smoothing: float, extra: Sequence[QWidget]) -> None:
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search charts")
        self.search.setClearButtonEnabled(True)
        self.search.setAccessibleName("Search charts")
        self.search.textChanged.connect(lambda _text: self._arrange_later.start())
        self.smoothing = QSlider(Qt.Orientation.Horizontal)
        self.smoothing.setRange(0, 99)
        self.smoothing.setValue(round(smoothing * 100))
        self.smoothing.setFixedWidth(110)
        self.smoothing.setAccessibleName("Smoothing")
        self.log = QCheckBox("Log")
        self.time = QCheckBox("Over time")
        self.episodes = QCheckBox("Over episodes")
        self.episodes.setToolTip("How many episodes the run had finished, instead of its steps")
        self.band = QComboBox()
        self.band.setAccessibleName("What is drawn of several seeds")
        self.band.setToolTip("Every run alone, or the seeds of each configuration together")
        self.band.addItem("Every run", None)
        for kind in KINDS:
            self.band.addItem(kind.short, kind)
        self.smoothing.valueChanged.connect(lambda _value: self.refresh())
        # A chart has one axis below it.
        self.time.toggled.connect(partial(self._leave, self.episodes))
        self.episodes.toggled.connect(partial(self._leave, self.time))
        for box in (self.log, self.time, self.episodes):
            box.toggled.connect(lambda _on: self.refresh())
        self.band.currentIndexChanged.connect(lambda _place: self.refresh())
        self.legend = label("", "muted", wrap=True)
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        self.legend.hide()
        self._controls = QWidget()
        words = label("Smoothing", "muted")
        self._controls.setLayout(
            WrappingRow(
                self.search,
                words,
                self.smoothing,
                self.log,
                self.time,
                self.episodes,
                self.band,
                *extra,
            )
        )

    def _leave(self, other: QCheckBox, on: bool) -> None:
        if on:
            other.setChecked(False)

    @property
    def look(self) -> Look:
        """How the charts are drawn now."""
        return Look(
            smoothing=min(0.99, self.smoothing.value() / 100),
            log_y=self.log.isChecked(),
            by_time=self.time.isChecked(),
            by_episodes=self.episodes.isChecked(),
            bands=self.band.currentData(),
        )

    @property
    def cards(self) -> dict[str, ChartCard]:
        """The cards by tag."""
        return self._cards

    @property
    def complete(self) -> bool:
        """Whether every curve is on screen."""
        waiting = set(self._lines) - set(self._cards) or self._arrange_later.isActive()
        return not waiting and not any(card.chart.is_fresh for card in self._cards.values())

    def show_curves(self, lines: Lines) -> None:
        """Show curves by tag, then by run; new charts are made one at a time."""
        self._lines = lines
        for tag in set(self._cards) - set(lines):
            self._put_aside(tag)
        if set(lines) - set(self._cards):
            self._make_timer.start()
        self.refresh()

    def _put_aside(self, tag: str) -> None:
        """Keep the card of a tag that went: the next run most likely has the same tags."""
        card = self._spare[tag] = self._cards.pop(tag)
        card.hide()
        card.empty()
        while len(self._spare) > _MOST_SPARE:
            gone = self._spare.pop(next(iter(self._spare)))
            gone.chart.close_chart()
            gone.setParent(None)
            gone.deleteLater()
        self._arrange_later.start()

    def _make_one(self) -> None:
        waiting = sorted(set(self._lines) - set(self._cards), key=chart_order)
        if not waiting:
            self._make_timer.stop()
            return
        card = self._spare.pop(waiting[0], None)
        if card is None:
            card = ChartCard(waiting[0], self._themes, self._clock)
            card.pinned.connect(self._arrange_later.start)
        card.show_lines(self._lines[waiting[0]], self.look)
        self._cards[waiting[0]] = card
        self._empty.hide()
        self._area.show()
        if len(self._cards) <= _FIRST_SCREEN:
            self._arrange()
        else:
            self._arrange_later.start()

    def refresh(self) -> None:
        """Draw everything again."""
        look = self.look
        for tag, card in self._cards.items():
            card.show_lines(self._lines.get(tag, {}), look)
        self._empty.setVisible(not self._cards)
        self._area.setVisible(bool(self._cards))
        self._say_what_is_drawn()

    def _say_what_is_drawn(self) -> None:
        """Name the kind of the bands, and whose they are."""
        kind = self.band.currentData()
        seeds: dict[str, tuple[int, str]] = {}
        for lines in self._lines.values():
            grouped = Counter(line.group for line in lines.values() if line.group)
            for name, count in grouped.items():
                colour = next(line.colour for line in lines.values() if line.group == name)
                # The fullest chart counts: of a run with many seeds some curves are means over
                # them, and would be one seed more.
                seeds[name] = max(seeds.get(name, (0, colour)), (count, colour))
        shown = isinstance(kind, BandKind) and bool(seeds)
        self.legend.setVisible(shown)
        if isinstance(kind, BandKind) and shown:
            self.legend.setText(legend(kind, seeds))

    def say_empty(self, title: str, text: str) -> None:
        """What to read when there are no curves."""
        self._empty.say(title, text)

    def resizeEvent(self, event: QResizeEvent | None) -> None:  # noqa: N802
        super().resizeEvent(event)
        if self._wanted_columns() != self._columns:
            self._arrange_later.start()

    def _wanted_columns(self) -> int:
        return max(1, min(4, self.width() // _CARD_WIDTH))

    def _arrange(self) -> None:
        search = self.search.text().lower()
        self._columns = self._wanted_columns()
        while self._grid.takeAt(0) is not None:
            pass
        ordered = sorted(
            self._cards.values(), key=lambda card: (not card.pin.isChecked(), chart_order(card.tag))
        )
        place = 0
        for card in ordered:
            fits = search in card.tag.lower()
            if fits:
                self._grid.addWidget(card, place // self._columns, place % self._columns)
                place += 1
            # Only now that it has a parent: a new card would be shown as a window of its own for a
            # moment, and take the keys from this one.
            card.setVisible(fits)
        for column_number in range(4):
            self._grid.setColumnStretch(column_number, int(column_number < self._columns))
