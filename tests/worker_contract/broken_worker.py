"""A worker that breaks one rule of the contract at a time: `extras.fault` names it."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from mosaic.workers import LifecycleEmitter, WorkerSession, load_config

CAPABILITIES = {"algo": "broken", "supports_pause": True}


def say_and_leave(emit: LifecycleEmitter, code: int) -> NoReturn:
    emit.run_failed("terminated")
    os._exit(code)


def main() -> None:
    path = Path(sys.argv[sys.argv.index("--config") + 1])
    if not path.exists():
        sys.exit(0 if os.environ.get("BROKEN_START") else 2)
    config = load_config(path)
    fault = config["extras"]["fault"]
    emit = LifecycleEmitter(os.environ["MOSAIC_RUN_ID"])
    if fault == "no handshake":
        sys.exit(1)
    session = WorkerSession.register(sys.argv[-1], "example", CAPABILITIES)
    code = 0 if fault == "wrong exit code" else 143
    signal.signal(signal.SIGTERM, lambda *_: say_and_leave(emit, code))
    if fault == "no last word":
        signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    if fault != "deaf to pause":
        session.listen(lambda command: session.report(f"{command}d"))
    if fault == "speaks before the start":
        emit.heartbeat()
    if fault == "completes before it starts" and config["total_timesteps"] == 1:
        emit.run_completed()
    emit.run_started()
    if fault == "no such checkpoint":
        emit.checkpoint_saved("checkpoints/none.pt", 1, "0" * 64, "full")
    if fault == "malformed lines":
        print('{"event": "metrics", "values": NaN}', flush=True)
        print('{"event":"metrics","values":NaN}', flush=True)
    emit.heartbeat()
    if config["total_timesteps"] > 1:
        while True:
            if fault == "works while paused":
                sum(range(10_000))
            else:
                time.sleep(0.05)
    if fault != "no completion":
        emit.run_completed()


if __name__ == "__main__":
    main()
