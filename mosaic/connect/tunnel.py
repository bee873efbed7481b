"""A tunnel to a daemon on another machine: one ssh connection, kept and closed with this process.

`mosaic reach` runs at the other end. Whenever it is asked, it says where its daemon listens and
hands over the token, so that neither crosses the network outside of ssh. Calls then travel through
a socket of this machine that only its user can open. The daemon there needs no new door.
"""

import atexit
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypedDict

from mosaic.connect.endpoint import Address
from mosaic.connect.invitation import Invitation
from mosaic.connect.remote_home import RemoteHome, ssh_command
from mosaic.errors import BindRefusedError, DaemonNotRunningError, MosaicError, UnreachableError
from mosaic.system.processes import process_state

# What `mosaic reach` understands on its input, and the first key of each of its answers.
WHERE, START = "where", "start"
ANSWER = "mosaic_reach"
_FOLDER = "mosaic-ssh-"
# ssh gives up connecting after 10 s; then the shell there and a Python have to start on a machine
# that may be busy.
_GREETING_S = 60.0
# A daemon that reads a full home again takes longer than this only with ten thousand runs.
_START_S = 180.0
# Servers lock out who knocks with a wrong key again and again, and windows never stop trying.
_AFTER_REFUSAL_S = 30.0
# A machine that starts again, or a network that was gone for a moment.
_AFTER_FAILURE_S = 2.0
_GOODBYE_S = 3.0
# `ssh` itself failed; any other status is that of the command there.
_SSH_FAILED, _NO_COMMAND, _USAGE = 255, 127, 2


class Answer(TypedDict, total=False):
    """A line of `mosaic reach`: where the daemon is, or why there is none."""

    target: str
    certificate: str
    name: str
    token: str
    home: str
    error: str
    kind: str


class _Session:
    """One ssh connection with `mosaic reach` at its other end."""

    def __init__(self, place: RemoteHome) -> None:
        self._place = place
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-", dir=_short_folder()))
        self._control = self.folder / "control"
        self._said = self.folder / "said"
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._forwarded: dict[str, Path] = {}
        self.answered = False
        # The other end waits for its input to end. However this process ends, its pipes close with
        # it: that ends `mosaic reach`, and with it the connection, without anyone's help.
        with self._said.open("wb") as said:
            try:
                self._process = subprocess.Popen(
                    place.ssh(["-T", "-M", "-S", str(self._control)], ["reach"]),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=said,
                    start_new_session=True,  # Ctrl-C in this terminal is not meant for it
                )
            except OSError as error:
                shutil.rmtree(self.folder, ignore_errors=True)
                raise UnreachableError(
                    f"{ssh_command()[0]} cannot be started ({error.strerror}); "
                    "install the OpenSSH client"
                ) from None
        threading.Thread(target=self._read, name="ssh-answers", daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, word: str, patience_s: float) -> Answer:
        """Ask the other end.

        Raises:
            UnreachableError: ssh or `mosaic` there has ended, or nothing comes.
        """
        assert self._process.stdin is not None
        with suppress(OSError):  # that it has ended is said below, with the reason
            self._process.stdin.write(f"{word}\n".encode())
            self._process.stdin.flush()
        deadline = time.monotonic() + patience_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                raise UnreachableError(
                    f"{self._place.account} does not answer; try: {self._place.by_hand()}"
                ) from None
            if line is None:
                self._process.wait()
                raise self._why_it_ended()
            # A shell's start files may print what they like.
            with suppress(ValueError):
                document = json.loads(line)
                if isinstance(document, dict) and ANSWER in document:
                    answer: Answer = document[ANSWER]
                    self.answered = True
                    return answer

    def forward(self, target: str) -> Path:
        """A socket of ours that leads to `host:port`, or to the path of a socket, over there."""
        known = self._forwarded.get(target)
        if known is not None:
            return known
        here = self.folder / str(len(self._forwarded))
        done = subprocess.run(
            [*ssh_command(), "-S", str(self._control), "-O", "forward", "-L", f"{here}:{target}",
             "--", self._place.account],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise UnreachableError(
                f"ssh to {self._place.account} forwards nothing: {_last_line(done.stderr)}"
            )
        self._forwarded[target] = here
        return here

    def close(self) -> None:
        """End the connection and what runs at its other end."""
        process = self._process
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_GOODBYE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line.decode(errors="replace"))
        self._lines.put(None)

    def _why_it_ended(self) -> UnreachableError:
        said = self._said.read_text(errors="replace")
        return explain(self._place, self._process.returncode, said)


