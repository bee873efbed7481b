"""A hand on the mouse: clicks where a person would click, through the window system.

Nothing here calls a widget's own methods to make something happen: a button that is hidden, covered
or outside the window is not pressed, and a menu has to open before something is chosen in it.
"""

from photographer import Photographer
from qtpy.QtCore import QModelIndex, QPoint, Qt, QTimer
from qtpy.QtGui import QAction
from qtpy.QtTest import QTest
from qtpy.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QComboBox,
    QListWidget,
    QMenu,
    QScrollArea,
    QTabBar,
    QToolBar,
    QToolButton,
    QWidget,
)

_LOOK_MS = 30
_REST_S = 0.25
_OPENED_S = 0.8
_MOST_TRIES = 10


class Mouse:
    """Clicks in one window."""

    def __init__(self, camera: Photographer) -> None:
        self._camera = camera
        self._window = camera.window

    def click(self, widget: QWidget, at: QPoint | None = None) -> None:
        """Press and release the left button in the middle of a widget, or at a point of it."""
        self._camera.until(widget.isVisible, f"{_name(widget)} is in sight")
        self._camera.until(widget.isEnabled, f"{_name(widget)} can be used")
        self._scroll_to(widget)
        self._at(widget, at or widget.rect().center())

    def _scroll_to(self, widget: QWidget) -> None:
        """On a small screen a form scrolls; what the wheel does for a person, this does."""
        area = widget.parentWidget()
        while area is not None and not isinstance(area, QScrollArea):
            area = area.parentWidget()
        if area is not None and widget.visibleRegion().boundingRect() != widget.rect():
            area.ensureWidgetVisible(widget)
            self._camera.spin(_REST_S)

    def click_cell(self, view: QAbstractItemView, index: QModelIndex) -> None:
        """Click a row of a table or list."""
        view.scrollTo(index)
        self._camera.spin(0.1)
        rect = view.visualRect(index)
        # Not the middle of a wide cell, which may be outside the window.
        self._at(view.viewport(), QPoint(rect.left() + 40, rect.center().y()))

    def tick(self, names: QListWidget, text: str) -> None:
        """Click the box in front of an entry."""
        [item] = names.findItems(text, Qt.MatchFlag.MatchExactly)
        names.scrollToItem(item)
        self._camera.spin(0.1)
        rect = names.visualItemRect(item)
        self._at(names.viewport(), QPoint(rect.left() + 12, rect.center().y()))

    def tab(self, bar: QTabBar, title: str) -> None:
        """Click a tab by its title."""
        titles = [bar.tabText(place).replace("&", "") for place in range(bar.count())]
        self.click(bar, bar.tabRect(titles.index(title)).center())

    def choose(self, box: QComboBox, text: str) -> None:
        """Open a drop-down list and click an entry."""
        view = box.view()
        # On a busy machine Qt may take press and release, long apart, for a choice of what is
        # chosen already, and close the list; a person clicks again.
        for _ in range(_MOST_TRIES):
            if not view.isVisible():
                self.click(box)
            # A click right after the list has opened counts as the end of the one that opened it.
            self._camera.spin(_OPENED_S)
            if view.isVisible():
                self.click_cell(view, box.model().index(box.findText(text), box.modelColumn()))
            self._camera.spin(_REST_S)
            if box.currentText() == text:
                return
        raise RuntimeError(f"{text} cannot be chosen in {_name(box)}")

    def pick(self, opener: QWidget, menu: QMenu, title: str, at: QPoint | None = None) -> None:
        """Open a menu and click an entry; the menu may have a loop of its own until then."""
        timer, done = QTimer(), [False]
        timer.setInterval(_LOOK_MS)

        def look() -> None:
            if menu.isVisible():
                timer.stop()
                action = next(one for one in menu.actions() if _plain(one) == title)
                self._at(menu, menu.actionGeometry(action).center())
                done[0] = True

        timer.timeout.connect(look)
        timer.start()
        self.click(opener, at)
        self._camera.until(lambda: done[0], f"{title} in the menu")

    def menu_bar(self, menu: str, title: str) -> None:
        """Choose something in the menus at the top."""
        bar = self._window.menuBar()
        action = next(one for one in bar.actions() if _plain(one) == menu)
        self.pick(bar, action.menu(), title, bar.actionGeometry(action).center())

    def tool(self, action: QAction) -> None:
        """Click the button of an action, wherever one is in sight."""
        for shown in action.associatedObjects():
            widget = shown.widgetForAction(action) if isinstance(shown, QToolBar) else shown
            if isinstance(widget, QToolButton) and widget.isVisible():
                self.click(widget)
                return
        raise RuntimeError(f"no button for {action.text()} is in sight")

    def _at(self, widget: QWidget, point: QPoint) -> None:
        window = widget.window()
        handle = window.windowHandle()
        where = QPoint(-1, -1)
        while where != widget.mapTo(window, point):
            # Panels that were just shown still move; a person waits until they rest.
            where = widget.mapTo(window, point)
            self._camera.spin(_REST_S)
        if not window.rect().contains(where):
            raise RuntimeError(f"{_name(widget)} is outside the window at {where}")
        QTest.mouseMove(handle, where)
        none = Qt.KeyboardModifier.NoModifier
        QTest.mouseClick(handle, Qt.MouseButton.LeftButton, none, where)
        QApplication.processEvents()


def _plain(action: QAction) -> str:
    return str(action.text().replace("&", ""))


def _name(widget: QWidget) -> str:
    return str(widget.accessibleName() or widget.objectName() or type(widget).__name__)
