"""The newest notice, in the free part of the menu bar: it covers nothing, and goes by itself."""

from collections.abc import Callable

from qtpy.QtCore import QEvent, QObject, QRect, QTimer
from qtpy.QtGui import QEnterEvent
from qtpy.QtWidgets import QFrame, QMainWindow

from gym_gui.models.notices import Notice
from gym_gui.resources import icons
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import ElidedLabel, label
from gym_gui.widgets.layouts import row
from gym_gui.widgets.qt_types import sure

# The worse the news, the longer it takes to read.
_SHOWN_MS = {"info": 5000, "success": 6000, "warning": 9000, "danger": 12_000}
_ICONS = {"info": "info", "success": "check", "warning": "warning", "danger": "warning"}
_WIDEST = 640
# Room for the icon, the buttons and the space between them.
_FURNITURE = 170


class Toast(QFrame):
    """Shows one notice at a time; all of them stay in the list of notifications.

    Args:
        window: Whose menu bar it is in.
        themes: Colours.
        show_all: Opens the list of notifications.
    """

    def __init__(
        self, window: QMainWindow, themes: ThemeManager, show_all: Callable[[], object]
    ) -> None:
        super().__init__(window)
        self.setObjectName("toast")
        self._window, self._themes = window, themes
        self._notice: Notice | None = None
        self._mark = label("")
        self.text = ElidedLabel("")
        self.action = button("", self._press, "link")
        self.more = button("More", self._dismiss, "link")
        self.more.clicked.connect(lambda: show_all())
        self.more.setToolTip("Open the list of notifications")
        close = button("×", self._dismiss, "link")
        close.setAccessibleName("Dismiss")
        line = row(self._mark, self.text, self.action, self.more, close, spacing=8)
        line.setContentsMargins(10, 0, 6, 0)
        line.setStretch(1, 1)
        self.setLayout(line)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._dismiss)
        # It is in no layout; it has to follow the window's size itself.
        window.installEventFilter(self)
        self.hide()

    def show_notice(self, notice: Notice) -> None:
        """Show this one, in place of the one before."""
        self._notice = notice
        colour = self._themes.theme.tone(notice.tone)
        self._mark.setPixmap(icons.pixmap(_ICONS.get(notice.tone, "info"), colour, 16))
        self.text.set_full(notice.text)
        self.text.setToolTip("\n".join(filter(None, (notice.text, notice.detail[:600]))))
        self.action.setText(notice.action)
        self.action.setVisible(bool(notice.action) and notice.pressed is not None)
        self.more.setVisible(bool(notice.detail))
        self._place()
        self.show()
        self.raise_()
        self._timer.start(_SHOWN_MS.get(notice.tone, 5000))

    def enterEvent(self, event: QEnterEvent | None) -> None:  # noqa: N802
        # Under the mouse it is being read.
        self._timer.stop()
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent | None) -> None:  # noqa: N802
        super().leaveEvent(event)
        if self._notice is not None:
            self._timer.start(_SHOWN_MS.get(self._notice.tone, 5000))

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        if event is not None and event.type() == QEvent.Type.Resize and self.isVisible():
            self._place()
        return bool(super().eventFilter(watched, event))

    def _press(self) -> None:
        notice = self._notice
        self._dismiss()
        if notice is not None and notice.pressed is not None:
            notice.pressed()

    def _dismiss(self) -> None:
        self._timer.stop()
        self._notice = None
        self.hide()

    def _place(self) -> None:
        """Right of the last menu, as wide as the words need and the bar allows."""
        bar = sure(self._window.menuBar())
        menus = [bar.actionGeometry(action).right() for action in bar.actions()]
        free = QRect(max(menus, default=0) + 16, 0, 0, bar.height())
        free.setRight(bar.width() - 6)
        notice = self._notice
        words = self.fontMetrics().horizontalAdvance(notice.text if notice else "")
        width = min(words + _FURNITURE, _WIDEST, free.width())
        corner = bar.mapTo(self._window, free.topLeft())
        self.setGeometry(
            corner.x() + free.width() - width, corner.y() + 1, width, max(1, free.height() - 2)
        )
