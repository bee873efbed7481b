"""A worker that keeps the contract or breaks it in one chosen way: `algo` names the behaviour.

Registered as worker type `rogue` by the test suite's own entry point, as a third party's would be.
"""

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.handshake import WorkerSession
from mosaic.workers.lifecycle import LifecycleEmitter
from mosaic.workers.process import load_config, parse_arguments

_STUBBORN = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def get_worker_metadata() -> WorkerCapabilities:
    """What discovery learns about this worker."""
    return WorkerCapabilities(
        worker_type="rogue",
        module="rogue",
        display_name="Rogue",
        warm_modules=("mosaic.workers.process",),
    )


def get_metadata_with_broken_check() -> WorkerCapabilities:
    """A worker whose check of configs cannot even be loaded."""
    return WorkerCapabilities("broken_check", "rogue", validator="no_such_module:check")


class Rogue:
    """The contract by hand, so that each part of it can be left out."""

    def __init__(self) -> None:
        options = parse_arguments("rogue", None)
        self.config = load_config(options.config)
        self.extras: dict[str, Any] = self.config.get("extras", {})
        self.run_dir = Path(os.environ["MOSAIC_RUN_DIR"])
        self.emit = LifecycleEmitter(os.environ["MOSAIC_RUN_ID"])
        self.target: str = options.grpc_target
        self.stopped = threading.Event()

    def begin(self, **capabilities: Any) -> WorkerSession:
        """Handshake and `run_started`."""
        session = WorkerSession.register(self.target, "rogue", capabilities)
        self.emit.run_started(worker="rogue", total=self.config.get("total_timesteps") or 0)
        return session

    def step_forever(self) -> None:
        """Count steps into a file that anybody can watch, until told to stop."""
        step = 0
        while not self.stopped.is_set():
            step += 1
            # Whole or not at all: the tests read it after a kill at any moment.
            fresh = self.run_dir / "steps.txt.new"
            fresh.write_text(str(step))
            fresh.rename(self.run_dir / "steps.txt")
            self.emit.metrics(step, 0, {"value": float(step)})
            time.sleep(0.02)

    def save_at(self, step: int) -> None:
        """A full checkpoint of a step."""
        path = self.run_dir / "checkpoints" / f"step-{step}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(str(step))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        self.emit.checkpoint_saved(f"checkpoints/{path.name}", step, digest, "full")

    def save(self, name: str = "last.json") -> None:
        """Write a checkpoint and say so."""
        folder = self.run_dir / "checkpoints"
        folder.mkdir(exist_ok=True)
        content = b'{"weights": [1, 2, 3]}'
        (folder / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        self.emit.checkpoint_saved(f"checkpoints/{name}", 7, digest, "full")


def steady(rogue: Rogue) -> int:
    """Saves once, then steps until SIGTERM; cannot pause by itself."""
    signal.signal(signal.SIGTERM, lambda *_: rogue.stopped.set())
    rogue.begin()
    rogue.save()
    rogue.step_forever()
    rogue.emit.run_failed("terminated")
    return 143


def stuck(rogue: Rogue) -> int:
    """Its pulse is fine and its step does not move, until a file `move` is there."""
    signal.signal(signal.SIGTERM, lambda *_: rogue.stopped.set())
    rogue.begin()
    while not rogue.stopped.is_set():
        moves = (rogue.run_dir / "move").exists()
        where, doing = ("", "") if moves else ("buffer.py:12 draw", "compiling, 6 s")
        rogue.emit.heartbeat(8 if moves else 7, where, doing)
        time.sleep(0.1)
    rogue.emit.run_failed("terminated")
    return 143


def diverges(rogue: Rogue) -> int:
    """Reports an explosion after its second checkpoint, then saves once more."""
    rogue.begin()
    for step in range(1, 20):
        if step in (2, 5, 18):
            rogue.save_at(step * 100)
        # `flush` each: the channel would hold back all but one line a second.
        rogue.emit.metrics(step * 100, 2000, {"losses/approx_kl": 0.01 if step < 8 else 5.0})
        rogue.emit.flush_metrics()
    rogue.emit.run_completed()
    return 0


def saves_on_request(rogue: Rogue) -> int:
    """Saves when asked; with `refuse` it says why it cannot, with `mute` it says nothing.

    With `claims_to_pause` it says that it can pause, and does not.
    """
    signal.signal(signal.SIGTERM, lambda *_: rogue.stopped.set())

    def obey(command: str) -> None:
        with open(rogue.run_dir / "commands.txt", "a") as heard:
            heard.write(f"{command}\n")
        if command == "checkpoint" and rogue.extras.get("refuse"):
            session.report("refused", rogue.extras["refuse"])
        elif command == "checkpoint" and not rogue.extras.get("mute"):
            rogue.save("asked.json")
            session.report("checkpointed")

    session = rogue.begin(
        supports_checkpoint=True, supports_pause=rogue.extras.get("claims_to_pause", False)
    )
    session.listen(obey)
    rogue.step_forever()
    rogue.emit.run_failed("terminated")
    return 143


def short(rogue: Rogue) -> int:
    """Does what it was asked, quickly."""
    rogue.begin()
    time.sleep(rogue.extras.get("seconds", 0.0))
    rogue.emit.run_completed()
    return 0


def thorough(rogue: Rogue) -> int:
    """A whole life: numbers, a checkpoint, notes, output on both streams."""
    rogue.begin()
    for step in range(1, 6):
        rogue.emit.metrics(step, 5, {"episodic_return": float(step)})
    rogue.save()
    rogue.emit.note("note", {"text": "half way"})
    print("plain output", flush=True)
    print("a complaint", file=sys.stderr, flush=True)
    rogue.emit.run_completed()
    return 0


def deaf(rogue: Rogue) -> int:
    """Does not care about SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    rogue.begin()
    rogue.step_forever()
    return 0


def family(rogue: Rogue) -> int:
    """Has children that ignore SIGTERM, left the group, or lost their parent."""
    stubborn = [sys.executable, "-c", _STUBBORN]
    stays = subprocess.Popen(stubborn)
    leaves = subprocess.Popen(stubborn, start_new_session=True)
    orphaner = (
        "import subprocess as s;"
        f"print(s.Popen({stubborn!r}, start_new_session=True, stdout=s.DEVNULL).pid)"
    )
    orphan = subprocess.check_output([sys.executable, "-c", orphaner])
    pids = [stays.pid, leaves.pid, int(orphan)]
    (rogue.run_dir / "family.json").write_text(json.dumps(pids))
    rogue.begin()
    rogue.step_forever()
    return 0


def escapes(rogue: Rogue) -> int:
    """Has a child without marker, group, session and parent; only its output is still ours."""
    signal.signal(signal.SIGTERM, lambda *_: rogue.stopped.set())
    hidden = [sys.executable, "-c", "import time; time.sleep(3600)"]
    orphaner = (
        "import os, subprocess as s;"
        f"pid = s.Popen({hidden!r}, start_new_session=True, env={{}}).pid;"
        "open(os.environ['MOSAIC_RUN_DIR'] + '/hidden.txt', 'w').write(str(pid))"
    )
    subprocess.check_call([sys.executable, "-c", orphaner])
    rogue.begin()
    rogue.step_forever()
    rogue.emit.run_failed("terminated")
    return 143


def unreaped(rogue: Rogue) -> int:
    """Leaves children it never waits for."""
    for _ in range(20):
        if os.fork() == 0:
            os._exit(0)
    return short(rogue)


def silent_exit(rogue: Rogue) -> int:
    """Exits 0 and never says that it completed."""
    rogue.begin()
    return 0


def crash_at_the_end(rogue: Rogue) -> int:
    """Says that it completed, then crashes."""
    rogue.begin()
    rogue.emit.run_completed()
    return 9


def stays_after_the_end(rogue: Rogue) -> int:
    """Says how it ended and never exits: deaf, as a process that hangs in its last moments."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    rogue.begin()
    if rogue.extras.get("failure"):
        rogue.emit.run_failed(rogue.extras["failure"])
    else:
        rogue.emit.run_completed()
    time.sleep(600)
    return 0


def slow_save(rogue: Rogue) -> int:
    """Needs its time to save when it is asked to stop."""
    signal.signal(signal.SIGTERM, lambda *_: rogue.stopped.set())
    rogue.begin()
    rogue.step_forever()
    time.sleep(rogue.extras["seconds"])
    rogue.save("final.json")
    rogue.emit.run_failed("terminated")
    return 143


def hungry(rogue: Rogue) -> int:
    """Asks for more memory than it may have."""
    rogue.begin()
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
    return len(bytearray(2**32))


def mute(rogue: Rogue) -> int:
    """Never shakes hands."""
    time.sleep(600)
    return 0


def hangs_after_handshake(rogue: Rogue) -> int:
    """Shakes hands and is never heard again."""
    WorkerSession.register(rogue.target, "rogue", {})
    time.sleep(600)
    return 0


def starts_alone(rogue: Rogue) -> int:
    """Shakes hands when a file says so, and is less patient with an absent daemon than others."""
    from mosaic.workers import handshake

    signal.signal(signal.SIGTERM, lambda *_: rogue.stopped.set())
    while not (rogue.run_dir / "begin").exists():
        time.sleep(0.02)
    handshake.PATIENCE_S = 0.5
    session = rogue.begin()
    session.listen(lambda _: rogue.stopped.set(), lambda: rogue.emit.run_started(worker="rogue"))
    rogue.step_forever()
    rogue.emit.run_failed("terminated")
    return 143


def from_the_future(rogue: Rogue) -> int:
    """Speaks a protocol this daemon does not know."""
    from mosaic.workers import handshake

    handshake.PROTOCOL_VERSION = 99
    rogue.begin()
    time.sleep(600)
    return 0


def says(rogue: Rogue) -> int:
    """Prints the bytes of a file next to its config between a good beginning and a good end."""
    rogue.begin()
    content = Path(rogue.extras["file"]).read_bytes()
    run_id = os.environ["MOSAIC_RUN_ID"].encode()
    sys.stdout.flush()
    remaining = content.replace(b"@RUN@", run_id)
    while remaining:
        remaining = remaining[os.write(1, remaining) :]
    rogue.emit.metrics(5, 10, {"still_here": 1.0})
    rogue.emit.run_completed()
    return 0


def reads_secret(rogue: Rogue) -> int:
    """Proves that it was given its secret without showing it."""
    rogue.begin()
    digest = hashlib.sha256(os.environ["WANDB_API_KEY"].encode()).hexdigest()
    (rogue.run_dir / "digest.txt").write_text(digest)
    if rogue.extras.get("crash"):
        raise RuntimeError("crashed with the secret in its environment")
    rogue.emit.run_completed()
    return 0


BEHAVIOURS: dict[str, Callable[[Rogue], int]] = {
    behaviour.__name__: behaviour
    for behaviour in (
        steady,
        stuck,
        diverges,
        saves_on_request,
        short,
        thorough,
        deaf,
        family,
        escapes,
        unreaped,
        silent_exit,
        crash_at_the_end,
        stays_after_the_end,
        slow_save,
        hungry,
        mute,
        hangs_after_handshake,
        starts_alone,
        from_the_future,
        says,
        reads_secret,
    )
}


if __name__ == "__main__":
    worker = Rogue()
    code = BEHAVIOURS[worker.config["algo"]](worker)
    sys.stdout.flush()
    os._exit(code)
