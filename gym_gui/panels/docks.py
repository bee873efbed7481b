"""The docks of the window: placed by named layouts, remembered, locked, and reset."""

from collections.abc import Mapping

from qtpy.QtCore import QByteArray, QSize, Qt, QTimer
from qtpy.QtWidgets import QDockWidget, QMainWindow, QWidget

from gym_gui.models.dock_layouts import BOTTOM, LAYOUTS, LEFT, RIGHT, STATE_VERSION, Layout
from gym_gui.widgets.qt_types import sure
from gym_gui.widgets.wrapping import ScrollingPanel

_AREAS = {
    LEFT: Qt.DockWidgetArea.LeftDockWidgetArea,
    RIGHT: Qt.DockWidgetArea.RightDockWidgetArea,
    BOTTOM: Qt.DockWidgetArea.BottomDockWidgetArea,
}


class DockManager:
    """Arranges the docks of a window."""

    def __init__(self, window: QMainWindow, pages: Mapping[str, tuple[str, QWidget]]) -> None:
        self._window = window
        self.docks: dict[str, QDockWidget] = {}
        self.current = "train"
        self._states: dict[str, bytes] = {}
        self._sizes: dict[str, QSize] = {}
        # Docks that have just been shown take a size only once they have been laid out.
        self._settle = QTimer(window)
        self._settle.setSingleShot(True)
        self._settle.setInterval(0)
        self._settle.timeout.connect(lambda: self._resize(LAYOUTS[self.current]))
        window.setDockNestingEnabled(True)
        corner, area = Qt.Corner, Qt.DockWidgetArea
        window.setCorner(corner.BottomLeftCorner, area.LeftDockWidgetArea)
        window.setCorner(corner.BottomRightCorner, area.RightDockWidgetArea)
        for name, (title, page) in pages.items():
            dock = QDockWidget(title, window)
            dock.setObjectName(f"dock.{name}")
            # A small screen with large text shows a part of the panel, never a cut one.
            dock.setWidget(ScrollingPanel(page))
            dock.hide()
            window.addDockWidget(_AREAS[RIGHT], dock)
            self.docks[name] = dock

    def show_layout(self, name: str) -> bool:
        """Switch to a layout; False when its stored form could not be used."""
        # The layout is left as it was arranged, so that coming back finds it so.
        size = self._window.size()
        self._states[self.current] = self._window.saveState(STATE_VERSION).data()
        self._sizes[self.current] = size
        self.current = name
        # Docks of both layouts side by side, if only for a moment, would widen the window.
        for dock in self.docks.values():
            dock.hide()
        whole = self._apply(self._states.get(name))
        self._window.resize(size)
        if name in self._sizes and self._sizes[name] != size:
            # It was arranged in a window of another size.
            self.rescale(self._sizes[name], size)
        return whole

    def _apply(self, stored: bytes | None) -> bool:
        if stored is not None and self._window.restoreState(QByteArray(stored), STATE_VERSION):
            sure(self._window.centralWidget()).setVisible(LAYOUTS[self.current].show_runs)
            return True
        self.reset()
        return stored is None

    def reset(self) -> None:
        """Bring the current layout back to how it was made."""
        layout = LAYOUTS[self.current]
        wanted = {name for name, _, _ in layout.docks}
        for name, dock in self.docks.items():
            dock.setFloating(False)
            if name not in wanted:
                dock.hide()
        sure(self._window.centralWidget()).setVisible(layout.show_runs)
        for name, side, _ in layout.docks:
            self._window.addDockWidget(_AREAS[side], self.docks[name])
            self.docks[name].show()
        self._resize(layout)
        self._settle.start()

    def show_dock(self, name: str) -> None:
        """Bring a dock to the front, wherever it is."""
        dock = self.docks[name]
        if not dock.isVisible() and not dock.isFloating():
            self._window.addDockWidget(_AREAS[RIGHT], dock)
        dock.show()
        dock.raise_()

    def lock(self, locked: bool) -> None:
        """Keep docks from being dragged by accident."""
        features = QDockWidget.DockWidgetFeature
        free = features.DockWidgetMovable | features.DockWidgetFloatable
        for dock in self.docks.values():
            dock.setFeatures(
                features.DockWidgetClosable if locked else features.DockWidgetClosable | free
            )

    def states(self) -> dict[str, bytes]:
        """Every layout as it is now, for storing."""
        return {**self._states, self.current: self._window.saveState(STATE_VERSION).data()}

    def restore(self, states: Mapping[str, bytes], current: str) -> bool:
        """Take stored layouts; False when the current one could not be used."""
        self._states = dict(states)
        self.current = current
        return self._apply(self._states.get(current))

    def rescale(self, before: QSize, after: QSize) -> None:
        """Keep the docks' shares of a window that became larger or smaller."""
        for dock in self.docks.values():
            if not dock.isVisible() or dock.isFloating():
                continue
            if self._window.dockWidgetArea(dock) == _AREAS[BOTTOM]:
                size = round(dock.height() * after.height() / before.height())
                self._window.resizeDocks([dock], [size], Qt.Orientation.Vertical)
            else:
                size = round(dock.width() * after.width() / before.width())
                self._window.resizeDocks([dock], [size], Qt.Orientation.Horizontal)

    def _resize(self, layout: Layout) -> None:
        width, height = self._window.width(), self._window.height()
        for name, side, share in layout.docks:
            across = side != BOTTOM
            direction = Qt.Orientation.Horizontal if across else Qt.Orientation.Vertical
            size = int((width if across else height) * share)
            self._window.resizeDocks([self.docks[name]], [size], direction)
