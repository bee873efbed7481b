"""A run's frames over the daemon's connection, for a window that cannot share its memory."""

import threading

from qtpy.QtCore import QObject, Signal
from qtpy.QtGui import QImage

from gym_gui.background.calls import connect_queued
from gym_gui.background.daemon_link import DaemonLink
from mosaic.client import TrainerClient
from mosaic.errors import MosaicError
from mosaic.fastlane.frame import FrameMetrics
from mosaic.records import FrameRecord

# A run that is still starting has no frames yet; asking once a second is soon enough.
_RETRY_S = 1.0
# Larger than the view of most windows; pictures beyond that only cost bandwidth.
_MAX_DIM = 640


class RemoteFrameFeed(QObject):
    """Follows the daemon's stream of JPEG frames; the same signals as `FrameFeed`.

    Only the newest frame is kept: a busy window skips frames, and the daemon, whose stream then
    fills up, sends fewer.

    Signals:
        frame: A QImage and the numbers that came with it.
        status: Whether frames come, and what there is to say.
    """

    frame = Signal(object, object)
    status = Signal(bool, str)
    _ready = Signal()

    def __init__(self, link: DaemonLink, run_id: str, hertz: int) -> None:
        super().__init__()
        self._link, self._run_id, self._hertz = link, run_id, hertz
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._client: TrainerClient | None = None
        self._newest: tuple[QImage, FrameMetrics] | None = None
        connect_queued(self._ready, self._deliver)
        self._thread = threading.Thread(target=self._read, name="gui-frames", daemon=True)

    def start(self) -> None:
        """Begin to watch, which also tells the run to render."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; nothing is delivered after this."""
        self._stopping.set()
        with self._lock:
            client = self._client
        if client is not None:
            client.close()
        if self._thread.is_alive():
            self._thread.join(3)

    def _read(self) -> None:
        while not self._stopping.is_set():
            problem = self._read_once()
            if problem and not self._stopping.is_set():
                self.status.emit(False, problem)
            if self._stopping.wait(_RETRY_S):
                break

    def _read_once(self) -> str:
        client = None
        try:
            client = self._link.new_client()
            with self._lock:
                self._client = client
            for message in client.frames(self._run_id, max_fps=self._hertz, max_dim=_MAX_DIM):
                if self._stopping.is_set():
                    break
                self._take(message)
        except (MosaicError, OSError, ValueError) as error:
            return f"No frames over the network: {str(error).splitlines()[0]}"
        finally:
            if client is not None:
                self._link.release(client)
        return ""

    def _take(self, message: FrameRecord) -> None:
        image = QImage.fromData(message.jpeg)
        if image.isNull():
            return
        first = self._newest is None
        self._newest = (
            image,
            FrameMetrics(
                last_reward=message.last_reward,
                rolling_return=message.rolling_return,
                step_rate_hz=message.step_rate_hz,
                capped=message.capped,
            ),
        )
        if first:
            self._ready.emit()

    def _deliver(self) -> None:
        newest, self._newest = self._newest, None
        if newest is not None and not self._stopping.is_set():
            self.frame.emit(*newest)
