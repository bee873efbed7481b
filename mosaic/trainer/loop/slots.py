"""The slot table: which run holds what, freed only on proof that its processes are dead."""

from collections.abc import Iterable

from mosaic.config.settings import Settings
from mosaic.trainer.core.scheduler import Machine
from mosaic.trainer.core.states import Run
from mosaic.trainer.launch import hardware


class SlotTable:
    """Follows the hardware and the runs; hands the scheduler a picture of both."""

    def __init__(self, settings: Settings, probe: hardware.GpuProbe = hardware.probe_gpus) -> None:
        self._settings = settings
        self._probe = probe
        self._cpus = tuple(f"cpu:{i}" for i in range(settings.cpu_slots or hardware.cpu_count()))
        self._memory_mb = hardware.memory_total_mb()
        self._draining: dict[str, frozenset[int]] = {}
        self.gpus = probe()

    def picture(self, runs: Iterable[Run]) -> Machine:
        """The machine as the scheduler must see it now."""
        held: dict[str, str] = {}
        memory = 0
        names: dict[str, str] = {}
        for run in runs:
            held.update(dict.fromkeys(run.slots, run.run_id))
            names[run.run_id] = run.run_name
            memory += run.request.memory_mb if run.slots else 0
        # A machine that had no GPU at the start is not asked again.
        if self.gpus or self._draining:
            self.gpus = self._probe()
        return Machine(
            cpus=self._cpus,
            gpus=tuple(f"gpu:{gpu.index}" for gpu in self.gpus),
            memory_mb=self._memory_mb,
            held=held,
            draining=self._still_draining(),
            busy=self._busy(held),
            memory_held_mb=memory,
            names=names,
        )

    def drain(self, slots: Iterable[str], pids: Iterable[int]) -> None:
        """Hold an ended run's GPUs back until the device shows none of its processes.

        The driver frees the memory some time after the process is gone from `/proc`. A run that is
        started in between dies with "out of memory" although no process uses the device.
        """
        for slot in slots:
            if slot.startswith("gpu:"):
                self._draining[slot] = frozenset(pids)

    def _still_draining(self) -> frozenset[str]:
        on_device = {f"gpu:{gpu.index}": gpu.pids for gpu in self.gpus}
        self._draining = {
            slot: pids
            for slot, pids in self._draining.items()
            if on_device.get(slot, frozenset()) & pids
        }
        return frozenset(self._draining)

    def _busy(self, held: dict[str, str]) -> dict[str, str]:
        limit = self._settings.gpu_idle_memory_mb
        if limit is None:
            return {}
        return {
            f"gpu:{gpu.index}": (
                f"gpu:{gpu.index} is used by another program ({gpu.memory_used_mb:,} MB)"
            )
            for gpu in self.gpus
            if f"gpu:{gpu.index}" not in held and gpu.memory_used_mb > limit
        }


def count(runs: Iterable[Run]) -> tuple[int, int]:
    """How many of the live runs wait, and how many do not."""
    waiting = [run.queued or run.placed for run in runs]
    return sum(waiting), len(waiting) - sum(waiting)
