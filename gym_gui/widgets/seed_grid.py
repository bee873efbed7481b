"""Agents by seeds: how each episode ended, and a click that opens its replay."""

from collections.abc import Sequence

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QTableWidget, QTableWidgetItem, QWidget

from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.controls import plain_table
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column
from gym_gui.widgets.qt_types import sure
from mosaic.arena.match import Match
from mosaic.arena.table import Played, PlayedEpisode, solved
from mosaic.presenting import formatting

_CELL_WIDTH = 54
_EPISODE = Qt.ItemDataRole.UserRole


class SeedGrid(QWidget):
    """One row an agent, one column a seed.

    Signals:
        chosen: An episode that was clicked, with its run.
    """

    chosen = Signal(object)

    def __init__(self, themes: ThemeManager) -> None:
        super().__init__()
        self._themes = themes
        self._shown: tuple[Match, Sequence[Played]] | None = None
        self.table = QTableWidget()
        plain_table(self.table)
        sure(self.table.verticalHeader()).show()
        self.table.setAccessibleName("Episodes by seed")
        self.table.setToolTip("Click an episode to see it again")
        self.table.cellClicked.connect(self._on_cell)
        self.table.cellActivated.connect(self._on_cell)
        self.setLayout(column(label("Episodes by seed", "section"), self.table, spacing=6))
        themes.changed.connect(self._draw)

    def show_episodes(self, match: Match, agents: Sequence[Played]) -> None:
        """Show how every episode ended."""
        self._shown = (match, agents)
        self._draw()

    def _draw(self) -> None:
        if self._shown is None:
            return
        match, agents = self._shown
        self.table.setColumnCount(len(match.seeds))
        self.table.setHorizontalHeaderLabels([str(seed) for seed in match.seeds])
        self.table.setRowCount(len(agents))
        self.table.setVerticalHeaderLabels([played.agent for played in agents])
        for place, played in enumerate(agents):
            by_seed = {one.seed: one for one in played.episodes}
            for at, seed in enumerate(match.seeds):
                self.table.setItem(place, at, self._cell(match, seed, by_seed.get(seed)))
        for at in range(len(match.seeds)):
            self.table.setColumnWidth(at, _CELL_WIDTH)
        heights = sum(self.table.rowHeight(place) for place in range(len(agents)))
        header = sure(self.table.horizontalHeader()).sizeHint().height()
        # As high as its rows and a scroll bar: the page scrolls, not the table.
        self.table.setFixedHeight(heights + header + 24)

    def _cell(self, match: Match, seed: int, one: PlayedEpisode | None) -> QTableWidgetItem:
        if one is None:
            item = QTableWidgetItem("·")
            item.setToolTip(f"seed {seed}: not played yet")
            item.setForeground(self._themes.colour("muted"))
        else:
            reached = solved(match.env_id, one.total)
            total = formatting.number(one.total, 2)
            item = QTableWidgetItem(total if reached is None else "✓" if reached else "✗")
            item.setToolTip(f"seed {seed}: return {one.total:g}, {one.steps} steps; click to see")
            if reached is not None:
                item.setForeground(self._themes.colour("success" if reached else "danger"))
            item.setData(_EPISODE, one)
        item.setTextAlignment(Qt.AlignmentFlag.AlignCenter)
        return item

    def _on_cell(self, place: int, at: int) -> None:
        item = self.table.item(place, at)
        episode = item.data(_EPISODE) if item is not None else None
        if isinstance(episode, PlayedEpisode) and episode.run_id:
            self.chosen.emit(episode)
