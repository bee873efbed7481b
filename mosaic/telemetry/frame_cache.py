"""A small cache of frames by name, shared by the event loop and its helper threads."""

import threading

FRAME_CACHE_BYTES = 8 * 1024 * 1024


class FrameCache:
    """Keeps the newest frames up to a total size."""

    def __init__(self, limit: int = FRAME_CACHE_BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._frames: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> bytes:
        """The frame, or nothing."""
        with self._lock:
            return self._frames.get(name, b"")

    def keep(self, name: str, frame: bytes) -> None:
        """Remember a frame, forgetting the oldest ones when there is no room."""
        with self._lock:
            if not frame or name in self._frames:
                return
            self._frames[name] = frame
            self._size += len(frame)
            while self._size > self._limit:
                self._size -= len(self._frames.pop(next(iter(self._frames))))
