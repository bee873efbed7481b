"""One ssh connection with a `mosaic` command at its other end, and why one ends.

Nothing is left when it is closed, or when this process is killed: the command there ends with its
input, and ssh with the command.
"""

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

from mosaic.config.json_types import JsonValue
from mosaic.connect.remote_home import RemoteHome, ssh_command
from mosaic.errors import UnreachableError
from mosaic.system.processes import process_state

_FOLDER = "mosaic-ssh-"
_GOODBYE_S = 3.0
# `ssh` itself failed; any other status is that of the command there.
SSH_FAILED, NO_COMMAND, _USAGE = 255, 127, 2


class SshSession:
    """One ssh connection with a `mosaic` command at its other end that answers lines with lines.

    Args:
        place: The account and the home there.
        words: The command, such as `reach`.
        answer: The key of its answers; a shell's start files may print lines of their own.
    """

    def __init__(self, place: RemoteHome, words: Sequence[str], answer: str) -> None:
        self._place = place
        self._key = answer
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-", dir=_short_folder()))
        self._control = self.folder / "control"
        self._said = self.folder / "said"
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._forwarded: dict[str, Path] = {}
        self.answered = False
        # The other end waits for its input to end. However this process ends, its pipes close with
        # it: that ends the command there, and with it the connection, without anyone's help.
        with self._said.open("wb") as said:
            try:
                self._process = subprocess.Popen(
                    place.ssh(["-T", "-M", "-S", str(self._control)], words),
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

    def ask(self, line: str, patience_s: float) -> dict[str, JsonValue]:
        """Ask the other end.

        Raises:
            UnreachableError: ssh or `mosaic` there has ended, or nothing comes.
        """
        assert self._process.stdin is not None
        with suppress(OSError):  # that it has ended is said below, with the reason
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        deadline = time.monotonic() + patience_s
        while True:
            try:
                said = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                raise UnreachableError(
                    f"{self._place.account} does not answer; try: {self._place.by_hand()}"
                ) from None
            if said is None:
                self._process.wait()
                raise self._why_it_ended()
            # A shell's start files may print what they like.
            with suppress(ValueError):
                document = json.loads(said)
                if isinstance(document, dict) and isinstance(document.get(self._key), dict):
                    self.answered = True
                    answer: dict[str, JsonValue] = document[self._key]
                    return answer

    def forward(self, target: str) -> Path:
        """A socket of ours that leads to `host:port`, or to the path of a socket, over there."""
        known = self._forwarded.get(target)
        if known is not None:
            return known
        here = self.folder / str(len(self._forwarded))
        self._ask_master("-L", f"{here}:{target}")
        self._forwarded[target] = here
        return here

    def forward_back(self, socket: str, target: str) -> None:
        """Make a socket over there lead to `host:port` of this machine.

        Raises:
            UnreachableError: The server there forwards nothing.
        """
        self._ask_master("-R", f"{socket}:{target}")

    def _ask_master(self, direction: str, what: str) -> None:
        done = subprocess.run(
            [*ssh_command(), "-S", str(self._control), "-O", "forward", direction, what,
             "--", self._place.account],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise UnreachableError(
                f"ssh to {self._place.account} forwards nothing: {_last_line(done.stderr)}"
            )

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
                # Empty ones only show that the other end lives.
                if line.strip():
                    self._lines.put(line.decode(errors="replace"))
        self._lines.put(None)

    def _why_it_ended(self) -> UnreachableError:
        said = self._said.read_text(errors="replace")
        return explain(self._place, self._process.returncode, said)


def sweep_folders() -> None:
    """Remove the folders of processes that were killed; ssh itself ended with them."""
    for folder in _short_folder().glob(f"{_FOLDER}*"):
        pid = folder.name.removeprefix(_FOLDER).partition("-")[0]
        with suppress(OSError):
            ours = folder.stat().st_uid == os.geteuid()
            if ours and pid.isdecimal() and not process_state(int(pid)):
                shutil.rmtree(folder, ignore_errors=True)


def explain(place: RemoteHome, status: int, said: str) -> UnreachableError:
    """Why ssh, or `mosaic` at its other end, has ended, and what to do."""
    if status == SSH_FAILED:
        return _ssh_failed(place, said)
    account = place.account
    if status == NO_COMMAND:
        where = f"{place.program} is not there" if place.program else "it is not on the PATH"
        return UnreachableError(
            f"no mosaic on {account}: {where}; install it there, or say where it is: "
            f"{replace(place, program='/path/to/.venv/bin/mosaic')}",
            final=True,
        )
    if status == _USAGE and ("'reach'" in said or "'agent'" in said):
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
