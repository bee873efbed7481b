"""What the daemon raises is what its client raises: the same class with the same text."""

import ast
import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from support.patience import PATIENCE_S
from support.trainer import Trainer

from mosaic import errors
from mosaic.client.calls import Calls
from mosaic.connect.failures import STATUS, from_failure
from mosaic.errors import (
    AccessDeniedError,
    DaemonNotRunningError,
    InvalidArgumentError,
    InvalidConfigError,
    MosaicError,
    Problem,
    RunNotFoundError,
    StorageError,
)
from mosaic.trainer.api.translator import ErrorTranslator
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc

ROOT = Path(errors.__file__).parent
TEXT = "what was wrong, what is allowed – and “the command” that helps"
PROBLEMS = [Problem("/a/b", "CFG104", "too large"), Problem("", "CFG101", "missing")]


def _raise(name: str) -> None:
    if name == "OSError":
        raise OSError(28, "No space left on device")
    kind: type[MosaicError] = getattr(errors, name)
    if kind is InvalidConfigError:
        raise InvalidConfigError(PROBLEMS)
    raise kind(TEXT)


class _Faulty(trainer_pb2_grpc.TrainerServicer):
    """Raises what its caller names, in a call and in a stream."""

    async def GetRun(self, request: pb.GetRunRequest, _: Any) -> pb.Run:  # noqa: N802
        _raise(request.run_id)
        raise AssertionError("unreachable")

    async def StreamRunLogs(  # noqa: N802
        self, request: pb.StreamRunLogsRequest, _: Any
    ) -> AsyncIterator[pb.LogChunk]:
        yield pb.LogChunk(text="first")
        _raise(request.run_id)


@pytest.fixture(scope="module")
def calls() -> Iterator[Calls]:
    """A client of a real server that has the daemon's translator and faulty handlers."""
    ready: list[int] = []
    started, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        server = grpc.aio.server(interceptors=[ErrorTranslator()])
        trainer_pb2_grpc.add_TrainerServicer_to_server(_Faulty(), server)
        ready.append(server.add_insecure_port("127.0.0.1:0"))
        await server.start()
        started.set()
        await asyncio.to_thread(stop.wait)
        await server.stop(None)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert started.wait(PATIENCE_S)
    client = Calls(grpc.insecure_channel(f"127.0.0.1:{ready[0]}"), b"token")
    yield client
    client.close()
    stop.set()
    thread.join(PATIENCE_S)


@pytest.mark.parametrize("kind", [kind for kind, _ in STATUS])
def test_every_error_arrives_as_it_was_raised(calls: Calls, kind: type[MosaicError]) -> None:
    """A program that catches one of our errors catches it from another process too."""
    with pytest.raises(MosaicError) as raised:
        calls.unary("GetRun", pb.GetRunRequest(run_id=kind.__name__))
    stream = calls.stream("StreamRunLogs", pb.StreamRunLogsRequest(run_id=kind.__name__))
    assert next(stream).text == "first"
    with pytest.raises(MosaicError) as raised_later:
        next(stream)
    for error in (raised.value, raised_later.value):
        assert type(error) is kind
        if isinstance(error, InvalidConfigError):
            assert list(error.problems) == PROBLEMS
        else:
            assert str(error) == TEXT


def test_a_disk_that_refuses_is_a_storage_error(calls: Calls) -> None:
    """A full disk under the daemon says so at the client, and is no bug of the daemon."""
    with pytest.raises(StorageError, match="No space left on device"):
        calls.unary("GetRun", pb.GetRunRequest(run_id="OSError"))


def test_no_answer_at_all_is_no_daemon() -> None:
    """A status that gRPC made itself is told apart by what it lacks, not by its words."""
    with grpc.insecure_channel("127.0.0.1:1") as channel:
        stub = trainer_pb2_grpc.TrainerStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            stub.GetRun(pb.GetRunRequest(), timeout=PATIENCE_S)
        assert isinstance(from_failure(refused.value), DaemonNotRunningError)


def test_the_daemon_says_which_argument_is_wrong(trainer: Trainer) -> None:
    """A bad pattern or sort key is called that, and is not mistaken for an ambiguous run id."""
    run_id = trainer.submit("short")
    with pytest.raises(InvalidArgumentError, match="not a regular expression"):
        list(trainer.client.logs(run_id, grep="("))
    with pytest.raises(InvalidArgumentError, match="allowed: created_at"):
        trainer.client.list_runs(sort="colour")
    with pytest.raises(RunNotFoundError):
        trainer.client.get("01ZZZ")
    with pytest.raises(RunNotFoundError):
        list(trainer.client.steps("01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    trainer.ended(run_id)


def test_a_wrong_token_is_refused_by_name(trainer: Trainer) -> None:
    """A client with the token of another home learns that this is the reason."""
    stranger = Calls(trainer.client._calls._channel, b"not the token")
    with pytest.raises(AccessDeniedError, match="the token is missing or invalid"):
        stranger.unary("GetRun", pb.GetRunRequest(run_id="last"))


def test_all_errors_have_one_base_and_one_place() -> None:
    """Whoever catches MosaicError catches everything that is raised on purpose."""
    public = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, BaseException)
    ]
    assert [kind for kind in public if not issubclass(kind, MosaicError)] == []
    strays = []
    for path in sorted(ROOT.rglob("*.py")):
        if path.name == "errors.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                bases = [ast.unparse(base) for base in node.bases]
                if any(base.endswith(("Error", "Exception")) for base in bases):
                    strays.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert strays == []