class Tunnel:
    """The way to one remote home, an `Elsewhere`. Made by `borrow`; for any thread."""

    def __init__(self, place: RemoteHome) -> None:
        self.place = place
        self._session: _Session | None = None
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
            return session.ask(word, patience_s)
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
        self._session = _Session(self.place)
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


def sweep_folders() -> None:
    """Remove the folders of processes that were killed; ssh itself ended with them."""
    for folder in _short_folder().glob(f"{_FOLDER}*"):
        pid = folder.name.removeprefix(_FOLDER).partition("-")[0]
        with suppress(OSError):
            ours = folder.stat().st_uid == os.geteuid()
            if ours and pid.isdecimal() and not process_state(int(pid)):
                shutil.rmtree(folder, ignore_errors=True)


def run_there(place: RemoteHome, words: Sequence[str], terminal: bool) -> int:
    """Run a `mosaic` command on the other machine, with our input and output; its exit status."""
    done = subprocess.run(
        place.ssh(["-t" if terminal else "-T"], words), stderr=subprocess.PIPE, check=False
    )
    said = done.stderr.decode(errors="replace")
    if done.returncode in (_SSH_FAILED, _NO_COMMAND):
        raise explain(place, done.returncode, said)
    os.write(2, done.stderr)
    return done.returncode


def explain(place: RemoteHome, status: int, said: str) -> UnreachableError:
    """Why ssh, or `mosaic` at its other end, has ended, and what to do."""
    if status == _SSH_FAILED:
        return _ssh_failed(place, said)
    account = place.account
    if status == _NO_COMMAND:
        where = f"{place.program} is not there" if place.program else "it is not on the PATH"
        return UnreachableError(
            f"no mosaic on {account}: {where}; install it there, or say where it is: "
            f"{replace(place, program='/path/to/.venv/bin/mosaic')}",
            final=True,
        )
    if status == _USAGE and "'reach'" in said:
        text = f"mosaic on {account} is too old to be reached like this; update it there"
        return UnreachableError(text, final=True)
    return UnreachableError(
        f"mosaic on {account} has ended with exit code {status}: {_last_line(said)}"
    )


def _ssh_failed(place: RemoteHome, said: str) -> UnreachableError:
    lower, by_hand = said.lower(), place.by_hand()
    if "remote host identification has changed" in lower:
        text = (
            f"{place.host} shows another key than before: it was set up again, or something "
            f"else answers in its place; ask its administrator, then: ssh-keygen -R {place.host}"
        )
    elif "host key verification failed" in lower:
        text = (
            f"{place.host} is not known to this machine yet; connect once by hand, compare the "
            f"fingerprint and accept it: {by_hand}"
        )
    elif "permission denied" in lower:
        text = (
            f"{place.account} refuses your key; put it there with ssh-copy-id, or load it with "
            f"ssh-add if it has a password, and try: {by_hand}"
        )
    else:
        reason = _last_line(said) or "no reason given"
        return UnreachableError(f"ssh to {place.account} has ended: {reason}; try: {by_hand}")
    return UnreachableError(text, final=True)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _short_folder() -> Path:
    # A socket's path may have 107 characters; temporary folders of tests are longer than that.
    folder = Path(tempfile.gettempdir())
    return folder if len(str(folder)) < 40 else Path("/tmp")
