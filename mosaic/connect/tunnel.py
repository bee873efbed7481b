"""A tunnel to a daemon on another machine: one ssh connection, kept and closed with this process.

`mosaic reach` runs at the other end. Whenever it is asked, it says where its daemon listens and
hands over the token, so that neither crosses the network outside of ssh. Calls then travel through
a socket of this machine that only its user can open. The daemon there needs no new door.
"""

import atexit
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import TypedDict, cast

from mosaic.connect.endpoint import Address
from mosaic.connect.invitation import Invitation
from mosaic.connect.remote_home import RemoteHome
from mosaic.connect.session import NO_COMMAND, SSH_FAILED, SshSession, explain, sweep_folders
from mosaic.errors import BindRefusedError, DaemonNotRunningError, MosaicError, UnreachableError

# What `mosaic reach` understands on its input, and the first key of each of its answers.
WHERE, START = "where", "start"
ANSWER = "mosaic_reach"
# ssh gives up connecting after 10 s; then the shell there and a Python have to start on a machine
# that may be busy.
_GREETING_S = 60.0
# A daemon that reads a full home again takes longer than this only with ten thousand runs.
_START_S = 180.0
# Servers lock out who knocks with a wrong key again and again, and windows never stop trying.
_AFTER_REFUSAL_S = 30.0
# A machine that starts again, or a network that was gone for a moment.
_AFTER_FAILURE_S = 2.0


class Answer(TypedDict, total=False):
    """A line of `mosaic reach`: where the daemon is, or why there is none."""

    target: str
    certificate: str
    name: str
    token: str
    home: str
    error: str
    kind: str


class Tunnel:
    """The way to one remote home, an `Elsewhere`. Made by `borrow`; for any thread."""

    def __init__(self, place: RemoteHome) -> None:
        self.place = place
        self._session: SshSession | None = None
        self._lock = threading.Lock()
        self._refusal: UnreachableError | None = None
        self._next_try = 0.0
        self._closed = False

    @property
    def title(self) -> str:
        """`user@host`."""
        return self.place.account

    def reach(self, start: bool = False) -> Invitation:
        """Where the daemon can be reached now, from here; connects again if need be.

        Args:
            start: Start a daemon there if none runs.

        Raises:
            UnreachableError: ssh does not get there, or finds no `mosaic`.
            DaemonNotRunningError: No daemon runs there.
        """
        with self._lock:
            answer = self._ask(START if start else WHERE, _START_S if start else _GREETING_S)
            if "error" in answer:
                raise self._error(answer)
            assert self._session is not None
            here = self._session.forward(answer["target"])
            address = Address(f"unix:{here}", answer["certificate"], answer["name"])
            return Invitation(address, answer["token"].encode())

    def local_socket(self, path: str) -> str:
        """A socket of this machine that leads to a socket over there, such as a game's.

        Raises:
            UnreachableError: The tunnel is down.
        """
        with self._lock:
            if self._session is None or not self._session.alive:
                raise UnreachableError(f"the connection to {self.place.account} is lost")
            return str(self._session.forward(path))

    def release(self) -> None:
        """Say that one of its users needs it no more; the last one closes it."""
        _give_up(self)

    def close(self) -> None:
        """End the ssh connection, and every call that waits for it, for good."""
        self._closed = True
        # Without the lock: a thread may hold it for as long as a dead network takes to notice.
        session = self._session
        if session is not None:
            session.close()

    def _ask(self, word: str, patience_s: float) -> Answer:
        if self._session is None or not self._session.alive:
            self._connect(forced=word == START)
        session = self._session
        assert session is not None
        try:
            return cast(Answer, session.ask(word, patience_s))
        except UnreachableError as error:
            self._end_session()
            # A connection that has worked is made again at once; one that never came up waits.
            if not session.answered:
                pause = _AFTER_REFUSAL_S if error.final else _AFTER_FAILURE_S
                self._refusal, self._next_try = error, time.monotonic() + pause
            raise

    def _connect(self, forced: bool) -> None:
        self._end_session()
        # Who presses a button does not wait.
        if self._refusal is not None and not forced and time.monotonic() < self._next_try:
            raise self._refusal
        self._refusal = None
        sweep_folders()
        self._session = SshSession(self.place, ["reach"], ANSWER)
        # `close` may have looked before there was a session.
        if self._closed:
            self._end_session()
            raise UnreachableError(f"the connection to {self.place.account} was closed")

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _error(self, answer: Answer) -> MosaicError:
        text = f"{self.place.account}: {answer['error']}"
        if answer.get("kind") == DaemonNotRunningError.__name__:
            # Its own remedy is meant for a terminal over there.
            what = text.partition(";")[0]
            return DaemonNotRunningError(
                f"{what}; start one from here: mosaic --connect {self.place} up"
            )
        return BindRefusedError(text)


# ------------------------------------------------------------ one tunnel for all of a process

_tunnels: dict[RemoteHome, tuple[Tunnel, int]] = {}
_tunnels_lock = threading.Lock()


def borrow(place: RemoteHome) -> Tunnel:
    """The tunnel to a home, shared by all its users; each has to `release` it."""
    with _tunnels_lock:
        tunnel, users = _tunnels.get(place) or (Tunnel(place), 0)
        _tunnels[place] = (tunnel, users + 1)
        return tunnel


def _give_up(tunnel: Tunnel) -> None:
    with _tunnels_lock:
        known, users = _tunnels.get(tunnel.place, (None, 0))
        if known is tunnel and users > 1:
            _tunnels[tunnel.place] = (known, users - 1)
            return
        if known is tunnel:
            del _tunnels[tunnel.place]
    tunnel.close()


@atexit.register
def _close_all() -> None:
    with _tunnels_lock:
        left = [tunnel for tunnel, _ in _tunnels.values()]
        _tunnels.clear()
    for tunnel in left:
        tunnel.close()


def run_there(place: RemoteHome, words: Sequence[str], terminal: bool) -> int:
    """Run a `mosaic` command on the other machine, with our input and output; its exit status."""
    done = subprocess.run(
        place.ssh(["-t" if terminal else "-T"], words), stderr=subprocess.PIPE, check=False
    )
    said = done.stderr.decode(errors="replace")
    if done.returncode in (SSH_FAILED, NO_COMMAND):
        raise explain(place, done.returncode, said)
    os.write(2, done.stderr)
    return done.returncode
