"""A run's frames as messages, for viewers that do not share its machine's memory."""

from collections.abc import Callable, Iterator
from os import PathLike

from mosaic.fastlane.reader import FrameReader
from mosaic.fastlane.recorder import jpeg_frames
from mosaic.wire import trainer_pb2 as pb


def frame_messages(
    run_id: str,
    run_dir: str | PathLike[str],
    *,
    max_fps: float,
    max_dim: int,
    quality: int,
    stop: Callable[[], bool],
) -> Iterator[pb.Frame]:
    """Every new frame of a run, as JPEG.

    Args:
        run_id: The run.
        run_dir: Its directory on this machine.
        max_fps: At most this many a second; the newest are kept.
        max_dim: The longest side; 0 leaves the size as it is.
        quality: Of the JPEG.
        stop: Asked at least four times a second; True ends it.
    """
    with FrameReader(run_id, run_dir=run_dir) as reader:
        for frame, jpeg in jpeg_frames(
            reader, max_fps=max_fps, max_dim=max_dim, quality=quality, stop=stop
        ):
            yield pb.Frame(
                sequence=frame.sequence,
                jpeg=jpeg,
                width=frame.width,
                height=frame.height,
                last_reward=frame.last_reward,
                rolling_return=frame.rolling_return,
                step_rate_hz=frame.step_rate_hz,
                capped=frame.capped,
            )
