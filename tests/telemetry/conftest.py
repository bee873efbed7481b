"""Fixtures of the telemetry tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.lane import LaneServer

from mosaic.wire import trainer_pb2_grpc as rpc


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[LaneServer]:
    """A served telemetry lane on a free port."""
    server = LaneServer(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def stub(lane: LaneServer) -> Iterator[rpc.TrainerStub]:
    """A raw client of the lane."""
    with lane.channel() as channel:
        yield rpc.TrainerStub(channel)
