"""The status bar: how the daemon is, what waits, how full the machine is."""

from qtpy.QtCore import QRectF, QSize, Qt
from qtpy.QtGui import QPainter, QPaintEvent
from qtpy.QtWidgets import QLabel, QStatusBar, QToolButton, QWidget

from gym_gui.background.daemon_link import (
    CONNECTED,
    CONNECTING,
    LOST,
    SLOW,
    DaemonLink,
    LinkState,
)
from gym_gui.models.run_order import summary
from gym_gui.resources import icons
from gym_gui.services import Services
from gym_gui.widgets.layouts import row
from gym_gui.widgets.qt_types import sure
from mosaic.presenting import formatting

_WORDS = {
    CONNECTED: ("Daemon", "check", "success"),
    CONNECTING: ("Connecting …", "clock", "muted"),
    SLOW: ("Daemon is slow", "warning", "warning"),
    LOST: ("No daemon", "cross", "danger"),
}


class MiniBar(QWidget):
    """A small bar with a name: how much of something is used."""

    def __init__(self, name: str, services: Services) -> None:
        super().__init__()
        self._name, self._themes = name, services.themes
        self._share = 0.0
        self._text = "—"
        self.setAccessibleName(name)

    def show_share(self, share: float, text: str) -> None:
        """Change it."""
        self._share, self._text = min(1.0, max(0.0, share)), text
        self.setToolTip(f"{self._name}: {text}")
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        metrics = self.fontMetrics()
        return QSize(metrics.horizontalAdvance(f"{self._name} ") + 44, metrics.height() + 4)

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(self._themes.colour("muted"))
        painter.drawText(self.rect(), int(Qt.AlignmentFlag.AlignVCenter), self._name)
        left = self.fontMetrics().horizontalAdvance(f"{self._name} ")
        bar = QRectF(left, self.height() / 2 - 3, self.width() - left - 4, 6)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._themes.colour("border"))
        painter.drawRoundedRect(bar, 3, 3)
        tone = "danger" if self._share > 0.95 else "warning" if self._share > 0.85 else "accent"
        painter.setBrush(self._themes.colour(tone))
        bar.setWidth(bar.width() * self._share)
        painter.drawRoundedRect(bar, 3, 3)


class StatusLine(QStatusBar):
    """Chips and bars along the lower edge."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self.setSizeGripEnabled(False)
        self._mark = QLabel()
        self.daemon = QLabel()
        self._queue = QLabel()
        self._bars = {name: MiniBar(name, services) for name in ("CPU", "RAM", "GPU", "Disk")}
        self._bars["GPU"].hide()
        self.bell = QToolButton()
        self.bell.setAccessibleName("Notifications")
        self.bell.setToolTip("Notifications (Ctrl+Shift+N)")
        left = QWidget()
        left.setLayout(row(self._mark, self.daemon, self._queue, spacing=6))
        sure(left.layout()).setContentsMargins(8, 2, 0, 2)
        self.addWidget(left)
        for bar in self._bars.values():
            self.addPermanentWidget(bar)
        self.addPermanentWidget(self.bell)
        daemons = services.daemons
        daemons.state_changed.connect(self._on_state)
        daemons.pulse.connect(self._on_pulse)
        daemons.front_changed.connect(self._on_front)
        services.store.changed.connect(lambda _ids: self._show_queue())
        services.notices.said.connect(lambda _notice: self._show_bell())
        services.themes.changed.connect(self._on_theme)
        self._on_theme()
        self._show_queue()

    def show_state(self, state: LinkState) -> None:
        """Say how the daemon is."""
        words, icon, tone = _WORDS[state.name]
        self._mark.setPixmap(icons.pixmap(icon, self._services.themes.theme.tone(tone), 14))
        self.daemon.setText(words)
        self.daemon.setToolTip(state.text)

    def _on_state(self, link: DaemonLink) -> None:
        if link is self._services.link:
            self.show_state(link.state)

    def _on_front(self) -> None:
        link = self._services.link
        self.show_state(link.state)
        self._on_pulse(link)

    def _on_pulse(self, link: DaemonLink) -> None:
        pulse = link.newest
        # The machine that new runs go to; the board shows the others.
        if link is not self._services.link or pulse is None or not link.state.usable:
            return
        health, machine = pulse.health, pulse.resources
        # Which machine this is has to be seen at a glance: what is cancelled is cancelled there.
        several = self._services.daemons.several
        who = link.name if several else link.title or "Daemon"
        self.daemon.setText(f"{who} {pulse.latency_ms:.0f} ms")
        uptime = formatting.duration(health.uptime_s)
        self.daemon.setToolTip(f"pid {health.pid}, up {uptime}, version {health.version}")
        self._bars["CPU"].show_share(
            machine.cpu_percent / 100,
            f"{machine.cpu_percent:.0f} %; {machine.cpus_free} of {machine.cpus_total} slots free",
        )
        self._bars["RAM"].show_share(
            machine.memory_percent / 100,
            f"{formatting.megabytes(machine.memory_free_mb)} of "
            f"{formatting.megabytes(machine.memory_total_mb)} free",
        )
        free = machine.disk_free_mb
        self._bars["Disk"].show_share(
            # Begins to fill when 20 GB are left, however large the disk is.
            1 - min(1.0, free / 20_480),
            f"{formatting.megabytes(free)} free",
        )
        gpus = [slot for slot in machine.slots if slot.is_gpu]
        self._bars["GPU"].setVisible(bool(gpus))
        if gpus:
            used = sum(bool(slot.run_id) for slot in gpus)
            self._bars["GPU"].show_share(used / len(gpus), f"{used} of {len(gpus)} reserved")

    def _show_queue(self) -> None:
        counts = summary(self._services.store.runs)
        self._queue.setText(f"{counts['running']} running, {counts['queued']} queued")

    def _show_bell(self) -> None:
        self.bell.setText(str(len(self._services.notices.history)))

    def _on_theme(self) -> None:
        self.bell.setIcon(self._services.themes.icon("bell", "muted"))
        self.bell.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.show_state(self._services.link.state)
