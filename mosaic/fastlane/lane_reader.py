"""One lane, mapped for reading."""

import os
import time
from pathlib import Path

import numpy as np

from mosaic.fastlane.frame import Frame
from mosaic.fastlane.identity import ProcessIdentity, is_running
from mosaic.fastlane.segment import (
    FLAG_CAPPED,
    MAGIC,
    PAGE,
    READER_STAMP_NS,
    SLOT_FIELDS,
    SLOT_FIELDS_AT,
    SLOT_HEADER,
    VERSION,
    Control,
    Store,
    StoreShape,
    fence,
    map_words,
    open_owned,
)

# A failed attempt means that the writer has reached the slot again. A reader that is this slow
# tries again on its next turn instead of spinning.
_ATTEMPTS = 16
# It is a look into /proc, too expensive for every frame.
_ALIVE_CHECK_NS = 200_000_000


class LaneReader:
    """Reads the newest frame of one lane.

    Args:
        path: The lane's control page.

    Raises:
        OSError: The page is gone or belongs to another user.
        ValueError: It is not (or not yet) a control page of this version.
    """

    def __init__(self, path: Path) -> None:
        self._store: _StoreView | None = None
        # Writable, because readers stamp the page.
        fd = open_owned(path, os.O_RDWR)
        try:
            self._status = os.fstat(fd)
            if self._status.st_size < PAGE:
                raise ValueError(f"{path} is not a control page yet")
            self._control, self._words = map_words(fd, PAGE, writable=True)
        finally:
            os.close(fd)
        if self._words[Control.MAGIC] != MAGIC or self._words[Control.VERSION] != VERSION:
            self.close()
            raise ValueError(f"{path} is not a control page of version {VERSION}")
        self._seen = 0
        self._stamped = 0
        self._alive = True
        self._alive_checked = 0
        self._checked_writer = 0

    def stamp(self, now_ns: int) -> None:
        """Tell the writer that there is a viewer."""
        if now_ns - self._stamped >= READER_STAMP_NS:
            self._words[Control.READER_STAMP] = self._stamped = now_ns

    def read(self) -> Frame | None:
        """Return the newest frame unless it was returned before."""
        for _ in range(_ATTEMPTS):
            newest = self._words[Control.NEWEST]
            if newest == self._seen:
                return None
            # The number first, then the store: the writer announces a larger store before it
            # counts the first frame in it.
            fence()
            store = self._current_store()
            if store is None:
                return None
            frame = store.read(newest)
            if frame is not None:
                self._seen = newest
                return frame
        return None

    @property
    def alive(self) -> bool:
        """Whether the process that writes this lane lives and has not closed it."""
        now, writer = time.monotonic_ns(), self._words[Control.PID]
        if now - self._alive_checked >= _ALIVE_CHECK_NS or writer != self._checked_writer:
            self._alive_checked, self._checked_writer = now, writer
            self._alive = self.check_alive()
        return self._alive

    def check_alive(self) -> bool:
        """The same as `alive`, looked up now."""
        words = self._words
        owner = ProcessIdentity(words[Control.PID], words[Control.START_TICKS], words[Control.BOOT])
        return not words[Control.CLOSED] and is_running(owner)

    @property
    def notice(self) -> str:
        """The writer's sentence to its readers; empty when there is none."""
        return self._text(Control.NOTICE_LENGTH, Control.NOTICE_AT, Control.NOTICE_SIZE)

    def is_file(self, path: Path) -> bool:
        """Whether this name still means the page that is mapped here."""
        try:
            return os.path.samestat(self._status, os.stat(path, follow_symlinks=False))
        except OSError:
            return False

    def close(self) -> None:
        """Unmap everything."""
        self._drop_store()
        self._words.release()
        self._control.close()

    def _drop_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _current_store(self) -> "_StoreView | None":
        generation = self._words[Control.GENERATION]
        if self._store is not None and self._store.generation == generation:
            return self._store
        path = self._text(Control.STORE_LENGTH, Control.STORE_AT, Control.STORE_SIZE)
        try:
            fresh = _StoreView(path, generation)
        except (OSError, ValueError):
            # The writer is changing stores at this moment, or has removed them and gone.
            return None
        self._drop_store()
        self._store = fresh
        return fresh

    def _text(self, length_word: int, at: int, size: int) -> str:
        length = min(self._words[length_word], size)
        fence()
        return self._control[at : at + length].decode(errors="replace")


class _StoreView:
    """A frame store, mapped for reading."""

    def __init__(self, path: str, generation: int) -> None:
        fd = open_owned(path, os.O_RDONLY)
        try:
            size = os.fstat(fd).st_size
            if size < PAGE:
                raise ValueError(f"{path} is too short for a frame store")
            self._mapping, self._words = map_words(fd, size, writable=False)
        finally:
            os.close(fd)
        self.generation = generation
        self._pid = self._words[Store.PID]
        self._shape = StoreShape(self._words[Store.SLOTS], self._words[Store.CAPACITY])
        labelled = (self._words[Store.MAGIC], self._words[Store.VERSION])
        if (
            labelled != (MAGIC, VERSION)
            or self._words[Store.GENERATION] != generation
            or self._shape.slots == 0
            or self._shape.size > size
        ):
            self.close()
            raise ValueError(f"{path} is not the frame store of generation {generation}")

    def read(self, index: int) -> Frame | None:
        """Return the frame of this index, or None when it is torn or already overwritten."""
        at = self._shape.slot_at(index)
        whole = 2 * index + 2
        if self._words[at // 8] != whole:
            return None
        fence()
        fields = SLOT_FIELDS.unpack_from(self._mapping, at + SLOT_FIELDS_AT)
        _, width, height, last_reward, rolling_return, step_rate_hz, step, flags = fields
        length = width * height * 3
        # Checked before the copy: the fields of a torn slot may say anything.
        if not 0 < length <= self._shape.capacity:
            return None
        start = at + SLOT_HEADER
        pixels = np.frombuffer(self._mapping, np.uint8, length, start).copy()
        fence()
        if self._words[at // 8] != whole:
            return None
        return Frame(
            sequence=index,
            pixels=pixels.reshape(height, width, 3),
            last_reward=last_reward,
            rolling_return=rolling_return,
            step_rate_hz=step_rate_hz,
            step=step,
            capped=bool(flags & FLAG_CAPPED),
            writer_pid=self._pid,
        )

    def close(self) -> None:
        self._words.release()
        self._mapping.close()
