"""The window's end of a game: keys go out, pictures come in; the environment is elsewhere."""

import json
from collections.abc import Mapping, Sequence

from qtpy.QtCore import QObject, QTimer, Signal
from qtpy.QtGui import QImage
from qtpy.QtNetwork import QLocalSocket

from gym_gui.background.calls import Call
from gym_gui.background.daemon_link import DaemonLink
from mosaic.client import TrainerClient
from mosaic.client.play import is_greeting, read_greeting, read_line, read_scene
from mosaic.errors import PlayConnectionError
from mosaic.presenting.actor import PERSON, POLICY

_ADDRESS_FILE = "play.json"
# The game is waited for; each look is one small call.
_LOOK_MS = 100
# Pictures are far smaller; so much without a line end is not our worker talking.
_LONGEST_LINE = 32 * 2**20


class PlayLink(QObject):
    """Talks to the worker of one game over its private socket.

    Signals:
        ready: A `Greeting`: the game's keys are known.
        scene: A `QImage` and a `Scene`: the newest picture, and the state of the game.
        gone: The game has ended.
        unreachable: The game runs where this window cannot reach it, or what answers there is not a
            game; with the reason.
    """

    ready = Signal(object)
    scene = Signal(object, object)
    gone = Signal()
    unreachable = Signal(str)

    def __init__(self, link: DaemonLink, run_id: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link, self._run_id = link, run_id
        self._asking: Call | None = None
        self._unread = b""
        self._socket = QLocalSocket(self)
        self._socket.readyRead.connect(self._on_data)
        self._was_connected = False
        self._socket.connected.connect(self._on_connected)
        self._socket.disconnected.connect(self.gone)
        self._socket.errorOccurred.connect(lambda _error: self._on_error())
        self._timer = QTimer(self)
        self._timer.setInterval(_LOOK_MS)
        self._timer.timeout.connect(self._look)
        self._timer.start()

    @property
    def connected(self) -> bool:
        """Whether the game answers."""
        return bool(self._socket.state() == QLocalSocket.LocalSocketState.ConnectedState)

    def hold(self, keys: Sequence[str]) -> None:
        """The keys held down now; where time waits for the player, a move."""
        self._say({"keys": list(keys)})

    def reset(self) -> None:
        """Begin the next episode."""
        self._say({"keys": ["reset"]})

    def set_pace(self, pace: float) -> None:
        """Slow motion below 1; with 0, time waits for each key."""
        self._say({"pace": pace})

    def hold_time(self, on: bool) -> None:
        """Let time stand still, or run again after a countdown."""
        self._say({"hold": on})

    def take_over(self) -> None:
        """Play yourself from the next step on, where a policy plays."""
        self._say({"control": PERSON})

    def hand_back(self) -> None:
        """Let the policy play from the next step on."""
        self._say({"control": POLICY})

    def quit(self) -> None:
        """End the game in good order."""
        self._say({"quit": True})

    def close(self) -> None:
        """Hang up."""
        self._timer.stop()
        if self._asking is not None:
            self._asking.cancel()
        # Hanging up is no news: without this the panel would hear that the game is over.
        self._socket.blockSignals(True)
        self._socket.abort()

    def _say(self, message: dict[str, object]) -> None:
        if self.connected:
            self._socket.write(json.dumps(message).encode() + b"\n")

    def _look(self) -> None:
        """The worker names its socket in a small file as soon as it can be played."""
        if self._asking is None:
            self._asking = self._link.ask(
                self._find_socket, self._connect, lambda _error: self._connect("")
            )

    def _find_socket(self, client: TrainerClient) -> str:
        """The path of the game's socket on this machine; empty as long as there is none."""
        path = client.read_file(self._run_id, _ADDRESS_FILE).document().get("socket")
        return self._link.local_socket(path) if isinstance(path, str) else ""

    def _connect(self, path: str) -> None:
        self._asking = None
        if path and self._timer.isActive():
            self._timer.stop()
            self._socket.connectToServer(path)

    def _on_connected(self) -> None:
        self._was_connected = True

    def _on_error(self) -> None:
        if not self._was_connected:
            self.unreachable.emit(self._socket.errorString())

    def _on_data(self) -> None:
        self._unread += self._socket.readAll().data()
        *lines, self._unread = self._unread.split(b"\n")
        if len(self._unread) > _LONGEST_LINE:
            self._socket.abort()
            return
        try:
            self._tell([read_line(line) for line in lines])
        except PlayConnectionError as error:
            # Before the socket is closed, which would say that the game has ended.
            self.unreachable.emit(str(error))
            self._socket.abort()

    def _tell(self, lines: Sequence[Mapping[str, object]]) -> None:
        for said in lines:
            if is_greeting(said):
                self.ready.emit(read_greeting(said))
        # A window that is behind shows only the newest picture.
        for said in lines[-1:]:
            scene = read_scene(said)
            image = QImage.fromData(scene.frame)
            if not image.isNull():
                self.scene.emit(image, scene)
