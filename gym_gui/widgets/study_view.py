"""The trials of a study beside the figures that Optuna draws of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from qtpy.QtCore import QSize, Qt
from qtpy.QtGui import QPainter, QPaintEvent, QPixmap
from qtpy.QtWidgets import QHeaderView, QTableWidget, QTableWidgetItem, QTabWidget, QWidget

from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.controls import plain_table
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column
from gym_gui.widgets.qt_types import sure
from gym_gui.widgets.wrapping import FoldingSplitter
from mosaic.presenting import formatting

Cell = float | int | str | None
_VALUE_COLUMN = 2


@dataclass(frozen=True)
class Picture:
    """A figure as it is shown: its title, how to read it, and its pixels as PNG."""

    title: str
    caption: str
    png: bytes


def as_cell(value: object) -> Cell:
    """A setting as a table can show and sort it."""
    return value if value is None or isinstance(value, (int, float, str)) else str(value)


class StudyView(QWidget):
    """Sortable trials, and a tab for each figure."""

    def __init__(self, themes: ThemeManager) -> None:
        super().__init__()
        self._themes = themes
        self.table = QTableWidget()
        self.table.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
        plain_table(self.table)
        self.table.setAlternatingRowColors(True)
        self.table.setAccessibleName("Trials")
        self.figures = QTabWidget()
        self.figures.setDocumentMode(True)
        self.note = label("", "muted", wrap=True)
        side = QWidget()
        side.setLayout(column(self.figures, self.note, margin=4, stretch={0: 1}))
        split = FoldingSplitter()
        split.addWidget(self.table)
        split.addWidget(side)
        split.setStretchFactor(0, 2)
        split.setStretchFactor(1, 3)
        split.setSizes([360, 540])
        self.setLayout(column(split))
        self.say("The figures appear with the first completed trials.")

    def say(self, text: str) -> None:
        """Say why there are no figures, or nothing."""
        self.note.setText(text)
        self.note.setVisible(bool(text))

    def show_trials(
        self, names: Sequence[str], rows: Sequence[Sequence[Cell]], maximise: bool
    ) -> None:
        """Fill the table: number, state, value, then a column for each name; the best first."""
        # A sorted table would move each row while it is being filled in.
        self.table.setSortingEnabled(False)
        self.table.setColumnCount(3 + len(names))
        self.table.setHorizontalHeaderLabels(["Trial", "State", "Value", *names])
        self.table.setRowCount(len(rows))
        for place, cells in enumerate(rows):
            for at, value in enumerate(cells):
                self.table.setItem(place, at, _NumberItem(value))
        self.table.setSortingEnabled(True)
        best = Qt.SortOrder.DescendingOrder if maximise else Qt.SortOrder.AscendingOrder
        self.table.sortItems(_VALUE_COLUMN, best)
        self._mark_best()
        header = sure(self.table.horizontalHeader())
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setStretchLastSection(True)

    def show_pictures(self, pictures: Sequence[Picture]) -> None:
        """Show the figures; the one in front stays in front."""
        chosen = self.figures.tabText(self.figures.currentIndex())
        self.figures.clear()
        for picture in pictures:
            page = QWidget()
            page.setLayout(
                column(
                    _Drawing(picture),
                    label(picture.caption, "muted", wrap=True),
                    margin=4,
                    stretch={0: 1},
                )
            )
            self.figures.addTab(page, picture.title)
            if picture.title == chosen:
                self.figures.setCurrentWidget(page)
        self.say("" if pictures else "The figures appear with the first completed trials.")

    @property
    def titles(self) -> list[str]:
        """The titles of the figures that are shown."""
        return [self.figures.tabText(place) for place in range(self.figures.count())]

    def _mark_best(self) -> None:
        """The best trial, wherever sorting moves it."""
        for at in range(self.table.columnCount() if self.table.rowCount() else 0):
            item = sure(self.table.item(0, at))
            font = item.font()
            font.setBold(True)
            item.setFont(font)
            item.setForeground(self._themes.colour("success"))


class _Drawing(QWidget):
    """A picture as large as there is room, in its own proportions."""

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._pixels = QPixmap()
        self._pixels.loadFromData(picture.png)
        self.setAccessibleName(picture.title)
        self.setMinimumSize(QSize(160, 110))

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802
        if self._pixels.isNull():
            return
        ratio = self.devicePixelRatioF()
        keep, smooth = (
            Qt.AspectRatioMode.KeepAspectRatio,
            Qt.TransformationMode.SmoothTransformation,
        )
        fitted = self._pixels.scaled(self.size() * ratio, keep, smooth)
        fitted.setDevicePixelRatio(ratio)
        painter = QPainter(self)
        painter.drawPixmap(int((self.width() - fitted.width() / ratio) / 2), 0, fitted)
        painter.end()


class _NumberItem(QTableWidgetItem):
    """Sorts by number."""

    def __init__(self, value: Cell) -> None:
        shown = value if isinstance(value, str) else formatting.number(value)
        super().__init__(shown)
        self._value = value

    def __lt__(self, other: QTableWidgetItem) -> bool:
        mine = self._value
        theirs = other._value if isinstance(other, _NumberItem) else None
        if mine is None or theirs is None:
            return mine is not None
        if isinstance(mine, str) or isinstance(theirs, str):
            return str(mine) < str(theirs)
        return mine < theirs
