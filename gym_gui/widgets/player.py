"""Plays a list of pictures: scrubber, speed, single steps."""

from collections.abc import Sequence

from qtpy.QtCore import QRectF, Qt, QTimer
from qtpy.QtGui import QColor, QFont, QImage, QPainter
from qtpy.QtWidgets import QComboBox, QSlider, QWidget

from gym_gui.background.recordings import Picture
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.controls import button
from gym_gui.widgets.frame_view import FrameView
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.mind_view import MindView

_CELL = 34
_WORLD = {"#": "#3a4454", "X": "#3a4454", "G": "#1f7a4d", "H": "#8c2f2f", "S": "#2a4a7f"}
_SPEEDS = {"¼×": 0.25, "½×": 0.5, "1×": 1.0, "2×": 2.0, "4×": 4.0, "8×": 8.0}


class Player(QWidget):
    """A small cinema."""

    def __init__(self, themes: ThemeManager) -> None:
        super().__init__()
        self.view = FrameView(themes)
        self.mind = MindView()
        self._pictures: Sequence[Picture] = ()
        self._rate = 15.0
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName("Position")
        self.slider.valueChanged.connect(self._show)
        self._caption = label("", "muted")
        self.play_button = button("Play", self.toggle, "primary")
        self._back = button("−1", lambda: self.step(-1), tip="One step back")
        self._ahead = button("+1", lambda: self.step(1), tip="One step ahead")
        self.speed = QComboBox()
        self.speed.addItems(list(_SPEEDS))
        self.speed.setCurrentText("1×")
        self.speed.setAccessibleName("Speed")
        self.speed.currentTextChanged.connect(lambda _text: self._set_pace())
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._on_tick)
        bar = row(self.play_button, self._back, self._ahead, self.slider, self.speed)
        bar.setStretch(3, 1)
        stage = row(self.view, self.mind)
        stage.setStretch(0, 1)
        self.setLayout(column(stage, bar, self._caption, spacing=6, stretch={0: 1}))
        self.clear("Choose something to replay.")

    @property
    def playing(self) -> bool:
        """Whether it moves by itself."""
        return bool(self._timer.isActive())

    @property
    def length(self) -> int:
        """How many pictures there are."""
        return len(self._pictures)

    @property
    def caption(self) -> str:
        """What the picture in front shows."""
        return self._caption.text()

    def load(self, pictures: Sequence[Picture], rate: float) -> None:
        """Show pictures from the beginning."""
        self.stop()
        self.mind.forget()
        self._pictures, self._rate = pictures, rate
        self._enable(bool(pictures))
        self.slider.setRange(0, max(0, len(pictures) - 1))
        self.slider.setValue(0)
        if pictures:
            self._show(0)
        else:
            self.view.clear("Nothing was recorded.")
            self._caption.setText("")

    def clear(self, words: str) -> None:
        """Show nothing but words."""
        self.stop()
        self._pictures = ()
        self.slider.setRange(0, 0)
        self.view.clear(words)
        self.mind.forget()
        self._caption.setText("")
        self._enable(False)

    def toggle(self) -> None:
        """Play, or stop."""
        if self.playing:
            self.stop()
        elif self._pictures:
            if self.slider.value() >= self.slider.maximum():
                self.slider.setValue(0)
            self._set_pace()
            self._timer.start()
            self.play_button.setText("Stop")

    def stop(self) -> None:
        """Stay on this picture."""
        self._timer.stop()
        self.play_button.setText("Play")

    def step(self, count: int) -> None:
        """Move by pictures."""
        self.stop()
        self.slider.setValue(self.slider.value() + count)

    def _enable(self, on: bool) -> None:
        for widget in (self.play_button, self._back, self._ahead, self.slider, self.speed):
            widget.setEnabled(on)

    def _set_pace(self) -> None:
        factor = _SPEEDS[self.speed.currentText()]
        # Screens do not show more pictures a second; a shorter pause would only use the processor.
        self._timer.setInterval(max(8, int(1000 / (self._rate * factor))))

    def _on_tick(self) -> None:
        if self.slider.value() >= self.slider.maximum():
            self.stop()
        else:
            self.slider.setValue(self.slider.value() + 1)

    def _show(self, place: int) -> None:
        if not 0 <= place < len(self._pictures):
            return
        picture = self._pictures[place]
        image = QImage.fromData(picture.data) if picture.data else draw_world(picture)
        if image is None or image.isNull():
            self.view.clear("This step has no picture.")
        else:
            self.view.say("")
            self.view.show_image(image)
        self.mind.show_mind(picture.mind)
        self._caption.setText(f"{place + 1} of {len(self._pictures)}   {picture.caption}")


def draw_world(picture: Picture) -> QImage | None:
    """A world that was recorded as text; None when it was not."""
    if not picture.grid:
        return None
    width = max(len(line) for line in picture.grid)
    image = QImage(width * _CELL, len(picture.grid) * _CELL, QImage.Format.Format_RGB888)
    image.fill(QColor("#1b212b"))
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setFont(QFont("", 13))
    for y, line in enumerate(picture.grid):
        for x, letter in enumerate(line):
            box = QRectF(x * _CELL + 1, y * _CELL + 1, _CELL - 2, _CELL - 2)
            painter.fillRect(box, QColor(_WORLD.get(letter, "#262e3a")))
            painter.setPen(QColor("#9fabbd"))
            painter.drawText(box, int(Qt.AlignmentFlag.AlignCenter), letter.strip())
    if picture.agent is not None:
        y, x = picture.agent
        painter.setBrush(QColor("#6ea8ff"))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.drawEllipse(QRectF(x * _CELL + 7, y * _CELL + 7, _CELL - 14, _CELL - 14))
    painter.end()
    return image
