"""Live pictures from the agent's machine, for as long as someone watches."""

import threading
from collections.abc import Iterator
from contextlib import suppress

from mosaic.agent.conversation import Conversation
from mosaic.errors import MosaicError
from mosaic.runs.directory import RunDirectory
from mosaic.wire import trainer_pb2 as pb


class FrameSender:
    """A thread that reads the run's shared memory and sends what it finds."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def follow(self, reply: pb.AgentTurnReply, talk: Conversation) -> None:
        """Begin or end, as the daemon's newest answer says."""
        if not reply.HasField("frames"):
            self._stop.set()
            return
        if self._thread is not None and self._thread.is_alive():
            return
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._send, args=(talk, reply.frames, self._stop), name="frames", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()

    def _send(self, talk: Conversation, wish: pb.AgentFrameWish, stop: threading.Event) -> None:
        # The next answer of the daemon begins it again if someone still watches.
        with suppress(MosaicError, ValueError, OSError):
            talk.send_frames(self._pictures(wish, stop))

    def _pictures(self, wish: pb.AgentFrameWish, stop: threading.Event) -> Iterator[pb.Frame]:
        # Here: NumPy and Pillow are for runs that someone watches.
        from mosaic.fastlane.messages import frame_messages

        yield from frame_messages(
            self._run.path.name,
            self._run.path,
            max_fps=wish.max_fps,
            max_dim=wish.max_dim,
            quality=wish.jpeg_quality,
            stop=stop.is_set,
        )
