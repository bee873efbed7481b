"""Videos of environments that have no Gymnasium wrapper to record them."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.types import Array

_FRAMES_PER_SECOND = 15
_SMALLEST = 320
# Like Gymnasium's recorder: the first episodes often, then every thousandth.
_EVERY = 1000


class _VideoWriter(Protocol):
    """What is used of imageio, which is optional."""

    def append_data(self, picture: Array) -> object: ...

    def close(self) -> object: ...


class Film:
    """Records episodes 0, 1, 8, 27, ... 1000, 2000, ... into a folder."""

    def __init__(self, folder: str) -> None:
        try:
            import imageio
        except ModuleNotFoundError:
            raise UsageError(
                "Recording videos needs imageio: pip install imageio imageio-ffmpeg, or leave "
                "--capture-video out."
            ) from None
        self._open = imageio.get_writer
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._episode = 0
        self._writer: _VideoWriter | None = None
        self._begin()

    def frame(self, picture: Array) -> None:
        """Add one picture, enlarged until it can be seen."""
        if self._writer is not None:
            factor = max(1, -(-_SMALLEST // max(picture.shape[:2])))
            self._writer.append_data(picture.repeat(factor, 0).repeat(factor, 1))

    def episode_ended(self) -> None:
        """Finish this episode's film and begin the next one if it is to be recorded."""
        self.close()
        self._episode += 1
        self._begin()

    def close(self) -> None:
        """Finish the film."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _begin(self) -> None:
        root = round(self._episode ** (1 / 3))
        if root**3 == self._episode < _EVERY or self._episode % _EVERY == 0:
            path = self._folder / f"rl-video-episode-{self._episode}.mp4"
            self._writer = self._open(path, fps=_FRAMES_PER_SECOND, macro_block_size=1)
