"""A TensorBoard server of our own: on a free port, for one folder, stopped when unused."""

import re
import secrets
import sys

from qtpy.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from gym_gui.background.private_tensorboard import PREFIX_VARIABLE

_ADDRESS = re.compile(r"(http://(?:localhost|127\.0\.0\.1):\d+/[\w-]+/)\s")
# It ends at once when asked, unless it is reading a large file.
_STOP_MS = 3000


class TensorBoardServer(QObject):
    """Starts on demand, stops when idle or told to.

    Signals:
        ready: It answers at this address.
        failed: It could not be started, and why.
        stopped: It ended because it was not used.
    """

    ready = Signal(str)
    failed = Signal(str)
    stopped = Signal()

    def __init__(self, idle_minutes: float, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.address = ""
        self._said = ""
        self._process: QProcess | None = None
        self._leaving: set[QProcess] = set()
        self._idle = QTimer(self)
        self._idle.setSingleShot(True)
        self._idle.setInterval(int(idle_minutes * 60_000))
        self._idle.timeout.connect(self._on_idle)

    @property
    def running(self) -> bool:
        """Whether there is a server."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The server's process id, 0 when there is none."""
        return int(self._process.processId()) if self._process else 0

    def start(self, folder: str) -> None:
        """Serve a folder; `ready` follows."""
        self.stop()
        process = QProcess(self)
        process.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
        process.readyRead.connect(self._on_output)
        process.finished.connect(lambda *_: self._on_finished(process))
        arguments = ["-m", "gym_gui.background.dies_with_parent"]
        arguments += [sys.executable, "-m", "gym_gui.background.private_tensorboard"]
        variables = QProcessEnvironment.systemEnvironment()
        variables.insert(PREFIX_VARIABLE, f"/{secrets.token_urlsafe(24)}")
        process.setProcessEnvironment(variables)
        # Port 0: neither a second window nor a TensorBoard of the user's own is in the way.
        arguments += ["--logdir", folder, "--host", "127.0.0.1", "--port", "0"]
        arguments += ["--reload_interval", "5"]
        self._process = process
        process.start(sys.executable, arguments)

    def stop(self) -> None:
        """End the server, without waiting for it."""
        self._idle.stop()
        process, self._process = self._process, None
        self.address, self._said = "", ""
        if process is None:
            return
        # The last words of the old server must not be read as the address of the new one.
        process.readyRead.disconnect()
        process.finished.connect(lambda *_: self._leaving.discard(process))
        self._leaving.add(process)
        # Not waited for: the window must not freeze until the server has gone.
        process.terminate()
        # A server that ignores the request would keep its port and memory.
        QTimer.singleShot(_STOP_MS, process.kill)

    def wait(self) -> None:
        """Wait until every server that was stopped has ended; only when the window closes."""
        for process in list(self._leaving):
            if not process.waitForFinished(_STOP_MS):
                process.kill()
                process.waitForFinished(_STOP_MS)

    def in_use(self, used: bool) -> None:
        """Its page is on screen, or no longer."""
        if used:
            self._idle.stop()
        elif self.running:
            self._idle.start()

    def _on_output(self) -> None:
        if self._process is None:
            return
        # The address may arrive in two pieces; the tail bounds what a chatty server adds.
        self._said = (self._said + self._process.readAll().data().decode(errors="replace"))[-4000:]
        match = _ADDRESS.search(self._said)
        if match and not self.address:
            self.address = match[1]
            self.ready.emit(self.address)

    def _on_finished(self, process: QProcess) -> None:
        if process is not self._process:
            return
        self._process = None
        lines = [line for line in self._said.splitlines() if line.strip()]
        reason = lines[-1] if lines else "it ended without a message"
        if "No module named" in self._said:
            reason = "TensorBoard is not installed; run: pip install tensorboard"
        self.address = ""
        self.failed.emit(reason)

    def _on_idle(self) -> None:
        self.stop()
        self.stopped.emit()
