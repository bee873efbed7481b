"""A run's frames over the daemon's connection, for a process that cannot share its memory."""

import threading
from io import BytesIO
from types import TracebackType
from typing import Self

import numpy as np

from mosaic.client.sdk import TrainerClient
from mosaic.errors import MosaicError
from mosaic.fastlane.frame import Frame


class LiveFrames:
    """Reads like a `FrameReader`; the frames come through the daemon, shrunk to `max_dim`."""

    def __init__(
        self, trainer: TrainerClient, run_id: str, *, max_fps: float, max_dim: int
    ) -> None:
        self._trainer, self._run_id = trainer, run_id
        self._max_fps, self._max_dim = max_fps, max_dim
        self._changed = threading.Condition()
        self._newest: Frame | None = None
        self._taken = 0
        self._closed = False
        self.attached = False
        self.alive = True
        self.notice = ""
        self._thread = threading.Thread(target=self._read, name="live-frames", daemon=True)
        self._thread.start()

    def wait(self, timeout: float) -> Frame | None:
        """Return the newest frame that was not returned yet, or None after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._fresh or not self.alive, timeout)
            if not self._fresh or self._newest is None:
                return None
            self._taken = self._newest.sequence
            return self._newest

    def close(self) -> None:
        """Stop reading; the stream ends with the client that it was opened on."""
        self._closed = True
        self._trainer.close()
        self._thread.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _fresh(self) -> bool:
        return self._newest is not None and self._newest.sequence > self._taken

    def _read(self) -> None:
        from PIL import Image

        try:
            for number, record in enumerate(
                self._trainer.frames(self._run_id, max_fps=self._max_fps, max_dim=self._max_dim), 1
            ):
                pixels = np.asarray(Image.open(BytesIO(record.jpeg)).convert("RGB"))
                with self._changed:
                    self.attached = True
                    self._newest = Frame(sequence=number, pixels=pixels)
                    self._changed.notify_all()
        except MosaicError as error:
            if not self._closed:
                self.notice = str(error).splitlines()[0]
        finally:
            with self._changed:
                self.alive = False
                self._changed.notify_all()
