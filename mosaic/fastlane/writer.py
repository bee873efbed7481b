"""The writing end of a lane: never waits for a reader, never fails because of one."""

import errno
import mmap
import os
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from mosaic.errors import BadFrameError, NoRoomForFramesError
from mosaic.fastlane.frame import FrameMetrics, Pixels
from mosaic.fastlane.identity import ProcessIdentity, this_process
from mosaic.fastlane.ownership import lock_control_page, remove_stores
from mosaic.fastlane.segment import (
    FLAG_CAPPED,
    MAGIC,
    PAGE,
    READER_EXPIRES_NS,
    SLOT_FIELDS,
    SLOT_FIELDS_AT,
    SLOT_HEADER,
    SLOTS,
    VERSION,
    Control,
    Store,
    StoreShape,
    fence,
    find_lanes,
    lane_folders,
    lane_prefix,
    map_words,
    open_owned,
)


class LaneWriter:
    """Publishes frames on one lane of a run.

    Opening claims the lane: as long as this object lives, no other process can write it. A
    lane left behind by a dead process is taken over, and its readers stay attached.

    Args:
        run_id: The run's ULID.
        lane: Number of the lane, 0 for the first.
        run_dir: The run's directory, used when shared memory is missing or full.

    Raises:
        LaneTakenError: Another live process writes this lane.
        NoRoomForFramesError: No folder can hold the control page.
    """

    def __init__(
        self, run_id: str, lane: int = 0, *, run_dir: str | os.PathLike[str] | None = None
    ) -> None:
        self.lane = lane
        self._run_id = run_id
        self._folders = lane_folders(run_dir)
        self._name = f"{lane_prefix(run_id)}{lane}"
        self._identity = this_process()
        self._store: _StoreMapping | None = None
        self._store_path = ""
        self._path, self._lock_fd = self._claim()
        try:
            self._control, self._words = self._map_control()
        except BaseException:
            os.close(self._lock_fd)
            raise

    def watched(self, now_ns: int | None = None) -> bool:
        """Tell whether a reader has looked within the last second."""
        now = time.monotonic_ns() if now_ns is None else now_ns
        # A stamp from the future was made before a reboot: that viewer is gone.
        return -READER_EXPIRES_NS < now - self._words[Control.READER_STAMP] < READER_EXPIRES_NS

    def publish(self, pixels: Pixels, metrics: FrameMetrics) -> int:
        """Write one frame and make it the newest.

        Args:
            pixels: Height × width × 3, 8 bits each; copied before the call returns.
            metrics: The numbers that travel with it.

        Returns:
            The frame's index; indices grow by one.

        Raises:
            BadFrameError: The array has another shape or type.
            NoRoomForFramesError: No folder has room for frames of this size.
        """
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8 or not pixels.size:
            raise BadFrameError(
                f"a frame is height × width × 3 of uint8, not {pixels.shape} of {pixels.dtype}"
            )
        if self._store is None or pixels.nbytes > self._store.shape.capacity:
            self._grow(pixels.nbytes)
        assert self._store is not None
        index = self._words[Control.NEWEST] + 1
        self._store.write(index, pixels, metrics)
        # Counted last: a reader that sees the number finds a whole frame.
        fence()
        self._words[Control.NEWEST] = index
        return index

    def lane_count(self) -> int:
        """How many lanes the run has now, this one included."""
        return max(1, len(find_lanes(self._run_id, self._folders)))

    def notice(self, text: str) -> None:
        """Leave one sentence for readers, such as why there are no frames."""
        _write_text(
            self._control, self._words, Control.NOTICE_LENGTH, Control.NOTICE_AT,
            Control.NOTICE_SIZE, text,
        )  # fmt: skip

    def close(self) -> None:
        """Say goodbye to readers and remove the lane's files."""
        if self._lock_fd < 0:
            return
        if os.getpid() != self._identity.pid:
            self.abandon()
            return
        self._words[Control.CLOSED] = 1
        # While the lock is held: afterwards these names may belong to the next writer.
        for path in (self._store_path, self._path):
            with suppress(OSError):
                os.unlink(path)
        self.abandon()

    def abandon(self) -> None:
        """Unmap without touching the files, as a forked child must with its parent's lane."""
        if self._lock_fd < 0:
            return
        if self._store is not None:
            self._store.release()
            self._store = None
        self._words.release()
        self._control.close()
        os.close(self._lock_fd)
        self._lock_fd = -1

    def __del__(self) -> None:
        if getattr(self, "_lock_fd", -1) >= 0:
            self.close()

    def _claim(self) -> tuple[str, int]:
        refusals = []
        for folder in self._folders:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                path = str(folder / self._name)
                return path, lock_control_page(path)
            except OSError as error:
                refusals.append(f"{folder}: {error.strerror or error}")
        raise NoRoomForFramesError(
            f"no folder can hold shared frames ({'; '.join(refusals)}); free some space or set "
            "MOSAIC_FASTLANE_DIR to a folder that can be written"
        )

    def _map_control(self) -> tuple[mmap.mmap, memoryview]:
        # Mapped from a descriptor of its own: a mapping keeps its descriptor open, and the
        # lock must go when `_lock_fd` is closed.
        fd = open_owned(self._path, os.O_RDWR)
        try:
            control, words = map_words(fd, PAGE, writable=True)
        finally:
            os.close(fd)
        # The page of a dead writer is kept, so that its numbers continue and readers that are
        # attached see the next frame. Only its frames are removed.
        if words[Control.MAGIC] == MAGIC and words[Control.VERSION] == VERSION:
            remove_stores(self._folders, self._name)
        else:
            control[:PAGE] = bytes(PAGE)
        words[Control.CLOSED] = 0
        words[Control.NOTICE_LENGTH] = 0
        words[Control.PID], words[Control.START_TICKS], words[Control.BOOT] = self._identity
        words[Control.VERSION] = VERSION
        # Last: readers refuse a page without it, so none sees a page that is half filled in.
        fence()
        words[Control.MAGIC] = MAGIC
        return control, words

    def _grow(self, frame_bytes: int) -> None:
        generation = self._words[Control.GENERATION] + 1
        shape = StoreShape(SLOTS, -(-frame_bytes // PAGE) * PAGE)
        store_path = self._allocate(shape, generation)
        replaced, self._store = self._store, _StoreMapping(store_path, shape)
        self._store.label(generation, self._identity)
        replaced_path, self._store_path = self._store_path, store_path
        _write_text(
            self._control, self._words, Control.STORE_LENGTH, Control.STORE_AT,
            Control.STORE_SIZE, store_path,
        )  # fmt: skip
        # After the path: a reader that sees the new number must not open the old store.
        fence()
        self._words[Control.GENERATION] = generation
        if replaced is not None:
            replaced.release()
            with suppress(OSError):
                os.unlink(replaced_path)

    def _allocate(self, shape: StoreShape, generation: int) -> str:
        """Reserve every byte now: writing to a page that a full disk cannot give is fatal."""
        refusals = []
        for folder in self._folders:
            path = str(folder / f"{self._name}.{generation}")
            try:
                folder.mkdir(parents=True, exist_ok=True)
                _leave_half(folder, shape.size)
                with suppress(FileNotFoundError):
                    os.unlink(path)
                fd = open_owned(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
                try:
                    os.posix_fallocate(fd, 0, shape.size)
                except OSError:
                    os.unlink(path)
                    raise
                finally:
                    os.close(fd)
                return path
            except OSError as error:
                refusals.append(f"{folder}: {error.strerror or error}")
        raise NoRoomForFramesError(
            f"no room for {shape.size / 1e6:.1f} MB of frames ({'; '.join(refusals)}); free some "
            "space, or ask for smaller frames"
        )


class _StoreMapping:
    """A frame store, mapped for writing."""

    def __init__(self, path: str, shape: StoreShape) -> None:
        fd = open_owned(path, os.O_RDWR)
        try:
            self._mapping, self._words = map_words(fd, shape.size, writable=True)
        finally:
            os.close(fd)
        self.shape = shape
        self._bytes = np.frombuffer(self._mapping, np.uint8)

    def label(self, generation: int, identity: ProcessIdentity) -> None:
        words = self._words
        words[Store.GENERATION], words[Store.VERSION] = generation, VERSION
        words[Store.PID], words[Store.START_TICKS] = identity.pid, identity.start_ticks
        words[Store.SLOTS], words[Store.CAPACITY] = self.shape.slots, self.shape.capacity
        # Last: a store without it is still being made.
        words[Store.MAGIC] = MAGIC

    def write(self, index: int, pixels: Pixels, metrics: FrameMetrics) -> None:
        at = self.shape.slot_at(index)
        height, width, _ = pixels.shape
        # An odd number says "being written", an even one "whole". A reader takes the number
        # before and after its copy; the fences keep the processor from moving the pixels across.
        self._words[at // 8] = 2 * index + 1
        fence()
        SLOT_FIELDS.pack_into(
            self._mapping, at + SLOT_FIELDS_AT, index, width, height, metrics.last_reward,
            metrics.rolling_return, metrics.step_rate_hz, metrics.step,
            FLAG_CAPPED if metrics.capped else 0,
        )  # fmt: skip
        start = at + SLOT_HEADER
        np.copyto(self._bytes[start : start + pixels.nbytes].reshape(pixels.shape), pixels)
        fence()
        self._words[at // 8] = 2 * index + 2

    def release(self) -> None:
        del self._bytes
        self._words.release()
        self._mapping.close()


def _leave_half(folder: Path, size: int) -> None:
    """Refuse to take more than half of what is left: the run has better uses for it."""
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if size > free // 2:
        raise OSError(errno.ENOSPC, f"only {free / 1e6:.1f} MB free")


def _write_text(
    mapping: mmap.mmap, words: memoryview, length_word: int, at: int, size: int, text: str
) -> None:
    data = text.encode()[:size]
    # Length 0 while the text changes: a reader sees no text rather than half of two.
    words[length_word] = 0
    fence()
    mapping[at : at + len(data)] = data
    fence()
    words[length_word] = len(data)
