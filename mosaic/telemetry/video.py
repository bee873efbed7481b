"""A replayed episode as an MP4 file."""

import io
import subprocess
from collections.abc import Iterable
from pathlib import Path

from mosaic.errors import NoPicturesError, VideoToolMissingError
from mosaic.telemetry.replay import ReplayStep, picture_of


def write_video(steps: Iterable[ReplayStep], path: Path, fps: float = 10.0) -> int:
    """Encode the frames of an episode; returns how many were written.

    Raises:
        NoPicturesError: No step has a frame or a grid.
        VideoToolMissingError: imageio-ffmpeg or Pillow is missing, or the encoder failed.
    """
    try:
        import imageio_ffmpeg
        from PIL import Image
    except ImportError as error:
        raise VideoToolMissingError(
            f"writing a video needs {error.name}: pip install imageio-ffmpeg pillow"
        ) from error
    pictures = [picture for step in steps if (picture := picture_of(step))]
    if not pictures:
        raise NoPicturesError(
            "this episode has no frames: record with frames on, or replay it as a table"
        )
    images = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in pictures]
    first = images[0].size
    size = first[0] + first[0] % 2, first[1] + first[1] % 2  # the encoder wants even sides

    def on_canvas(image: Image.Image) -> bytes:
        canvas = Image.new("RGB", size)
        canvas.paste(image if image.size == first else image.resize(first))
        return canvas.tobytes()

    _encode(imageio_ffmpeg.get_ffmpeg_exe(), map(on_canvas, images), size, path, fps)
    return len(images)


def _encode(
    encoder: str, frames: Iterable[bytes], size: tuple[int, int], path: Path, fps: float
) -> None:
    """Pipe raw frames through ffmpeg.

    Not with imageio's own writer: it runs Python code in the child between fork and exec. In a
    process with gRPC threads, as every client of the daemon is, the child may die of that.
    """
    picture = [
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        f"{size[0]}x{size[1]}",
        "-r",
        f"{fps:g}",
    ]
    film = ["-an", "-vcodec", "libx264", "-pix_fmt", "yuv420p", "-crf", "25", "-v", "error"]
    command = [encoder, "-y", *picture, "-i", "-", *film, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        try:
            for frame in frames:
                process.stdin.write(frame)
        except BrokenPipeError:
            pass  # it has ended; what it says is read below
        _, complaint = process.communicate()
    if process.returncode:
        raise VideoToolMissingError(
            f"the video could not be written: {complaint.decode(errors='replace').strip()}"
        )
