"""The play worker's command: `python -m human_worker.cli --config FILE`."""

import sys
from collections.abc import Mapping
from pathlib import Path

from human_worker import WORKER
from human_worker.environment import EnvHost
from human_worker.game import Game, play_script
from human_worker.live import play_live
from human_worker.policy_world import PolicyWorld
from human_worker.world import World
from mosaic.config.json_types import JsonValue
from mosaic.errors import MosaicError
from mosaic.telemetry.emitter import TelemetryEmitter, follow_daemon
from mosaic.workers import WorkerProcess


def main() -> None:
    """Run the worker from its command line."""
    capabilities = {"algo": "play", "supports_pause": True, "supports_checkpoint": False}
    with WorkerProcess.start(WORKER, capabilities) as worker:
        extras = worker.config.get("extras") or {}
        seed = int(worker.config.get("seed") or 1)
        host = _world(worker.config.get("env_id") or "", extras)
        recorder = _recorder(worker)
        game = Game(worker, host, recorder, seed)
        try:
            if extras.get("script"):
                play_script(worker, game, host, extras["script"], float(extras.get("fps") or 0))
            else:
                play_live(worker, game, host, float(extras.get("fps") or host.fps))
        finally:
            host.close()
            if recorder is not None:
                recorder.close()


def _world(env_id: str, extras: Mapping[str, JsonValue]) -> World:
    """The environment of a game, or that of a policy which plays too."""
    if extras.get("policy_path"):
        return PolicyWorld(env_id, str(extras["policy_path"]), str(extras.get("policy_worker", "")))
    options = extras.get("env_kwargs")
    return EnvHost(env_id or "CartPole-v1", options if isinstance(options, dict) else None)


def _recorder(worker: WorkerProcess) -> TelemetryEmitter | None:
    if worker.session is None:
        return None
    return TelemetryEmitter(worker.run_id, Path(worker.run_dir), follow_daemon(worker.session))


if __name__ == "__main__":
    try:
        main()
    except MosaicError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
