"""The daemons that the window is connected to, and which of them a run is on."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import urlsplit

from qtpy.QtCore import QObject, Signal

from gym_gui.background.calls import Failed
from gym_gui.background.daemon_link import DaemonLink
from gym_gui.background.storage import read_json, window_folder, write_json
from gym_gui.models.run_store import RunStore
from mosaic.client import TrainerClient
from mosaic.config.paths import Home
from mosaic.connect.elsewhere import SCHEME, find_way
from mosaic.errors import InvalidArgumentError

T = TypeVar("T")
# In place of an address: the daemon of the window's own home.
LOCAL = "local"
_FILE = "daemons.json"
_VERSION = 1


class Daemons(QObject):
    """Connections side by side, each with threads of its own: a lost one holds up no other.

    One of them is in front: new runs go there, and what is not about one run is asked there.

    Signals:
        listed: Daemons were added or removed.
        front_changed: Another daemon is in front.
        state_changed: A `DaemonLink` whose state is another.
        pulse: A `DaemonLink` that has a new `Pulse`.
        unexpected: An error that no caller handles.
    """

    listed = Signal()
    front_changed = Signal()
    state_changed = Signal(object)
    pulse = Signal(object)
    unexpected = Signal(str)

    def __init__(self, store: RunStore, first: DaemonLink) -> None:
        super().__init__()
        self._store = store
        self.home: Home = first.home
        self.links: list[DaemonLink] = []
        self.front = first
        self._opened = False
        self.add(first)

    @property
    def several(self) -> bool:
        """Whether there is more than one, so that it matters which is meant."""
        return len(self.links) > 1

    def of(self, run_id: str) -> DaemonLink:
        """The daemon that a command about a run goes to; the one in front for an unknown run."""
        # Asked for each of ten thousand runs; most windows have one daemon.
        holders = self._store.holders(run_id) if self.several else ()
        return self.named(holders[0]) if holders else self.front

    def named(self, name: str) -> DaemonLink:
        """A daemon by its name; the one in front if there is none of that name."""
        return next((link for link in self.links if link.name == name), self.front)

    def where(self, run_id: str) -> str:
        """On which daemons a run is, in words."""
        return ", ".join(self._store.holders(run_id))

    def shared(self, run_ids: Iterable[str]) -> DaemonLink:
        """The daemon that has all of these runs.

        Raises:
            InvalidArgumentError: They are on different ones.
        """
        links = list(dict.fromkeys(self.of(run_id) for run_id in run_ids))
        if len(links) > 1:
            names = " and ".join(link.name for link in links)
            raise InvalidArgumentError(
                f"these runs are on {names}; choose runs of one daemon, "
                "or bring them together with Export and Import"
            )
        return links[0] if links else self.front

    def ask_each(
        self,
        run_ids: Sequence[str],
        question: Callable[[TrainerClient, str], T],
        done: Callable[[dict[str, T]], object],
        failed: Failed,
    ) -> None:
        """Ask about several runs, each at its own daemon; the answers by run come together."""
        parts: dict[DaemonLink, list[str]] = defaultdict(list)
        for run_id in run_ids:
            parts[self.of(run_id)].append(run_id)
        found: dict[str, T] = {}
        missing = set(parts) or {self.front}

        def take(link: DaemonLink, answers: dict[str, T]) -> None:
            found.update(answers)
            missing.discard(link)
            if not missing:
                done({run_id: found[run_id] for run_id in run_ids})

        def ask(link: DaemonLink, ids: Sequence[str]) -> None:
            link.ask(
                lambda client: {one: question(client, one) for one in ids},
                lambda answers: take(link, answers),
                failed,
            )

        for link in list(missing):
            ask(link, parts[link])

    # ------------------------------------------------------------ the list

    def add(self, link: DaemonLink) -> None:
        """List one more daemon, and connect to it if the others are."""
        # Its threads emit signals: it must not be collected with a window, on whatever thread.
        link.setParent(self)
        link.name = unique_name(link.name, link.address, [one.name for one in self.links])
        self.links.append(link)
        self._store.set_order([one.name for one in self.links])
        link.changes.connect(lambda batch: self._store.apply(batch, link.name))
        link.state_changed.connect(lambda _state: self.state_changed.emit(link))
        link.pulse.connect(lambda _pulse: self.pulse.emit(link))
        link.calls.unexpected.connect(self.unexpected)
        if self._opened:
            link.open()
        self.listed.emit()

    def connect_to(self, address: str, *, start: bool = True) -> DaemonLink:
        """Add the daemon that an address names, and keep it for the next window.

        Raises:
            InvalidArgumentError: It is no proper address, or that daemon is listed already.
            SecretError: The file is no invitation, or others may read it.
        """
        link = make_link(self.home, address, start=start)
        if any(one.address == link.address for one in self.links):
            link.close()
            raise InvalidArgumentError(f"{link.name} is connected already")
        self.add(link)
        self._remember([*remembered(self.home), link.address])
        return link

    def remove(self, link: DaemonLink) -> None:
        """Disconnect from a daemon and forget it; it and its runs continue. Not the last one."""
        if link not in self.links or not self.several:
            return
        self.links.remove(link)
        if self.front is link:
            self.bring_to_front(self.links[0])
        # Before its runs go: what shows one of them must not ask a closed connection.
        self._store.set_order([one.name for one in self.links])
        link.blockSignals(True)
        link.close()
        self._remember([one for one in remembered(self.home) if one != link.address])
        self.listed.emit()

    def bring_to_front(self, link: DaemonLink) -> None:
        """New runs go to this daemon from now on."""
        if link is not self.front:
            self.front = link
            self.front_changed.emit()

    def open(self) -> None:
        """Begin connecting to all of them."""
        self._opened = True
        for link in self.links:
            link.open()

    def close(self) -> None:
        """Disconnect from all; they and their runs continue."""
        for link in self.links:
            link.close()

    def _remember(self, addresses: Iterable[str]) -> None:
        """Keep a list for the next window; at once, because it may be closed right after."""
        document = {"version": _VERSION, "daemons": list(dict.fromkeys(addresses))}
        try:
            write_json(window_folder(self.home) / _FILE, document)
        except OSError as error:
            self.unexpected.emit(f"The list of daemons could not be stored: {error}")


def make_link(home: Home, address: str, *, start: bool) -> DaemonLink:
    """A connection, not opened yet, to the daemon that an address names.

    Args:
        home: The window's own home.
        address: `ssh://…`, the path of an invitation, or `local`.
        start: Start a daemon where none runs.

    Raises:
        InvalidArgumentError: It is no proper address.
        SecretError: The file is no invitation, or others may read it.
    """
    if address == LOCAL:
        return DaemonLink(home, start)
    # The next window may be started in another folder.
    text = address if address.startswith(SCHEME) else str(Path(address).expanduser().absolute())
    return DaemonLink(home, start, find_way(text), text)


def remembered(home: Home) -> list[str]:
    """The addresses of the daemons that were added in a window, besides its own home's."""
    try:
        stored = read_json(window_folder(home) / _FILE)
    except (ValueError, OSError):
        return []
    addresses = stored.get("daemons") if isinstance(stored, dict) else None
    if not isinstance(addresses, list):
        return []
    return list(dict.fromkeys(text for text in addresses if isinstance(text, str)))


def unique_name(name: str, address: str, taken: Collection[str]) -> str:
    """What a window calls a daemon.

    Args:
        name: What it is called by itself, such as its host.
        address: Of which the home's folder tells two homes of one host apart.
        taken: The names of the other daemons.
    """
    folder = PurePosixPath(urlsplit(address).path).name if address.startswith(SCHEME) else ""
    if name in taken and folder:
        name = f"{name}/{folder}"
    found, number = name, 2
    while found in taken:
        found, number = f"{name} ({number})", number + 1
    return found
