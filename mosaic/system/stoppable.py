"""A program that one thread waits for and another can end."""

import subprocess
import threading
from collections.abc import Sequence

from mosaic.errors import StoppedError


class Stoppable:
    """Runs a program to its end, or until `stop`, which any thread may call.

    A thread cannot be stopped. One that waits for a program can: the program ends, and with it the
    waiting.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False
        # Held while the process is started: `stop` must not miss one that is about to be there.
        self._starting = threading.Lock()

    def run(self, words: Sequence[str], limit_s: float) -> "subprocess.CompletedProcess[str]":
        """Run a program and keep what it prints.

        Args:
            words: Its command line.
            limit_s: It is killed after so long.

        Raises:
            StoppedError: It was stopped, perhaps before it had begun.
            subprocess.TimeoutExpired: It took too long.
            OSError: It could not be started.
        """
        process = self._start(words)
        with process:
            try:
                output, errors = process.communicate(timeout=limit_s)
            finally:
                # After the limit, or when this thread is interrupted: it would run on unseen.
                process.kill()
        if self._stopped:
            raise StoppedError(f"{words[0]} was stopped")
        return subprocess.CompletedProcess(list(words), process.returncode, output, errors)

    def stop(self) -> None:
        """End the program now; one that has not begun will not begin."""
        with self._starting:
            self._stopped = True
            if self._process is not None:
                # No signal is sent to one that has been waited for: its number may be another's.
                self._process.kill()

    def _start(self, words: Sequence[str]) -> "subprocess.Popen[str]":
        with self._starting:
            if self._stopped:
                raise StoppedError(f"{words[0]} was stopped before it began")
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            return self._process
