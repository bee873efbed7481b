"""What the board of machines says about one daemon: pure, from what the window knows of it."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gym_gui.background.daemon_link import CONNECTED, CONNECTING, SLOW, DaemonLink, LinkState, Pulse
from mosaic.presenting import formatting
from mosaic.presenting.run_status import title_of
from mosaic.records import RunRecord, State
from mosaic.records.daemon import Slot

# A card that lists more is read no better; the table has every run.
_MOST_REASONS = 3


@dataclass(frozen=True)
class SlotCell:
    """A slot as the board draws it: whose it is, and in which colour."""

    name: str
    run_id: str
    tone: str
    tip: str


@dataclass(frozen=True)
class MachineCard:
    """The words and slots of one card.

    Attributes:
        tone: Colour of the state.
        state: How the connection is.
        stale: The numbers are from before the connection was lost.
        cpus, gpus: The slots.
        facts: Name and words of each line below them.
    """

    tone: str
    state: str
    stale: bool
    cpus: tuple[SlotCell, ...]
    gpus: tuple[SlotCell, ...]
    facts: tuple[tuple[str, str], ...]


def machine_card(link: DaemonLink, runs: Iterable[RunRecord]) -> MachineCard:
    """A card for a daemon with these runs."""
    known = list(runs)
    pulse = link.newest
    slots = pulse.resources.slots if pulse else ()
    titles = {run.run_id: title_of(run) for run in known if run.live}
    cells = [(slot.is_gpu, _cell(slot, titles)) for slot in slots]
    tone, state = _state(link.state, link.lost_since, pulse)
    return MachineCard(
        tone,
        state,
        pulse is not None and not link.state.usable,
        tuple(cell for is_gpu, cell in cells if not is_gpu),
        tuple(cell for is_gpu, cell in cells if is_gpu),
        tuple(_facts(pulse, known)),
    )


def _state(state: LinkState, lost_since: float, pulse: Pulse | None) -> tuple[str, str]:
    if state.name == CONNECTED:
        return "success", f"connected, {pulse.latency_ms:.0f} ms" if pulse else "connected"
    if state.name == CONNECTING:
        return "muted", "connecting …"
    if state.name == SLOW:
        return "warning", "does not answer; waiting for it"
    since = time.strftime("%H:%M:%S", time.localtime(lost_since))
    return "danger", f"not connected since {since}, trying again: {state.text}"


def _cell(slot: Slot, titles: dict[str, str]) -> SlotCell:
    if slot.run_id:
        return SlotCell(slot.id, slot.run_id, "accent", titles.get(slot.run_id, slot.run_id))
    if slot.draining:
        return SlotCell(slot.id, "", "warning", "a process of its last run is still there")
    return SlotCell(slot.id, "", "border", slot.detail or "free")


def _facts(pulse: Pulse | None, runs: list[RunRecord]) -> Iterable[tuple[str, str]]:
    live = [run for run in runs if run.live]
    queued = [run for run in live if run.state == State.INIT]
    yield "Runs", f"{len(live) - len(queued)} running, {len(queued)} queued"
    if queued:
        yield "They wait", "\n".join(_reasons(queued))
    sites = Counter(run.site for run in live if run.site != "local")
    if sites:
        yield "Sites", ", ".join(f"{site}: {count}" for site, count in sorted(sites.items()))
    if pulse is None:
        return
    machine, health = pulse.resources, pulse.health
    yield (
        "Machine",
        f"CPU {machine.cpu_percent:.0f} %, {formatting.megabytes(machine.memory_free_mb)} memory "
        f"and {formatting.megabytes(machine.disk_free_mb)} disk free",
    )
    yield "Daemon", f"version {health.version}, up {formatting.duration(health.uptime_s)}"
    if health.notice:
        yield "Attention", health.notice


def _reasons(queued: list[RunRecord]) -> list[str]:
    """Why runs wait, the most common reason first."""
    counted = Counter(run.wait_reason or "not looked at yet" for run in queued).most_common()
    lines = [f"{count} × {reason}" for reason, count in counted[:_MOST_REASONS]]
    rest = sum(count for _, count in counted[_MOST_REASONS:])
    return [*lines, f"and {rest} more"] if rest else lines
