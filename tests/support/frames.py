"""Helpers shared by the FastLane tests."""

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from mosaic.fastlane import Frame, FrameReader
from support.patience import PATIENCE_S


class Child:
    """A process started by a test."""

    def __init__(self, process: "subprocess.Popen[str]", stderr: Path) -> None:
        self.process = process
        self._stderr = stderr

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait(self) -> int:
        return self.process.wait(PATIENCE_S)

    def complaints(self) -> str:
        return self._stderr.read_text()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


StartPython = Callable[..., Child]
StartTrainee = Callable[..., Child]


def shared_files_in_use() -> list[str]:
    """Return what this process still has open or mapped of lanes, removed ones included."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{number}"))
    maps = Path("/proc/self/maps").read_text().splitlines()
    return [text for text in links + maps if f"/mosaic-{os.geteuid()}-" in text]


def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds; the test fails if it never does."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, "it never happened"
        time.sleep(0.01)


def watch(reader: FrameReader, accept: Callable[[Frame], bool] = lambda frame: True) -> Frame:
    """Return the first frame that is accepted; the test fails if none ever is."""
    give_up = time.monotonic() + PATIENCE_S
    last = None
    while time.monotonic() < give_up:
        frame = reader.wait(0.2)
        if frame is not None and accept(frame):
            return frame
        last = frame or last
    raise AssertionError(f"no such frame; the last one was {last}; notice: {reader.notice!r}")


def colour_at(frame: Frame, row: int, column: int) -> tuple[int, ...]:
    return tuple(int(value) for value in frame.pixels[row, column])


def picture(value: int, height: int = 40, width: int = 60) -> np.ndarray:
    return np.full((height, width, 3), value % 256, np.uint8)
