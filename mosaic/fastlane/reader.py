"""The reading end: attach to a run at any time, get its newest frame, outlive its writer."""

import os
import time
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

from mosaic.fastlane.frame import Frame
from mosaic.fastlane.lane_reader import LaneReader
from mosaic.fastlane.ownership import sweep_leftovers
from mosaic.fastlane.pixels import compose
from mosaic.fastlane.segment import find_lanes, lane_folders
from mosaic.runs.ids import check_run_id

# Lanes appear only when environments are made; listing folders for every frame would be wasteful.
_SCAN_NS = 250_000_000
# A quarter of the time between two frames at 60 Hz.
_POLL_S = 0.004


class FrameReader:
    """Watches one run.

    Can be opened before the run has begun to write: frames appear once it does. As long as
    `read` or `wait` is called a few times a second, the run knows that there is a viewer and
    renders; a second after the last call it stops. A run that shows several environments has
    several lanes, which are tiled into one picture.

    Args:
        run_id: The run's ULID.
        run_dir: The run's directory, where frames go when shared memory is missing or full.

    Raises:
        InvalidRunIdError: The id is not a ULID.
    """

    def __init__(self, run_id: str, *, run_dir: str | os.PathLike[str] | None = None) -> None:
        self._run_id = check_run_id(run_id)
        self._run_dir = run_dir
        self._folders = lane_folders(run_dir)
        self._lanes: dict[int, LaneReader] = {}
        self._pictures: dict[int, Frame] = {}
        self._sequence = 0
        self._scan_at = 0
        self._closed = False

    def read(self) -> Frame | None:
        """Return the newest frame if it is newer than the last one returned, else None."""
        if self._closed:
            return None
        now = time.monotonic_ns()
        news = False
        if now >= self._scan_at:
            news = self._scan()
            self._scan_at = now + _SCAN_NS
        for number, lane in self._lanes.items():
            lane.stamp(now)
            frame = lane.read()
            if frame is not None:
                self._pictures[number] = frame
                news = True
        if not news:
            return None
        self._sequence += 1
        pictures = [self._pictures[number] for number in sorted(self._pictures)]
        return replace(compose(pictures), sequence=self._sequence)

    def wait(self, timeout: float) -> Frame | None:
        """Return the next new frame, or None when `timeout` seconds pass without one."""
        deadline = time.monotonic() + timeout
        while (frame := self.read()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(_POLL_S, left))
        return frame

    @property
    def attached(self) -> bool:
        """Whether the run has, or had, a writer that this reader has found."""
        return bool(self._lanes)

    @property
    def alive(self) -> bool:
        """Whether a process that writes frames of this run is alive now."""
        return any(lane.alive for lane in self._lanes.values())

    @property
    def notice(self) -> str:
        """The writer's message, such as why there are no frames; empty if there is none."""
        notices = (lane.notice for lane in self._lanes.values())
        return next((text for text in notices if text), "")

    def close(self) -> None:
        """Detach. Files that a dead writer left behind are removed."""
        self._closed = True
        abandoned = any(not lane.check_alive() for lane in self._lanes.values())
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()
        # The run's daemon does this too; a run that was started by hand has none.
        if abandoned:
            sweep_leftovers(self._run_id, run_dir=self._run_dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _scan(self) -> bool:
        """Attach to lanes that appeared, or were made again under the same name.

        Returns:
            Whether an environment has disappeared from the picture.
        """
        found = find_lanes(self._run_id, self._folders)
        for number, path in found.items():
            current = self._lanes.get(number)
            if current is not None and current.is_file(path):
                continue
            with suppress(OSError, ValueError):
                self._lanes[number] = LaneReader(path)
                if current is not None:
                    current.close()
        # The last picture of a run stays; one closed environment among others disappears.
        gone = [number for number, lane in self._lanes.items() if not lane.alive]
        if len(gone) == len(self._lanes):
            return False
        for number in gone:
            self._lanes.pop(number).close()
        lost = [self._pictures.pop(number, None) for number in gone]
        return any(lost) and bool(self._pictures)
