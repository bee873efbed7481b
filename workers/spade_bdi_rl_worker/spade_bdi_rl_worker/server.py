"""A handle on the embedded XMPP server process."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from spade_bdi_rl_worker.errors import XmppError
from spade_bdi_rl_worker.xmpp_server import HOST

_PREFIX, _MARK = "mosaic-xmpp-", "in-use"


def _lock(path: Path, *, create: bool = True) -> int | None:
    """Hold a file until this process ends, however it ends; None when another one holds it.

    A lock and not a process id: the temporary folder may be shared with a container, whose
    process ids mean nothing here.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_abandoned() -> None:
    """Remove the folders of servers that were killed together with their worker."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            # Without a mark it is another user's, or only just being made.
            if folder.stat().st_uid != os.geteuid():
                continue
            held = _lock(folder / _MARK, create=False)
        except OSError:
            continue
        if held is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


class EmbeddedServer:
    """pyjabber in a child process that ends when this one does."""

    def __init__(self) -> None:
        _remove_abandoned()
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._mark = _lock(self._folder / _MARK)
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.host = HOST
        self.password = secrets.token_urlsafe(16)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start, or start again on the same port.

        Raises:
            XmppError: The server did not come up.
        """
        self._reap()
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "spade_bdi_rl_worker.xmpp_server",
                str(self._folder), str(self.port),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # pyjabber makes a folder for uploads when it is imported; it goes with ours.
            env={**os.environ, "TMPDIR": str(self._folder)},
        )  # fmt: skip
        assert self._process.stdout is not None
        # The server prints its port once it listens: no polling, no guess at how long it takes.
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise XmppError(
                f"the embedded XMPP server did not start (exit {code})",
                "see the run's stderr; is pyjabber installed? pip install pyjabber greenlet",
            )
        self.port = int(line)

    def stop(self) -> None:
        """End the server and remove its files."""
        self._reap()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._mark is not None:
            os.close(self._mark)
            self._mark = None

    def _reap(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        # The server ends when its stdin closes; so it also notices our death.
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
