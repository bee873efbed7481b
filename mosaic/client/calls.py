"""Calls to the daemon: the token goes along, and a refusal comes back as our own error."""

from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf.message import Message

from mosaic.connect.failures import from_failure
from mosaic.errors import DaemonNotRunningError
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc

# Long enough for a daemon that is busy recovering thousands of runs; a call that takes longer
# means that it hangs.
_CALL_S = 30.0
# How often a call without a limit of its own looks whether the daemon still answers.
_LOOK_S = 10.0


class Calls:
    """An open connection to a daemon that has proved to be ours."""

    def __init__(self, channel: grpc.Channel, token: bytes) -> None:
        self._channel = channel
        self._closed = False
        # The generated stub has no types; each caller names the type of its reply.
        self._stub: Any = trainer_pb2_grpc.TrainerStub(channel)
        self._metadata = (("authorization", f"Bearer {token.decode()}"),)

    def close(self) -> None:
        """End the connection, and with it every stream over it."""
        # Noted before the channel closes: gRPC itself would raise a plain ValueError for a later
        # call.
        self._closed = True
        self._channel.close()

    def unary(
        self, method: str, request: Message | Iterator[Message], timeout_s: float | None = _CALL_S
    ) -> Any:
        """Call a method that has one reply; several messages may lead to it.

        Raises:
            MosaicError: The daemon refused, or is gone.
        """
        self._refuse_closed()
        try:
            return getattr(self._stub, method)(request, metadata=self._metadata, timeout=timeout_s)
        except grpc.RpcError as error:
            # Closed while it waited in another thread: gRPC calls that cancelled.
            self._refuse_closed()
            raise from_failure(error) from None

    def unary_while_alive(self, method: str, request: Message) -> Any:
        """Call a method whose limit is the daemon's to set, as long as the daemon answers.

        A worker checks the configuration of a run, for as long as `check_timeout_s` allows. A
        caller that left sooner would not learn what became of the run.

        Raises:
            MosaicError: The daemon refused, hangs, or is gone.
        """
        self._refuse_closed()
        call = getattr(self._stub, method).future(request, metadata=self._metadata)
        try:
            while True:
                try:
                    return call.result(_LOOK_S)
                except grpc.FutureTimeoutError:
                    self.unary("GetHealth", pb.GetHealthRequest(), _CALL_S)
        except (grpc.RpcError, grpc.FutureCancelledError):
            # Closed while it waited in another thread: gRPC calls that cancelled.
            self._refuse_closed()
            raise from_failure(call) from None
        finally:
            call.cancel()

    def stream(
        self, method: str, request: Message, timeout_s: float | None = None
    ) -> Iterator[Any]:
        """Call a method that has many replies; ends with the daemon's stream or its reader.

        Raises:
            MosaicError: The daemon refused, or is gone.
            TimeoutError: `timeout_s` have passed.
        """
        self._refuse_closed()
        call = getattr(self._stub, method)(request, metadata=self._metadata, timeout=timeout_s)
        try:
            yield from call
        except grpc.RpcError as error:
            self._refuse_closed()
            if timeout_s is not None and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise TimeoutError(f"{method} took longer than {timeout_s:g} s") from None
            raise from_failure(error) from None
        finally:
            # A reader that stops early leaves the call open on the daemon's side otherwise.
            call.cancel()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise DaemonNotRunningError("this client is closed; connect again")
