"""The board of machines: one card for each daemon, with its slots, its queue and its state."""

from qtpy.QtCore import Signal
from qtpy.QtGui import QShowEvent
from qtpy.QtWidgets import QGridLayout, QWidget

from gym_gui.background.daemon_link import LOST, DaemonLink
from gym_gui.models.machine import MachineCard, machine_card
from gym_gui.resources import icons
from gym_gui.services import Services
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label, selectable
from gym_gui.widgets.layouts import as_panel, clear, column, framed, row, scrolled
from gym_gui.widgets.slot_row import SlotRow
from gym_gui.widgets.wrapping import WrappingRow
from mosaic.presenting import formatting


class MachinesPanel(QWidget):
    """Every daemon that the window is connected to, side by side.

    Signals:
        connect_wanted: Another daemon is to be added.
        runs_wanted: The table is to show the runs of the daemon with this name.
    """

    connect_wanted = Signal()
    runs_wanted = Signal(str)

    def __init__(self, services: Services) -> None:
        super().__init__()
        as_panel(self)
        self._services = services
        self.cards: dict[DaemonLink, _Card] = {}
        self._column = column(margin=8)
        host = QWidget()
        host.setLayout(column(self._column, 1))
        add = button("Connect to another daemon …", self.connect_wanted.emit)
        self.setLayout(column(scrolled(host), row(add, 1, margin=8), spacing=0))
        daemons = services.daemons
        daemons.listed.connect(self._fill)
        daemons.front_changed.connect(self._refresh)
        daemons.state_changed.connect(self._refresh_one)
        daemons.pulse.connect(self._refresh_one)
        services.store.changed.connect(lambda _ids: self._refresh())
        services.themes.changed.connect(self._refresh)
        self._fill()

    def showEvent(self, event: QShowEvent | None) -> None:  # noqa: N802
        super().showEvent(event)
        self._refresh()

    def _fill(self) -> None:
        daemons = self._services.daemons
        if list(self.cards) != daemons.links:
            clear(self._column)
            self.cards = {link: self._made(link) for link in daemons.links}
            for card in self.cards.values():
                self._column.addWidget(card)
        self._refresh()

    def _made(self, link: DaemonLink) -> "_Card":
        card = _Card(self._services, link)
        card.runs_wanted.connect(self.runs_wanted)
        return card

    def _refresh(self) -> None:
        # What is not looked at is counted when it is looked at again.
        if not self.isVisible():
            return
        store = self._services.store
        parts: dict[str, list[str]] = {link.name: [] for link in self.cards}
        for run_id in store.runs:
            for name in store.holders(run_id)[:1]:
                parts.setdefault(name, []).append(run_id)
        for link, card in self.cards.items():
            card.show_card(machine_card(link, [store.runs[one] for one in parts[link.name]]))

    def _refresh_one(self, link: DaemonLink) -> None:
        if link in self.cards:
            self._refresh()


class _Card(QWidget):
    """One daemon.

    Signals:
        runs_wanted: The table is to show its runs; its name.
    """

    runs_wanted = Signal(str)

    def __init__(self, services: Services, link: DaemonLink) -> None:
        super().__init__()
        self._services, self._link = services, link
        self._mark = label("")
        self._state = selectable(label("", "muted", wrap=True))
        home = formatting.tilde(str(link.home.root))
        address = selectable(label(link.address or f"home {home}", "muted", wrap=True))
        self._front = label("New runs go here", "muted")
        title = row(self._mark, label(link.name, "section"), 1, self._front, spacing=6)
        self._slots = {name: SlotRow(services.themes) for name in ("CPU slots", "GPUs")}
        self._slot_words = {name: label("", "muted") for name in self._slots}
        slots = column(spacing=4)
        for name, made in self._slots.items():
            made.chosen.connect(lambda run_id: services.selection.select((run_id,)))
            slots.addWidget(self._slot_words[name])
            slots.addWidget(made)
        self._facts = QGridLayout()
        self._facts.setColumnStretch(1, 1)
        self._facts.setColumnMinimumWidth(0, 78)
        self.use = button("Send new runs here", self._use)
        self.show_runs = button("Show its runs", lambda: self.runs_wanted.emit(link.name))
        self.again = button(
            "Start the daemon" if link.local else "Connect now", link.start_daemon, "primary"
        )
        self.leave = button("Disconnect", lambda: services.daemons.remove(link))
        self.leave.setToolTip("The daemon and its runs continue")
        tools = WrappingRow(spacing=5)
        for one in (self.again, self.use, self.show_runs, self.leave):
            tools.addWidget(one)
        inner = column(title, address, self._state, slots, self._facts, tools, margin=10, spacing=6)
        self.setLayout(column(framed(inner)))

    @property
    def words(self) -> str:
        """Everything the card says."""
        items = [self._facts.itemAt(place) for place in range(self._facts.count())]
        texts = [item.widget() for item in items if item is not None]
        slots = [one.text() for one in self._slot_words.values()]
        facts = [str(one.property("text")) for one in texts if one is not None]
        return "\n".join([self._state.text(), *slots, *facts])

    def show_card(self, card: MachineCard) -> None:
        """Show how the daemon is now."""
        daemons = self._services.daemons
        colour = self._services.themes.theme.tone(card.tone)
        self._mark.setPixmap(icons.pixmap("server", colour, 16))
        self._state.setText(card.state + (" (what follows is from before)" if card.stale else ""))
        for name, cells in (("CPU slots", card.cpus), ("GPUs", card.gpus)):
            used = sum(bool(cell.run_id) for cell in cells)
            self._slots[name].show_slots(name, cells)
            self._slots[name].setEnabled(not card.stale)
            self._slot_words[name].setText(f"{name}: {used} of {len(cells)} in use")
            self._slot_words[name].setVisible(bool(cells))
        clear(self._facts)
        for place, (name, text) in enumerate(card.facts):
            self._facts.addWidget(label(name, "muted"), place, 0)
            self._facts.addWidget(selectable(label(text, wrap=True)), place, 1)
        self._front.setVisible(daemons.several and daemons.front is self._link)
        self.use.setVisible(daemons.several and daemons.front is not self._link)
        self.show_runs.setVisible(daemons.several)
        self.leave.setVisible(daemons.several)
        self.again.setVisible(self._link.state.name == LOST)

    def _use(self) -> None:
        self._services.daemons.bring_to_front(self._link)
