"""Calls to the daemon: the token goes along, and a refusal comes back as our own error."""

from collections.abc import Iterator
from typing import Any

import grpc

from mosaic.errors import (
    AmbiguousRunError,
    ArchiveError,
    DaemonNotRunningError,
    InvalidConfigError,
    InvalidTransitionError,
    MosaicError,
    Problem,
    RunExistsError,
    RunFileError,
    RunNotFoundError,
    StorageError,
)
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc

# Long enough for a daemon that is busy recovering thousands of runs; a call that takes longer
# means that it hangs.
_CALL_S = 30.0


class Calls:
    """An open connection to a daemon that has proved to be ours."""

    def __init__(self, channel: grpc.Channel, token: bytes) -> None:
        self._channel = channel
        # The generated stub has no types; each caller names the type of its reply.
        self._stub: Any = trainer_pb2_grpc.TrainerStub(channel)
        self._metadata = (("authorization", f"Bearer {token.decode()}"),)

    def close(self) -> None:
        """End the connection, and with it every stream over it."""
        self._channel.close()

    def unary(self, method: str, request: Any, timeout_s: float | None = _CALL_S) -> Any:
        """Call a method that has one reply.

        Raises:
            MosaicError: The daemon refused, or is gone.
        """
        try:
            return getattr(self._stub, method)(request, metadata=self._metadata, timeout=timeout_s)
        except grpc.RpcError as error:
            raise translate(error) from None

    def stream(self, method: str, request: Any) -> Iterator[Any]:
        """Call a method that has many replies; ends with the daemon's stream or its reader.

        Raises:
            MosaicError: The daemon refused, or is gone.
        """
        call = getattr(self._stub, method)(request, metadata=self._metadata)
        try:
            yield from call
        except grpc.RpcError as error:
            raise translate(error) from None
        finally:
            # A reader that stops early leaves the call open on the daemon's side otherwise.
            call.cancel()


def translate(error: grpc.RpcError) -> MosaicError:
    """The daemon's status as one of our own errors, its text unchanged."""
    code, text = error.code(), error.details() or ""
    for key, value in error.trailing_metadata() or ():
        if key == "mosaic-problems-bin":
            reply = pb.ValidateRunReply.FromString(value)
            return InvalidConfigError(
                [Problem(item.pointer, item.code, item.message) for item in reply.problems]
            )
    if code is grpc.StatusCode.NOT_FOUND:
        return RunNotFoundError(text)
    if code is grpc.StatusCode.OUT_OF_RANGE:
        return RunFileError(text)
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return AmbiguousRunError(text)
    if code is grpc.StatusCode.FAILED_PRECONDITION:
        return InvalidTransitionError(text)
    if code is grpc.StatusCode.ALREADY_EXISTS:
        return RunExistsError(text)
    if code is grpc.StatusCode.DATA_LOSS:
        return ArchiveError(text)
    if code is grpc.StatusCode.UNAVAILABLE:
        gone = "connect" in text.lower() or "socket" in text.lower()
        return DaemonNotRunningError(f"the daemon is gone: {text}") if gone else StorageError(text)
    return MosaicError(f"{code.name}: {text}")
