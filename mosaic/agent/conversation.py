"""An agent's calls to the daemon: what it says, and what it is answered."""

import json
from collections.abc import Iterator
from typing import cast

import grpc

from mosaic.agent.mirror import Piece
from mosaic.agent.orders import Launch, Order, address_of
from mosaic.connect.channel import open_channel
from mosaic.errors import AgentOverError, DaemonAwayError, MosaicError
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc

# A daemon that hangs is asked again; a megabyte over a slow line takes its time.
_PATIENCE_S = 60.0
# The daemon is away, busy or has no room: later it is not.
_AWAY = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.CANCELLED,
    }
)


class Conversation:
    """The calls of one agent, in its run's name."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._channel = open_channel(address_of(order))
        self._stub = trainer_pb2_grpc.TrainerStub(self._channel)

    def turn(
        self, lease: str, worker: str, pieces: list[Piece], removed: list[str]
    ) -> pb.AgentTurnReply:
        """Say what is new; hear what to do.

        Raises:
            DaemonAwayError: No answer; the same can be said again.
            AgentOverError: The run needs this agent no more.
        """
        request = pb.AgentTurnRequest(
            run_id=self.order["run_id"],
            attempt=self.order["attempt"],
            job=self.order["job"],
            lease=lease,
            worker=worker,
            pieces=[
                pb.AgentPiece(
                    path=piece.path,
                    offset=piece.offset,
                    data=piece.data,
                    appends=piece.appends,
                    sha256=piece.sha256,
                    size=piece.size,
                )
                for piece in pieces
            ],
            removed=removed,
        )
        try:
            reply: pb.AgentTurnReply = self._stub.AgentTurn(
                request, metadata=self._metadata(), timeout=_PATIENCE_S
            )
        except grpc.RpcError as error:
            raise _meaning(error) from None
        if reply.over:
            raise AgentOverError("the run needs this agent no more")
        return reply

    def fetch(self, path: str) -> Iterator[bytes]:
        """A file that the launch names.

        Raises:
            DaemonAwayError: No answer; it can be asked for again.
            AgentOverError: The run needs this agent no more.
        """
        try:
            for chunk in self._stub.AgentFetch(
                pb.AgentFetchRequest(path=path), metadata=self._metadata()
            ):
                yield chunk.data
        except grpc.RpcError as error:
            raise _meaning(error) from None

    def send_frames(self, frames: Iterator[pb.Frame]) -> None:
        """Send pictures until there are no more, or the daemon wants none.

        Raises:
            DaemonAwayError: The daemon does not take them.
            AgentOverError: The run needs this agent no more.
        """
        try:
            self._stub.AgentFrames(frames, metadata=self._metadata())
        except grpc.RpcError as error:
            raise _meaning(error) from None

    def close(self) -> None:
        """End every call."""
        self._channel.close()

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return (
            ("authorization", f"Bearer {self.order['key']}"),
            ("mosaic-run-id", self.order["run_id"]),
        )


def read_launch(text: str) -> Launch:
    """What is to be started, as the daemon wrote it."""
    return cast(Launch, json.loads(text))


def _meaning(error: grpc.RpcError) -> MosaicError:
    text = f"{error.code().name.lower()}: {error.details()}"
    return DaemonAwayError(text) if error.code() in _AWAY else AgentOverError(text)
