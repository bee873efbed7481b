"""What a test leaves behind: threads, timers, processes, files."""

import gc
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil
import PyQt6
from qtpy.QtCore import QCoreApplication, QEvent, QThread, QTimer
from qtpy.QtWidgets import QApplication

from mosaic.reports.study_figures import PROGRAM as STUDY_PROGRAM
from support.patience import PATIENCE_S

# Fonts, libraries and the like, which the program opens once and keeps.
_SYSTEM = ("/usr/", "/dev/", "/proc/", "/sys/", "/memfd", "/etc/")
_NOT_OURS = (*_SYSTEM, sys.prefix, sys.base_prefix, str(Path(PyQt6.__file__).parent))


@dataclass(frozen=True)
class Holdings:
    """Everything that could be left behind, at one moment."""

    threads: frozenset[threading.Thread]
    timers: frozenset[int]
    processes: frozenset[int]
    files: frozenset[str]

    @classmethod
    def now(cls) -> Self:
        """What there is."""
        me = psutil.Process()
        return cls(
            frozenset(threading.enumerate()),
            frozenset(id(one) for one in _running_in_qt()),
            frozenset(child.pid for child in me.children(recursive=True)),
            frozenset(item.path for item in me.open_files()),
        )


def left_since(before: Holdings) -> list[str]:
    """What has been left behind since then, once everything had time to end."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        for _ in range(5):
            QApplication.processEvents()
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect()
        left = [*_threads(before), *_qt(before), *_processes(before), *_files(before)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def _threads(before: Holdings) -> list[str]:
    return [f"thread {one.name}" for one in threading.enumerate() if one not in before.threads]


def _running_in_qt() -> list[Any]:
    """Timers that tick and threads that run, with or without a window."""
    objects = gc.get_objects()
    # By kind first: there are half a million objects of a few thousand kinds.
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, (QTimer, QThread))}
    return [one for one in objects if type(one) in kinds and _runs(one)]


def _runs(one: QTimer | QThread) -> bool:
    try:
        return bool(one.isActive() if isinstance(one, QTimer) else one.isRunning())
    except RuntimeError:
        return False  # its other half, in Qt, is gone already


def _qt(before: Holdings) -> list[str]:
    return [
        f"{type(one).__name__} of {one.parent()}"
        for one in _running_in_qt()
        if id(one) not in before.timers
    ]


def _processes(before: Holdings) -> list[str]:
    left = []
    for child in psutil.Process().children(recursive=True):
        words = _command(child)
        if child.pid not in before.processes and not _outlives_windows(words):
            left.append(f"process {' '.join(words)}")
    return left


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _outlives_windows(words: list[str]) -> bool:
    """The web engine's helpers live as long as the application; the daemon and its runs longer.

    Their own fixture proves that the daemon's processes end.
    """
    engine = any("QtWebEngineProcess" in word for word in words[:1])
    daemon = any("mosaic" in word or "_worker" in word for word in words[1:4])
    # A process of the window itself, though its file is among those of `mosaic`.
    drawing = any(word.endswith(STUDY_PROGRAM) for word in words)
    return not words or engine or (daemon and not drawing)


def _files(before: Holdings) -> list[str]:
    return [
        f"file {item.path}"
        for item in psutil.Process().open_files()
        if item.path not in before.files and not item.path.startswith(_NOT_OURS)
    ]
