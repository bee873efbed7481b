"""The wire contract holds nothing that is only declared: every call is answered and is made."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from support.patience import PATIENCE_S
from support.trainer import Trainer

from mosaic.client.connection import read_token
from mosaic.connect.endpoint import find_endpoint
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc

ROOT = Path(__file__).parents[2]
CALLERS = ("mosaic/agent", "mosaic/client", "mosaic/connect", "mosaic/workers", "mosaic/telemetry")
METHODS = list(pb.DESCRIPTOR.services_by_name["Trainer"].methods)


@pytest.fixture(scope="module")
def callers() -> str:
    """The source of everything that calls the daemon."""
    files = [path for folder in CALLERS for path in sorted((ROOT / folder).rglob("*.py"))]
    own = re.compile(r"^\s*(async )?def \w+", re.MULTILINE)
    return "\n".join(own.sub("", path.read_text()) for path in files)


@pytest.mark.parametrize("name", [method.name for method in METHODS])
def test_every_call_has_a_caller(name: str, callers: str) -> None:
    """A call that no client and no worker makes would be dead weight on the wire."""
    assert re.search(rf'(\.{name}\b|"{name}")', callers), f"{name} has no caller"


def test_every_call_has_a_handler(trainer: Trainer) -> None:
    """No call of the contract is answered UNIMPLEMENTED."""
    token = read_token(trainer.home).decode()
    metadata = (("authorization", f"Bearer {token}"),)
    unanswered = []
    with grpc.insecure_channel(find_endpoint(trainer.home).target) as channel:
        stub = trainer_pb2_grpc.TrainerStub(channel)
        # Shutdown comes last: it is carried out.
        for method in sorted(METHODS, key=lambda each: each.name == "Shutdown"):
            message: Any = getattr(pb, method.input_type.name)()
            request = iter([message]) if method.client_streaming else message
            if _code(getattr(stub, method.name), request, metadata) == "UNIMPLEMENTED":
                unanswered.append(method.name)
    assert unanswered == []
    assert trainer.wait_for_death() == 0


def _code(call: Any, request: Any, metadata: tuple[tuple[str, str], ...]) -> str:
    try:
        reply = call(request, metadata=metadata, timeout=PATIENCE_S)
        if isinstance(reply, Iterator):
            next(reply, None)
            reply.cancel()
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"
