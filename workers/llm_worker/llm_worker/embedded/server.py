"""The embedded model server from the worker's side: started, watched, repaired, stopped."""

from __future__ import annotations

import secrets
import selectors
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

from llm_worker.errors import ModelError

# Loading a file of gigabytes from a slow disk takes a while; a wrong file is refused at once.
START_S = 120.0
STOP_S = 5.0
# A server that dies again and again will not get better.
MOST_STARTS = 20


def default_model() -> Path:
    """The model that is shipped with this worker.

    Raises:
        ModelError: It is missing.
    """
    path = Path(str(resources.files("llm_worker"))) / "model" / "grid-player.gguf"
    if not path.exists():
        raise ModelError("the shipped model file is missing", "make it with: mosaic llm make-model")
    return path


class EmbeddedServer:
    """One server process; a dead one is replaced when its address is asked for."""

    def __init__(self, model: str = "", threads: int = 1, log: Path | None = None) -> None:
        self._model = Path(model).expanduser() if model else default_model()
        if not self._model.is_file():
            raise ModelError(
                f"there is no model file {self._model}", "give the path of a GGUF file"
            )
        self._threads = threads
        # A large model saves most of its work by it; the shipped one is fast without.
        self._cache = bool(model)
        self._log = log
        self._token = secrets.token_urlsafe(24)
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""
        self.starts = 0

    @property
    def pid(self) -> int:
        """The process that serves now; 0 when none does."""
        return self._process.pid if self._process is not None else 0

    def where(self) -> tuple[str, str]:
        """The URL up to `/v1` and the token; starts the server if it is not running.

        Raises:
            ModelError: It cannot be started.
        """
        if self._process is None or self._process.poll() is not None:
            self._start()
        return f"{self._address}/v1", self._token

    def close(self) -> None:
        """Stop the server."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # Its own sign to end; the kill is for a server that is stuck.
        self._process.stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process = None

    def _start(self) -> None:
        self.close()
        if self.starts >= MOST_STARTS:
            raise ModelError(f"the embedded server has died {self.starts} times")
        self.starts += 1
        command = [sys.executable, "-m", "llm_worker.embedded.serve", "--model", str(self._model)]
        command += ["--threads", str(self._threads), *(["--cache"] if self._cache else [])]
        errors = self._log.open("ab") if self._log is not None else None
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors or subprocess.DEVNULL,
                # A cancelled run's whole group gets SIGTERM, and the worker may still need an
                # answer for its step. The server ends with the worker, when its stdin closes.
                start_new_session=True,
            )
        finally:
            if errors is not None:
                errors.close()
        self._address = self._greet(self._process)

    def _greet(self, process: subprocess.Popen[bytes]) -> str:
        """Hand over the token and read the address."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{self._token}\n".encode())
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it has died already; the missing address says so
        line = _first_line(process, START_S)
        if not line.startswith("http"):
            self.close()
            raise ModelError(
                f"the embedded server could not load {self._model}",
                "is it a GGUF file? see llm/server.log of the run",
            )
        return line


def _first_line(process: subprocess.Popen[bytes], limit_s: float) -> str:
    assert process.stdout is not None
    deadline = time.monotonic() + limit_s
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if selector.select(left):
                return process.stdout.readline().decode().strip()
    return ""
