"""The window's end of a game: keys go out, pictures come in; the environment is elsewhere."""

import base64
import binascii
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qtpy.QtCore import QObject, QTimer, Signal
from qtpy.QtGui import QImage
from qtpy.QtNetwork import QLocalSocket

_LOOK_MS = 100
_LONGEST_LINE = 32 * 2**20


class PlayLink(QObject):
    """Talks to the worker of one game over its private socket.

    Signals:
        ready: The game's keys and rate are known.
        scene: A picture and how the game stands.
        gone: The game has ended.
    """

    ready = Signal(dict)
    scene = Signal(object, dict)
    gone = Signal()

    def __init__(self, run_dir: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._address = Path(run_dir) / "play.json"
        self._unread = b""
        self._socket = QLocalSocket(self)
        self._socket.readyRead.connect(self._on_data)
        self._socket.disconnected.connect(self.gone)
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

    def quit(self) -> None:
        """End the game in good order."""
        self._say({"quit": True})

    def close(self) -> None:
        """Hang up."""
        self._timer.stop()
        self._socket.blockSignals(True)
        self._socket.abort()

    def _say(self, message: dict[str, Any]) -> None:
        if self.connected:
            self._socket.write(json.dumps(message).encode() + b"\n")

    def _look(self) -> None:
        """The worker names its socket in a small file as soon as it can be played."""
        try:
            path = str(json.loads(self._address.read_text(encoding="utf-8"))["socket"])
        except (OSError, ValueError, KeyError, TypeError):
            return
        self._timer.stop()
        self._socket.connectToServer(path)

    def _on_data(self) -> None:
        self._unread += bytes(self._socket.readAll())
        *lines, self._unread = self._unread.split(b"\n")
        if len(self._unread) > _LONGEST_LINE:
            self._socket.abort()
            return
        documents = [document for line in lines if (document := _read(line)) is not None]
        for document in documents:
            if "turn_based" in document:
                self.ready.emit(document)
        # A window that is behind shows only the newest picture.
        if documents:
            self._show(documents[-1])

    def _show(self, document: dict[str, Any]) -> None:
        try:
            data = base64.b64decode(document.get("frame") or "")
        except (binascii.Error, ValueError):
            return
        image = QImage.fromData(data)
        if not image.isNull():
            self.scene.emit(image, document)


def _read(line: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(line)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
