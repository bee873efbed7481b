"""The private socket between a worker and the window or terminal of the person who plays its game.

JSON lines both ways. Client: {"keys": ["left"]}, {"keys": []}, {"keys": ["reset"]}, {"quit": true},
{"hold": true} to make time stand still, {"pace": 0.25} for slow motion ({"pace": 0}: time waits for
each key), and where a policy plays too {"control": "person"} or {"control": "policy"}. Worker:
first a greeting with the keys, then after each step the state of the game, who has control, whether
it `waits` for a key and in how many seconds it `starts_in`; every line from the worker carries its
frame as PNG in base64.
"""

import base64
import json
import select
import shutil
import socket
import tempfile
import time
from pathlib import Path
from types import TracebackType

from mosaic.errors import NoPlayerError
from mosaic.presenting.actor import PERSON, POLICY
from mosaic.runs.directory import RunDirectory
from mosaic.system import atomic

# A key that begins the next episode; clients have a button for it.
RESET = "reset"
# Long enough to restart a window that has crashed, short enough to free the slot soon.
WAIT_FOR_PLAYER_S = 60.0
MAX_LINE = 64 * 1024
# A pace beyond this would leave no time to see a picture.
FASTEST = 8.0
# The system allows 107 bytes for the name of a socket.
MAX_ADDRESS = 100


def _private_address(run_dir: Path) -> Path:
    """A place for the socket that only this user can reach.

    Inside the run when the system allows such a long name, so that nothing is left elsewhere.
    """
    inside = run_dir.resolve() / "play" / "keys"
    if len(str(inside).encode()) <= MAX_ADDRESS:
        inside.parent.mkdir(mode=0o700, exist_ok=True)
        inside.unlink(missing_ok=True)
        return inside
    return Path(tempfile.mkdtemp(prefix="mosaic-play-")) / "keys"


class PlayerSocket:
    """The worker's end: one player at a time, who may come back.

    Args:
        run_dir: Where the socket is named.
        control: Who acts as long as no player says otherwise: `person` or `policy`.

    Attributes:
        control: Who acts now.
        gone: The player has quit.
        on_hold: The player wants time to stand still.
        pace: How fast time runs, 1 for the world's own pace, 0 when it waits for each key.
        was_there: A player has come at least once.
    """

    def __init__(self, run_dir: Path, control: str = PERSON) -> None:
        self.control = self._control_at_first = control
        self.was_there = False
        self._address = _private_address(run_dir)
        self._file = RunDirectory(run_dir).play
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._address))
        self._listener.listen(1)
        # Named only now: a client connects as soon as it can read the address.
        atomic.write_json(self._file, {"socket": str(self._address)}, mode=0o600)
        self._player: socket.socket | None = None
        self._unread = b""
        self._held: tuple[str, ...] = ()
        self._last: dict[str, object] = {}
        self.greeting: dict[str, object] = {}
        self._alone_since = time.monotonic()
        self.gone = False
        self.on_hold = False
        self.pace = 1.0

    def tell(self, state: dict[str, object], frame: bytes) -> None:
        """Send the player the state of the game; one who connects later gets the newest."""
        self._last = {**state, "control": self.control, "frame": base64.b64encode(frame).decode()}
        self._send(self._last)

    def next_keys(self, wait_s: float | None) -> tuple[str, ...] | None:
        """The keys for the next step.

        Args:
            wait_s: With a number, the step is due then and the keys held down count. Without, time
                waits for a key; None comes back now and then so that the caller can look around,
                and in both cases once the player has changed the pace.
        """
        if not self._have_player():
            return None
        if wait_s is None:
            pressed = self._read(0.2)
            # One that stays down when time begins to run counts from the first step on.
            self._held = self._held if pressed in (None, (RESET,)) else pressed
            return pressed or None
        until = time.monotonic() + wait_s
        rules = (self.pace, self.on_hold)
        while (left := until - time.monotonic()) > 0 and not self.gone:
            keys = self._read(left)
            if (self.pace, self.on_hold) != rules:
                # The next key may be a move now, which this loop would take for a key held down.
                return None
            if keys == (RESET,):
                # Pressed once, not held: it would begin an episode at every step.
                self._held = ()
                return keys
            if keys is not None:
                self._held = keys
        return self._held

    def __enter__(self) -> "PlayerSocket":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._player is not None:
            self._player.close()
        self._listener.close()
        self._file.unlink(missing_ok=True)
        shutil.rmtree(self._address.parent, ignore_errors=True)

    def _have_player(self) -> bool:
        if self._player is not None:
            return True
        if select.select([self._listener], [], [], 0.2)[0]:
            self._player, _ = self._listener.accept()
            self._unread = b""
            self.was_there = True
            # The last state may still name the control of the player before.
            self._send({**self.greeting, **self._last, "control": self.control})
            return True
        if time.monotonic() - self._alone_since > WAIT_FOR_PLAYER_S:
            raise NoPlayerError(f"no player came within {WAIT_FOR_PLAYER_S:g} s")
        return False

    def _send(self, document: dict[str, object]) -> None:
        if self._player is None:
            return
        try:
            self._player.sendall(json.dumps(document).encode() + b"\n")
        except OSError:
            self._hear_last_words()
            self._drop()

    def _hear_last_words(self) -> None:
        """Read what a player said before hanging up, perhaps in the middle of our sentence.

        One whose terminal did not keep up leaves with pictures unread, so sending to them fails
        first; that they wanted to leave is in the other direction.
        """
        assert self._player is not None
        said = self._unread
        self._player.setblocking(False)
        try:
            while len(said) <= MAX_LINE and (data := self._player.recv(4096)):
                said += data
        except OSError:
            pass  # nothing more is there
        for line in said.split(b"\n"):
            self._understand(line)

    def _read(self, wait_s: float) -> tuple[str, ...] | None:
        if self._player is None:
            return None
        if b"\n" not in self._unread:
            if not select.select([self._player], [], [], wait_s)[0]:
                return None
            try:
                data = self._player.recv(4096)
            except OSError:
                data = b""
            if not data or len(self._unread) > MAX_LINE:
                self._drop()
                return None
            self._unread += data
        line, newline, rest = self._unread.partition(b"\n")
        if not newline:
            return None
        self._unread = rest
        return self._understand(line)

    def _understand(self, line: bytes) -> tuple[str, ...] | None:
        try:
            message = json.loads(line)
            if message.get("quit"):
                self.gone = True
                return None
            if "control" in message:
                self._hand_over(str(message["control"]))
                return None
            if "hold" in message:
                self.on_hold = bool(message["hold"])
                return None
            if "pace" in message:
                self.pace = min(FASTEST, max(0.0, float(message["pace"])))
                return None
            return tuple(str(key) for key in message["keys"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def _hand_over(self, to: str) -> None:
        # In a game without a policy the person always plays, even if a client asks for the policy.
        if self._control_at_first == POLICY and to in (PERSON, POLICY):
            self.control = to
            # Keys that were held for the other one say nothing about this one.
            self._held = ()

    def _drop(self) -> None:
        if self._player is not None:
            self._player.close()
        self._player = None
        self._held = ()
        self.on_hold = False
        # A person who leaves hands control back, or the game would wait for keys forever.
        self.control = self._control_at_first
        self._alone_since = time.monotonic()
