"""A handle on the embedded XMPP server process."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from spade_bdi_rl_worker.errors import XmppError
from spade_bdi_rl_worker.xmpp_server import HOST


class EmbeddedServer:
    """pyjabber in a child process that ends when this one does."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mosaic-xmpp-"))
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

    def _reap(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        # Closing its stdin is how the server is told to end, and how it notices our death.
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
