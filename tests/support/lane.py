"""A served telemetry lane that tests can kill and start again, and small helpers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from mosaic.connect.channel import open_channel
from mosaic.connect.endpoint import Address
from mosaic.telemetry.emitter import TelemetryEmitter
from mosaic.telemetry.records import Kind
from mosaic.telemetry.store import StoreReader
from mosaic.wire import trainer_pb2 as pb
from support.patience import PATIENCE_S

TOKEN = "a-session-token"
RUN = "01JD0000000000000000000001"
AUTH = (("authorization", f"Bearer {TOKEN}"),)


class LaneServer:
    """One served home; `kill` is a real `kill -9`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = 0
        self.process: subprocess.Popen[str] | None = None
        self.run_dir(RUN)

    def run_dir(self, run_id: str) -> Path:
        path = self.home / run_id
        path.mkdir(exist_ok=True)
        return path

    def start(self) -> None:
        script = Path(__file__).with_name("lane_server.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(self.home), str(self.port)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self._reap()

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self._reap()

    def _reap(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        self.process = None

    def where_to(self) -> tuple[Address, str]:
        return Address(f"127.0.0.1:{self.port}"), TOKEN

    def emitter(self, run_id: str = RUN, **options: Any) -> TelemetryEmitter:
        return TelemetryEmitter(run_id, self.run_dir(run_id), self.where_to, **options)

    def channel(self) -> grpc.Channel:
        return open_channel(self.where_to()[0])

    def stored(self, kind: Kind = Kind.STEPS, run_id: str = RUN) -> list[Any]:
        reader = StoreReader(self.run_dir(run_id))
        try:
            return reader.read(kind, 0, 10_000_000)
        finally:
            reader.close()

    def notices(self) -> list[dict[str, Any]]:
        path = self.home / "notices.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]


def make_steps(first: int, count: int, **fields: Any) -> list[pb.Step]:
    """Plain steps with dense sequence numbers."""
    base = {"observation_json": "[0.5]", "action_json": "1", "reward": 0.25, "at": 1.0, **fields}
    return [pb.Step(seq=first + i, episode=0, step=first + i - 1, **base) for i in range(count)]


def wait_until(condition: Callable[[], bool], timeout: float = 20.0) -> None:
    """Poll until the condition holds; the test fails when it never does."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.02)
