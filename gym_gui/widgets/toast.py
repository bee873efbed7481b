"""Notices in the lower right corner: they come, can be opened, and go by themselves."""

from collections.abc import Callable

from qtpy.QtCore import QEvent, QObject, Qt, QTimer
from qtpy.QtGui import QEnterEvent
from qtpy.QtWidgets import QFrame, QVBoxLayout, QWidget

from gym_gui.models.notices import Notice
from gym_gui.resources import icons
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label, selectable
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.qt_types import sure

# The worse the news, the longer it takes to read.
_SHOWN_MS = {"info": 5000, "success": 6000, "warning": 9000, "danger": 12_000}
_ICONS = {"info": "info", "success": "check", "warning": "warning", "danger": "warning"}
_MOST = 4
_WIDTH = 380


class Toast(QFrame):
    """One notice."""

    def __init__(self, notice: Notice, themes: ThemeManager) -> None:
        super().__init__()
        self.setObjectName("toast")
        self.setFixedWidth(_WIDTH)
        mark = label("")
        colour = themes.theme.tone(notice.tone)
        mark.setPixmap(icons.pixmap(_ICONS.get(notice.tone, "info"), colour, 18))
        mark.setAlignment(Qt.AlignmentFlag.AlignTop)
        text = selectable(label(notice.text, wrap=True))
        body = column(text, spacing=4)
        if notice.detail:
            detail = selectable(label(notice.detail[:600], "muted", wrap=True))
            detail.hide()
            body.addWidget(detail)
            more = button("More", lambda: None, "link")
            more.clicked.connect(lambda: self._open(detail, more))
            body.addWidget(more)
        line = row(mark, body, margin=10)
        line.setStretch(1, 1)
        if notice.action and notice.pressed is not None:
            pressed = notice.pressed
            line.addWidget(button(notice.action, lambda: self._press(pressed)))
        close = button("×", self._dismiss, "link")
        close.setAccessibleName("Dismiss")
        line.addWidget(close)
        self.setLayout(line)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._dismiss)
        self._timer.start(_SHOWN_MS.get(notice.tone, 5000))

    def _open(self, detail: QWidget, more: QWidget) -> None:
        detail.show()
        more.hide()
        self.adjustSize()

    def _press(self, pressed: Callable[[], object]) -> None:
        pressed()
        self._dismiss()

    def enterEvent(self, event: QEnterEvent | None) -> None:  # noqa: N802
        # Under the mouse it is being read.
        self._timer.stop()
        super().enterEvent(event)

    def _dismiss(self) -> None:
        self._timer.stop()
        self.hide()
        self.deleteLater()


class ToastStack(QWidget):
    """Keeps the toasts of a window above its lower right corner."""

    def __init__(self, parent: QWidget, themes: ThemeManager) -> None:
        super().__init__(parent)
        self._themes = themes
        self._toasts: list[Toast] = []
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(8)
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(0)
        self._later.timeout.connect(self._place)
        # The stack is in no layout; it has to follow the window's size itself.
        parent.installEventFilter(self)
        self.hide()

    def show_notice(self, notice: Notice) -> None:
        """Show one more."""
        toast = Toast(notice, self._themes)
        toast.destroyed.connect(self._later.start)
        self._layout.addWidget(toast)
        self._toasts.append(toast)
        while len(self._toasts) > _MOST:
            oldest = self._toasts.pop(0)
            if _alive(oldest):
                oldest._dismiss()
        self.show()
        self.raise_()
        self._place()

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        if event is not None and event.type() == QEvent.Type.Resize:
            self._place()
        return bool(super().eventFilter(watched, event))

    def _place(self) -> None:
        self._toasts = [toast for toast in self._toasts if _alive(toast)]
        if not self._toasts:
            self.hide()
            return
        self.adjustSize()
        size, space = self.sizeHint(), sure(self.parentWidget()).size()
        self.setGeometry(
            max(0, space.width() - size.width() - 18),
            max(0, space.height() - size.height() - 44),
            size.width(),
            size.height(),
        )


def _alive(toast: Toast) -> bool:
    try:
        return not toast.isHidden()
    except RuntimeError:
        return False
