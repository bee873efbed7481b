"""A process that serves the telemetry lane of one folder: the real hub, store and service.

Usage: python lane_server.py HOME PORT. Prints the port once it listens, appends each notice to
HOME/notices.jsonl, and ends at SIGTERM with everything written.
"""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import grpc

from mosaic.telemetry.hub import TelemetryHub
from mosaic.telemetry.service import TelemetryService
from mosaic.wire import trainer_pb2_grpc as rpc

TOKEN = "a-session-token"


class Servicer(TelemetryService, rpc.TrainerServicer):
    """The telemetry calls and nothing else."""


async def authorise(context: Any, run_id: str, publishing: bool) -> None:
    """Let in who knows the token."""
    if dict(context.invocation_metadata()).get("authorization") != f"Bearer {TOKEN}":
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the session token is stale")


async def serve(home: Path, port: int) -> None:
    """Serve until SIGTERM."""
    notices = (home / "notices.jsonl").open("a", buffering=1)

    def notify(run_id: str, event: str, data: dict[str, Any]) -> None:
        notices.write(json.dumps({"run_id": run_id, "event": event, **data}) + "\n")

    def run_dir_of(run_id: str) -> Path:
        if not (home / run_id).is_dir():
            raise KeyError(run_id)
        return home / run_id

    hub = TelemetryHub(notify, lambda run_id: not (home / run_id / "exit.json").exists())
    server = grpc.aio.server()
    rpc.add_TrainerServicer_to_server(Servicer(hub, run_dir_of, authorise), server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print(bound, flush=True)
    await stop.wait()
    await hub.close()
    await server.stop(1)
    notices.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
