"""What the daemon says about itself, the machine and its workers."""

from dataclasses import asdict, dataclass
from typing import Annotated

from mosaic.records.fields import Record, plain
from mosaic.workers.capabilities import WorkerCapabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Record):
    """The daemon's own state."""

    instance: Annotated[str, "New at every start."]
    version: Annotated[str, "Version of MOSAIC."]
    protocol: Annotated[int, "Version of the worker protocol."]
    epoch: Annotated[int, "How many times a daemon has started on this home."]
    draining: Annotated[bool, "Starts no more runs and stops after the last one."]
    pid: Annotated[int, "Process id."]
    uptime_s: Annotated[float, "Seconds since it started."]
    notice: Annotated[str, "Something that needs attention, such as a full disk."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot(Record):
    """A part of the machine that one run can hold."""

    id: Annotated[str, "Such as `cpu:0` or `gpu:0`."]
    run_id: Annotated[str, "Run that holds it; empty if free."]
    draining: Annotated[bool, "Released, but a process of the run is still on the device."]
    detail: Annotated[str, "Name of the device, or what else occupies it."]

    @property
    def is_gpu(self) -> bool:
        """True for a GPU."""
        return self.id.startswith("gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources(Record):
    """Slots, memory, disk and load of the machine."""

    cpus_total: Annotated[int, "CPU slots."]
    cpus_free: Annotated[int, "CPU slots that no run holds."]
    memory_total_mb: Annotated[int, "Memory of the machine."]
    memory_free_mb: Annotated[int, "Memory available now."]
    disk_free_mb: Annotated[int, "Free space in the home."]
    queued: Annotated[int, "Runs that wait."]
    running: Annotated[int, "Runs that have started."]
    cpu_percent: Annotated[float, "Load of the whole machine."]
    memory_percent: Annotated[float, "Memory in use."]
    slots: Annotated[tuple[Slot, ...], "Every CPU and GPU slot."]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo(Record):
    """A worker that the daemon knows."""

    type: Annotated[str, "Name in configurations and on the command line."]
    display_name: Annotated[str, "Name for people."]
    available: Annotated[bool, "It can be used."]
    problem: Annotated[str, "Why it cannot be used, with the command that helps."]
    capabilities: Annotated[WorkerCapabilities | None, "What it says about itself."]

    def to_dict(self) -> dict[str, object]:
        """Plain data; the capabilities as an object."""
        found = self.capabilities
        document = plain(asdict(found)) if found else None
        return {**super(WorkerInfo, self).to_dict(), "capabilities": document}
