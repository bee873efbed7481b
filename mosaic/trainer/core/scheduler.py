"""Who may start now, and why the others wait. Pure.

Runs go by priority, then by age. A run that does not fit earmarks what is free of the
resources it needs, so that later ones cannot overtake it on these, only beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property

from mosaic.trainer.core.events import Request
from mosaic.trainer.core.value import value


@value
class Machine:
    """What there is, and who has it.

    Attributes:
        cpus: CPU slot ids.
        gpus: GPU slot ids.
        memory_mb: Memory that may be reserved.
        held: Slot id to run id, for every slot in use.
        names: The names of the runs that hold slots, by their ids, for those who wait.
        draining: Slots whose device still shows a process of an ended run.
        busy: GPU slots that another program uses, with a sentence saying so.
        memory_held_mb: Memory reserved by running runs.
    """

    cpus: tuple[str, ...]
    gpus: tuple[str, ...] = ()
    memory_mb: int = 0
    held: Mapping[str, str] = field(default_factory=dict)
    draining: frozenset[str] = frozenset()
    busy: Mapping[str, str] = field(default_factory=dict)
    memory_held_mb: int = 0
    names: Mapping[str, str] = field(default_factory=dict)

    def free(self, slots: Sequence[str]) -> list[str]:
        """Those of `slots` that are free."""
        return [
            slot
            for slot in slots
            if slot not in self.held and slot not in self.draining and slot not in self.busy
        ]


@value
class Claim:
    """A run that wants slots. `order` is its age: smaller is older."""

    run_id: str
    request: Request
    priority: int = 0
    order: str = ""


@value
class Plan:
    """Slots for those who may start, a sentence for those who may not."""

    grants: Mapping[str, tuple[str, ...]]
    waits: Mapping[str, str]


def plan(claims: Sequence[Claim], machine: Machine, hold: str = "") -> Plan:
    """Give out the free slots.

    Args:
        claims: Every waiting run.
        machine: The slots and who holds them.
        hold: A sentence when nothing may start at all (draining, disk full).
    """
    cpus, gpus = machine.free(machine.cpus), machine.free(machine.gpus)
    memory = machine.memory_mb - machine.memory_held_mb
    holders = _Holders(machine)
    grants: dict[str, tuple[str, ...]] = {}
    waits: dict[str, str] = {}
    ahead = 0
    for claim in sorted(claims, key=lambda claim: (-claim.priority, claim.order)):
        need = claim.request
        # Before anything is set aside: such a run would block the queue for good.
        impossible = hold or _impossible(need, machine)
        if impossible:
            waits[claim.run_id] = impossible
            continue
        # `gpus` is a wish that the machine may be too small for, `gpus_mandatory` is not.
        gpus_wanted = max(need.gpus_mandatory, min(need.gpus, len(machine.gpus)))
        lacking = _lacking(need, gpus_wanted, cpus, gpus, memory, holders)
        # Set aside even if the run has to wait: otherwise a stream of small runs behind it would
        # take every slot that becomes free, and a large run would never start.
        cpu_share, cpus = cpus[: need.cpus], cpus[need.cpus :]
        gpu_share, gpus = gpus[:gpus_wanted], gpus[gpus_wanted:]
        memory = max(0, memory - need.memory_mb)
        if lacking:
            queue = f" ({ahead} ahead in the queue)" if ahead else ""
            waits[claim.run_id] = lacking + queue
            ahead += 1
        else:
            grants[claim.run_id] = (*cpu_share, *gpu_share)
    return Plan(grants, waits)


def _impossible(need: Request, machine: Machine) -> str:
    """Why a run can never start on this machine; empty if it can."""
    if need.cpus > len(machine.cpus):
        return f"needs {need.cpus} CPU slots, this machine has {len(machine.cpus)}"
    if need.gpus_mandatory > len(machine.gpus):
        return f"needs {need.gpus_mandatory} GPUs, this machine has {len(machine.gpus)}"
    if need.memory_mb > machine.memory_mb:
        return f"needs {need.memory_mb:,} MB of memory, this machine has {machine.memory_mb:,} MB"
    return ""


def _lacking(
    need: Request,
    gpus_wanted: int,
    cpus: Sequence[str],
    gpus: Sequence[str],
    memory: int,
    holders: "_Holders",
) -> str:
    """Why a run cannot start now, or nothing."""
    if gpus_wanted > len(gpus):
        return f"waiting for {_count(gpus_wanted, 'GPU')}{holders.gpus}"
    if need.cpus > len(cpus):
        return f"waiting for {_count(need.cpus, 'CPU slot')}{holders.cpus}"
    if need.memory_mb > memory:
        return f"waiting for {need.memory_mb:,} MB of memory, {max(0, memory):,} MB are free"
    return ""


class _Holders:
    """Who holds the slots, in words, found once for the whole queue.

    Thousands wait for the same slots: found for each of them, it cost as many times as much.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @cached_property
    def cpus(self) -> str:
        return _holders(self._machine, self._machine.cpus)

    @cached_property
    def gpus(self) -> str:
        return _gpu_holders(self._machine)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _gpu_holders(machine: Machine) -> str:
    # Another program comes first: the end of our own runs would not free its GPU.
    for sentence in machine.busy.values():
        return f"; {sentence}"
    draining = sorted(machine.draining & set(machine.gpus))
    if draining:
        return f"; {', '.join(draining)} still shows a process of a run that ended"
    return _holders(machine, machine.gpus)


def _holders(machine: Machine, slots: Sequence[str]) -> str:
    runs = sorted({machine.held[slot] for slot in slots if slot in machine.held})
    if not runs:
        return ""
    named = [machine.names.get(run_id) or run_id for run_id in runs[:2]]
    shown = ", ".join(named) + (" and others" if len(runs) > 2 else "")
    return f"; held by {shown}"
