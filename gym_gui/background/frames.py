"""The newest FastLane frame of a run, read in a thread, shown when the window has time."""

import threading
import time

import numpy as np
from numpy.typing import NDArray
from qtpy.QtCore import QObject, Signal
from qtpy.QtGui import QImage

from gym_gui.background.calls import connect_queued
from mosaic.errors import MosaicError
from mosaic.fastlane import Frame, FrameReader


class FrameFeed(QObject):
    """Reads one run's frames at most `hertz` times a second.

    A frame is handed over only when the window has taken the one before, so a busy window skips
    frames instead of queueing them.

    Signals:
        frame: A QImage and the `Frame` with its numbers.
        status: Whether a writer lives, and what it has to say.
    """

    frame = Signal(object, object)
    status = Signal(bool, str)
    _ready = Signal()

    def __init__(self, run_id: str, hertz: int, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._run_id = run_id
        self._pause_s = 1.0 / max(1, hertz)
        self._stopping = threading.Event()
        self._taken = threading.Event()
        self._taken.set()
        self._newest: tuple[QImage, Frame] | None = None
        connect_queued(self._ready, self._deliver)
        self._thread = threading.Thread(target=self._read, name="gui-frames", daemon=True)

    def start(self) -> None:
        """Begin to watch, which also tells the run to render."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; the run stops rendering a second later."""
        self._stopping.set()
        if self._thread.is_alive():
            # One turn of the thread takes milliseconds; only a machine that hangs needs the limit.
            self._thread.join(3)

    def _read(self) -> None:
        told: tuple[bool, str] | None = None
        try:
            reader = FrameReader(self._run_id)
        except (MosaicError, OSError) as error:
            self._tell(False, str(error))
            return
        with reader:
            while not self._stopping.is_set():
                begun = time.monotonic()
                frame = reader.read()
                if frame is not None and self._taken.is_set():
                    self._newest = (as_image(frame.pixels), frame)
                    self._taken.clear()
                    self._ready.emit()
                status = (reader.alive, reader.notice)
                if status != told:
                    told = status
                    self._tell(*status)
                spent = time.monotonic() - begun
                self._stopping.wait(max(0.002, self._pause_s - spent))

    def _tell(self, alive: bool, text: str) -> None:
        if not self._stopping.is_set():
            self.status.emit(alive, text)

    def _deliver(self) -> None:
        newest = self._newest
        self._taken.set()
        if newest is not None and not self._stopping.is_set():
            self.frame.emit(*newest)


def as_image(pixels: NDArray[np.uint8]) -> QImage:
    """RGB pixels as a picture that owns its memory."""
    height, width = pixels.shape[:2]
    # Qt does not copy the bytes by itself, and the array is reused for the next frame.
    data = np.ascontiguousarray(pixels)
    return QImage(data.tobytes(), width, height, 3 * width, QImage.Format.Format_RGB888).copy()
