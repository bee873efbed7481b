"""Where a run's frames come from: shared memory on this machine, the daemon's stream otherwise."""

from qtpy.QtCore import QObject, QTimer, Signal
from qtpy.QtGui import QImage

from gym_gui.background.daemon_link import DaemonLink
from gym_gui.background.frames import FrameFeed
from gym_gui.background.remote_frames import RemoteFrameFeed
from mosaic.fastlane.frame import FrameMetrics

AUTOMATIC, SHARED, NETWORK = "automatic", "shared memory", "network"
# Frames begin soon after a run starts to render; after this long they come another way.
_LOCAL_PATIENCE_MS = 6000


class FrameSource(QObject):
    """The frames of one run by the best way there is.

    Automatically: shared memory when the daemon is on this machine, and when that brings nothing
    for a while (another container, no shared memory) the network as well, until it does.

    Signals:
        frame: A QImage and its `FrameMetrics`.
        status: Whether frames come, and what there is to say.
    """

    frame = Signal(object, object)
    status = Signal(bool, str)

    def __init__(self, link: DaemonLink, run_id: str, hertz: int, way: str) -> None:
        super().__init__()
        self._link, self._run_id, self._hertz = link, run_id, hertz
        self._local: FrameFeed | None = None
        self._remote: RemoteFrameFeed | None = None
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(_LOCAL_PATIENCE_MS)
        self._patience.timeout.connect(self._open_remote)
        self._wants_local = way == SHARED or (way == AUTOMATIC and link.local)
        self._wants_remote = way == NETWORK or (way == AUTOMATIC and not link.local)
        self._automatic = way == AUTOMATIC
        if self._wants_local:
            self._local = FrameFeed(run_id, hertz, self)
            self._local.frame.connect(self._on_local)
            self._local.status.connect(self.status)

    @property
    def over_network(self) -> bool:
        """Whether frames are asked of the daemon now."""
        return self._remote is not None

    @property
    def over_memory(self) -> bool:
        """Whether shared memory is looked at, whether it brings frames or not."""
        return self._local is not None

    def start(self) -> None:
        """Begin to watch, which also tells the run to render."""
        if self._local is not None:
            self._local.start()
            if self._automatic:
                self._patience.start()
        if self._wants_remote:
            self._open_remote()

    def stop(self) -> None:
        """Stop watching."""
        self._patience.stop()
        if self._local is not None:
            self._local.stop()
        self._close_remote()

    def _on_local(self, image: QImage, numbers: FrameMetrics) -> None:
        self._patience.stop()
        self._close_remote()
        self.frame.emit(image, numbers)

    def _open_remote(self) -> None:
        self._remote = RemoteFrameFeed(self._link, self._run_id, self._hertz)
        self._remote.frame.connect(self.frame)
        self._remote.status.connect(self.status)
        self._remote.start()

    def _close_remote(self) -> None:
        if self._remote is not None:
            self._remote.stop()
            # Its thread has ended, but signals that it sent may still be in the queue.
            self._remote.deleteLater()
            self._remote = None
