"""What this machine has: CPUs, memory, disk, and GPUs when there is a driver."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML sees it."""

    index: int
    name: str
    memory_used_mb: int
    pids: frozenset[int]


GpuProbe = Callable[[], list[Gpu]]
# What a machine with a driver has: the driver's own device, or that of Windows' Linux.
_DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))


def probe_gpus() -> list[Gpu]:
    """Every GPU of the machine; none when there is no driver."""
    if not any(device.exists() for device in _DRIVERS):
        return []  # importing NVML to learn the same costs a tenth of the daemon's start
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        return [_describe(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def _describe(nvml: "pynvml", index: int) -> Gpu:  # type: ignore[name-defined]  # noqa: F821
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    name = nvml.nvmlDeviceGetName(handle)
    pids = frozenset(process.pid for process in processes)
    return Gpu(index, str(name), memory.used // 2**20, pids)


def cpu_count() -> int:
    """CPUs this process may use."""
    return len(os.sched_getaffinity(0))


def memory_total_mb() -> int:
    """Physical memory."""
    return int(psutil.virtual_memory().total // 2**20)


def memory_available_mb() -> int:
    """Memory that could be used now."""
    return int(psutil.virtual_memory().available // 2**20)


def disk_free_mb(path: Path) -> int:
    """Free space where `path` lies."""
    return shutil.disk_usage(path).free // 2**20


def files_free(path: Path) -> int | None:
    """How many files can still be created at `path`; None where that is not counted."""
    counted = os.statvfs(path)
    return counted.f_favail if counted.f_files else None


def cpu_percent() -> float:
    """Use of the whole machine since the last call."""
    return float(psutil.cpu_percent(interval=None))


def memory_percent() -> float:
    """Share of memory in use."""
    return float(psutil.virtual_memory().percent)
