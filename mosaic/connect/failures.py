"""How our errors cross the wire, in both directions.

One table gives each error its gRPC status, for callers that know nothing of MOSAIC. The class
itself travels by name in a trailer, so that a client raises exactly what the daemon raised. A
status without that trailer was not sent by our daemon: gRPC made it, because nothing answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import grpc

from mosaic.errors import (
    AccessDeniedError,
    AmbiguousRunError,
    ArchiveError,
    DaemonNotRunningError,
    InvalidArgumentError,
    InvalidConfigError,
    InvalidRunIdError,
    InvalidTransitionError,
    MosaicError,
    NotRecordedError,
    Problem,
    RunDamagedError,
    RunExistsError,
    RunFileError,
    RunNotFoundError,
    SecretError,
    StorageError,
    StoreDamagedError,
    StoreVersionError,
)
from mosaic.wire import trainer_pb2 as pb

# The first class that fits counts, so a subclass comes before its base.
STATUS: tuple[tuple[type[MosaicError], grpc.StatusCode], ...] = (
    (InvalidConfigError, grpc.StatusCode.INVALID_ARGUMENT),
    (InvalidArgumentError, grpc.StatusCode.INVALID_ARGUMENT),
    (InvalidRunIdError, grpc.StatusCode.INVALID_ARGUMENT),
    (AmbiguousRunError, grpc.StatusCode.INVALID_ARGUMENT),
    (RunNotFoundError, grpc.StatusCode.NOT_FOUND),
    (NotRecordedError, grpc.StatusCode.NOT_FOUND),
    (RunFileError, grpc.StatusCode.OUT_OF_RANGE),
    (InvalidTransitionError, grpc.StatusCode.FAILED_PRECONDITION),
    (RunDamagedError, grpc.StatusCode.FAILED_PRECONDITION),
    (SecretError, grpc.StatusCode.FAILED_PRECONDITION),
    (StoreVersionError, grpc.StatusCode.FAILED_PRECONDITION),
    (StorageError, grpc.StatusCode.UNAVAILABLE),
    (RunExistsError, grpc.StatusCode.ALREADY_EXISTS),
    (ArchiveError, grpc.StatusCode.DATA_LOSS),
    (StoreDamagedError, grpc.StatusCode.DATA_LOSS),
    (AccessDeniedError, grpc.StatusCode.UNAUTHENTICATED),
    (MosaicError, grpc.StatusCode.INTERNAL),
)
ERROR_TRAILER = "mosaic-error"
PROBLEMS_TRAILER = "mosaic-problems-bin"
# The last problem of a refusal whose list did not fit; `ValidateRun` gives it whole.
LIST_IS_CUT = "CFG199"

_CLASSES = {kind.__name__: kind for kind, _ in STATUS}
# gRPC carries both in headers, whose sum must stay below 8 KB; text is percent-encoded there.
_MAX_DETAILS, _MAX_TRAILER = 1000, 3500
_RETRY_AFTER = ("retry-after", "1")

Trailers = tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as gRPC sends it."""

    code: grpc.StatusCode
    details: str
    trailers: Trailers


def to_failure(error: MosaicError | OSError) -> Failure:
    """What to send for an error; one of the operating system counts as the disk's refusal."""
    ours = error if isinstance(error, MosaicError) else StorageError(str(error))
    kind, code = next(item for item in STATUS if isinstance(ours, item[0]))
    trailers: list[tuple[str, str | bytes]] = [(ERROR_TRAILER, kind.__name__)]
    if code is grpc.StatusCode.UNAVAILABLE:
        trailers.append(_RETRY_AFTER)
    if isinstance(ours, InvalidConfigError):
        trailers.append((PROBLEMS_TRAILER, _pack_problems(ours.problems)))
    details = str(ours).encode()[:_MAX_DETAILS].decode(errors="ignore")
    return Failure(code, details, tuple(trailers))


def from_failure(error: grpc.RpcError) -> MosaicError:
    """The error that the daemon raised, its text unchanged."""
    code, text = error.code(), error.details() or ""
    trailers = dict(error.trailing_metadata() or ())
    name = trailers.get(ERROR_TRAILER)
    if name is None:
        return _not_from_us(code, text)
    kind = _CLASSES.get(str(name), MosaicError)
    if issubclass(kind, InvalidConfigError):
        return kind(_unpack_problems(bytes(trailers.get(PROBLEMS_TRAILER, b""))))
    return kind(text)


async def abort(context: grpc.aio.ServicerContext, error: MosaicError | OSError) -> NoReturn:
    """End a call with an error; never returns."""
    failure = to_failure(error)
    await context.abort(failure.code, failure.details, failure.trailers)
    raise AssertionError("gRPC's own abort raises")


def problem_messages(problems: Sequence[Problem]) -> list[pb.Problem]:
    """Problems as messages."""
    return [
        pb.Problem(pointer=item.pointer, code=item.code, message=item.message) for item in problems
    ]


def read_problems(reply: pb.ValidateRunReply) -> list[Problem]:
    """Problems from a message."""
    return [Problem(item.pointer, item.code, item.message) for item in reply.problems]


def _not_from_us(code: grpc.StatusCode, text: str) -> MosaicError:
    if code is grpc.StatusCode.UNAVAILABLE:
        return DaemonNotRunningError(f"the daemon is gone: {text}")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return MosaicError(f"the daemon did not answer in time: {text}")
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return AccessDeniedError(text)
    return MosaicError(f"{code.name}: {text}")


def _pack_problems(problems: Sequence[Problem]) -> bytes:
    """As many problems as fit into a trailer; the last one says when there are more."""
    messages = problem_messages(problems)
    shown = len(messages)
    while True:
        reply = pb.ValidateRunReply(problems=messages[:shown])
        if shown < len(messages):
            text = f"{len(messages) - shown} more problems; ValidateRun lists them all"
            reply.problems.append(pb.Problem(code=LIST_IS_CUT, message=text))
        content = reply.SerializeToString()
        if len(content) <= _MAX_TRAILER:
            return content
        # By steps and not one by one: a list of a thousand problems would be packed a thousand
        # times.
        shown = shown * 3 // 4


def _unpack_problems(content: bytes) -> list[Problem]:
    return read_problems(pb.ValidateRunReply.FromString(content))
