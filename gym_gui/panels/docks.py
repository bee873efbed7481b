"""The docks of the window: placed by named layouts, remembered, locked, and reset."""

from collections.abc import Mapping

from qtpy.QtCore import QByteArray, Qt
from qtpy.QtWidgets import QDockWidget, QMainWindow, QWidget

from gym_gui.models.dock_layouts import BOTTOM, LAYOUTS, LEFT, RIGHT, STATE_VERSION, Layout
from gym_gui.widgets.qt_types import sure

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
        window.setDockNestingEnabled(True)
        corner, area = Qt.Corner, Qt.DockWidgetArea
        window.setCorner(corner.BottomLeftCorner, area.LeftDockWidgetArea)
        window.setCorner(corner.BottomRightCorner, area.RightDockWidgetArea)
        for name, (title, page) in pages.items():
            dock = QDockWidget(title, window)
            dock.setObjectName(f"dock.{name}")
            dock.setWidget(page)
            dock.hide()
            window.addDockWidget(_AREAS[RIGHT], dock)
            self.docks[name] = dock

    def show_layout(self, name: str) -> bool:
        """Switch to a layout; False when its stored form could not be used."""
        # The layout is left as it was arranged, so that coming back finds it so.
        self._states[self.current] = self._window.saveState(STATE_VERSION).data()
        self.current = name
        size = self._window.size()
        # Docks of both layouts side by side, if only for a moment, would widen the window.
        for dock in self.docks.values():
            dock.hide()
        whole = self._apply(self._states.get(name))
        self._window.resize(size)
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

    def _resize(self, layout: Layout) -> None:
        width, height = self._window.width(), self._window.height()
        for name, side, share in layout.docks:
            across = side != BOTTOM
            direction = Qt.Orientation.Horizontal if across else Qt.Orientation.Vertical
            size = int((width if across else height) * share)
            self._window.resizeDocks([self.docks[name]], [size], direction)
