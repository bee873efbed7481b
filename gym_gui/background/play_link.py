"""The window's end of a game: keys go out, pictures come in; the environment is elsewhere."""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qtpy.QtCore import QObject, QTimer, Signal
from qtpy.QtGui import QImage
from qtpy.QtNetwork import QLocalSocket

from gym_gui.background.calls import Call
from gym_gui.background.daemon_link import DaemonLink
from gym_gui.models.stored import texts, whole
from mosaic.client import TrainerClient
from mosaic.presenting import formatting
from mosaic.presenting.actor import PERSON, POLICY

_ADDRESS_FILE = "play.json"
# The game is waited for; each look is one small call.
_LOOK_MS = 100
# Pictures are far smaller; so much without a line end is not our worker talking.
_LONGEST_LINE = 32 * 2**20


@dataclass(frozen=True)
class Greeting:
    """What a game says first.

    Attributes:
        keys: What each key does, in words.
        turn_based: The world waits for the player.
    """

    keys: Mapping[str, str]
    turn_based: bool


@dataclass(frozen=True)
class Standing:
    """How a game stands after a step; episodes are counted from 0.

    Attributes:
        control: Who acts now, a person or a policy; empty where there is only a person.
        waits: Nothing happens until a key is pressed.
        starts_in: Seconds of countdown before time runs.
    """

    episode: int
    step: int
    total: float
    over: bool
    control: str
    waits: bool
    starts_in: int

    @property
    def text(self) -> str:
        """For a line below the picture; episodes are counted as replays count them."""
        total = formatting.number(self.total)
        return f"episode {self.episode}   step {self.step}   return {total}"


class PlayLink(QObject):
    """Talks to the worker of one game over its private socket.

    Signals:
        ready: A `Greeting`: the game's keys are known.
        scene: A `QImage` and a `Standing`: the newest picture, and how the game stands.
        gone: The game has ended.
        unreachable: The game runs where this window cannot reach it, and why.
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
        documents = [document for line in lines if (document := _read(line)) is not None]
        for document in documents:
            if "turn_based" in document:
                self.ready.emit(_greeting(document))
        # A window that is behind shows only the newest picture.
        if documents:
            self._show(documents[-1])

    def _show(self, document: dict[str, object]) -> None:
        try:
            data = base64.b64decode(str(document.get("frame") or ""))
        except (binascii.Error, ValueError):
            return
        image = QImage.fromData(data)
        if not image.isNull():
            self.scene.emit(image, _standing(document))


def _greeting(document: Mapping[str, object]) -> Greeting:
    return Greeting(texts(document.get("keys")), bool(document["turn_based"]))


def _standing(document: Mapping[str, object]) -> Standing:
    total = document.get("total")
    return Standing(
        whole(document.get("episode", 0)),
        whole(document.get("step", 0)),
        float(total) if isinstance(total, int | float) else 0.0,
        bool(document.get("over")),
        str(document.get("control") or ""),
        bool(document.get("waits")),
        whole(document.get("starts_in", 0)),
    )


def _read(line: bytes) -> dict[str, object] | None:
    try:
        document = json.loads(line)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
