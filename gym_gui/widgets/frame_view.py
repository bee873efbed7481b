"""A picture that scales, keeps its shape, and carries its numbers along its lower edge."""

from qtpy.QtCore import QRectF, QSize, Qt, Signal
from qtpy.QtGui import QColor, QImage, QPainter, QPaintEvent
from qtpy.QtWidgets import QSizePolicy, QWidget

from gym_gui.resources.theming import ThemeManager

_STRIP = 26


class FrameView(QWidget):
    """Shows the newest frame.

    Signals:
        painted: A frame reached the screen.
    """

    painted = Signal()

    def __init__(self, themes: ThemeManager) -> None:
        super().__init__()
        self._themes = themes
        self._image: QImage | None = None
        self._numbers = ""
        self._hint = "Waiting for the first frame …"
        self.setMinimumSize(200, 150)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        # Every pixel is painted, so Qt need not clear the ground 30 times a second.
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName("Live view")

    @property
    def image(self) -> QImage | None:
        """The frame shown now."""
        return self._image

    @property
    def hint(self) -> str:
        """What is written where there is no frame, or over the last one."""
        return self._hint

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(480, 360)

    def show_image(self, image: QImage, numbers: str = "") -> None:
        """Show a frame with its numbers."""
        self._image, self._numbers = image, numbers
        self.update()

    def say(self, hint: str) -> None:
        """What to read where there is no frame, or over the last one."""
        if hint != self._hint:
            self._hint = hint
            self.update()

    def clear(self, hint: str) -> None:
        """Show no frame."""
        self._image, self._numbers, self._hint = None, "", hint
        self.update()

    def picture_box(self) -> QRectF:
        """Where the picture is drawn."""
        space = QRectF(self.rect())
        if self._numbers:
            space.setHeight(max(1.0, space.height() - _STRIP))
        if self._image is None or self._image.isNull():
            return space
        scale = min(space.width() / self._image.width(), space.height() / self._image.height())
        width, height = self._image.width() * scale, self._image.height() * scale
        return QRectF(
            space.center().x() - width / 2, space.center().y() - height / 2, width, height
        )

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802
        painter = QPainter(self)
        theme = self._themes.theme
        painter.fillRect(self.rect(), QColor(theme.raised))
        if self._image is not None:
            box = self.picture_box()
            # Pixel art stays sharp when enlarged a lot; everything else is smoothed.
            large = box.width() > 3 * self._image.width()
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, not large)
            painter.drawImage(box, self._image)
        if self._numbers:
            strip = QRectF(0, self.height() - _STRIP, self.width(), _STRIP)
            painter.fillRect(strip, QColor(theme.surface))
            painter.setPen(QColor(theme.text))
            # A narrow view shows the first numbers whole rather than the middle of all.
            room = int(strip.width()) - 12
            words = painter.fontMetrics().elidedText(
                self._numbers, Qt.TextElideMode.ElideRight, room
            )
            painter.drawText(strip, int(Qt.AlignmentFlag.AlignCenter), words)
        if self._hint:
            self._paint_hint(painter)
        painter.end()
        if self._image is not None:
            self.painted.emit()

    def _paint_hint(self, painter: QPainter) -> None:
        theme = self._themes.theme
        below = _STRIP if self._numbers else 0
        space = QRectF(self.rect()).adjusted(24, 14, -24, -14 - below)
        where = Qt.AlignmentFlag.AlignCenter
        if self._image is not None:
            where = Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignHCenter
        flags = int(where | Qt.TextFlag.TextWordWrap)
        if self._image is not None:
            # Over a picture the words need a ground of their own.
            ground = QColor(theme.surface)
            ground.setAlpha(225)
            box = painter.boundingRect(space, flags, self._hint).adjusted(-12, -7, 12, 7)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(ground)
            painter.drawRoundedRect(box, 6, 6)
        painter.setPen(QColor(theme.muted if self._image is None else theme.text))
        painter.drawText(space, flags, self._hint)
