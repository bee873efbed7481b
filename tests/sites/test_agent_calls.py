"""What an agent or a worker on another machine may ask of the daemon, and what it is refused."""

from collections.abc import Iterator

import grpc
import pytest
from support.trainer import Trainer

from mosaic.connect import auth
from mosaic.connect.channel import open_channel
from mosaic.connect.endpoint import find_endpoint
from mosaic.runs.ids import new_run_id
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc
from mosaic.workers.capabilities import PROTOCOL_VERSION

Metadata = tuple[tuple[str, str], ...]


@pytest.fixture
def stub(trainer: Trainer) -> Iterator[trainer_pb2_grpc.TrainerStub]:
    """The daemon's calls, without the SDK."""
    with open_channel(find_endpoint(trainer.home).address) as channel:
        yield trainer_pb2_grpc.TrainerStub(channel)


def _key(trainer: Trainer, run_id: str, of: str = "") -> Metadata:
    key = auth.launch_key(trainer.home.token.read_bytes(), of or run_id)
    return (("authorization", f"Bearer {key}"), ("mosaic-run-id", run_id))


def test_a_launch_key_opens_its_own_run_alone(
    trainer: Trainer, stub: trainer_pb2_grpc.TrainerStub
) -> None:
    """Another run's key is refused, and a run without agents takes nothing from one."""
    run_id = trainer.stepping().run_id
    other = trainer.submit("short")
    piece = pb.AgentPiece(path="planted.txt", data=b"x", appends=True, size=1)
    turn = pb.AgentTurnRequest(run_id=run_id, attempt=1, job="", pieces=[piece])
    with pytest.raises(grpc.RpcError) as refused:
        stub.AgentTurn(turn, metadata=_key(trainer, run_id, of=other))
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert stub.AgentTurn(turn, metadata=_key(trainer, run_id)).over
    with pytest.raises(grpc.RpcError) as unknown:
        stub.AgentTurn(turn, metadata=_key(trainer, new_run_id()))
    assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
    fetch = pb.AgentFetchRequest(path=f"{other}/config.json")
    with pytest.raises(grpc.RpcError):
        list(stub.AgentFetch(fetch, metadata=_key(trainer, run_id)))
    assert not (trainer.directory(run_id).path / "planted.txt").exists()


def test_a_worker_that_is_quicker_than_its_record_asks_again(
    trainer: Trainer, stub: trainer_pb2_grpc.TrainerStub
) -> None:
    """A handshake of a run that is not known to have begun is not answered with a session."""
    trainer.stepping(resources={"cpus": {"requested": 2}})
    waiting = trainer.submit("short")
    request = pb.RegisterWorkerRequest(run_id=waiting, protocol_version=PROTOCOL_VERSION)
    with pytest.raises(grpc.RpcError) as early:
        stub.RegisterWorker(request, metadata=_key(trainer, waiting))
    assert early.value.code() is grpc.StatusCode.UNAVAILABLE
