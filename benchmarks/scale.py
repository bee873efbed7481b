"""Simulates a thousand nodes under the daemon's own code, and says what gives way first.

    python benchmarks/scale.py [--nodes 10 100 300 1000] [--queued 2000] [--turns 12]

The engine, its decisions, its queue, its registry and its event logs are the real ones, on real
files. The nodes are not there: this program writes what their workers would write, a line of
metrics a second into each run directory, as workers on a shared folder do. Everything is counted in
processor time and system calls, so that other work on the machine does not change the figures.
Writes `benchmarks/results/scale.json` and `scale.md`.
"""

import argparse
import asyncio
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from mosaic.config.paths import Home
from mosaic.config.settings import Settings
from mosaic.runs.directory import RunDirectory
from mosaic.runs.ids import new_run_id
from mosaic.system import atomic
from mosaic.system.processes import boot_id, start_time
from mosaic.trainer.api.resolve import RunMessages
from mosaic.trainer.core.events import (
    Registered,
    Request,
    RunEvent,
    SlotsReserved,
    Started,
    Submitted,
    WorkerSpawned,
)
from mosaic.trainer.core.states import Event
from mosaic.trainer.launch.executor import LocalExecutor
from mosaic.trainer.loop.engine import Engine
from mosaic.trainer.storage import history
from mosaic.trainer.storage.registry import Registry, StoredRun

RESULTS = Path(__file__).parent / "results"
# The loop's own pause: a turn that takes longer than this is late for the next.
TURNS_A_SECOND = 4
# What a node's worker tells: one line a second, with as many numbers as PPO reports.
_NAMES = ("episodic_return", "episodic_length", "episodes", "sps", "losses/policy_loss",
          "losses/value_loss", "losses/entropy", "losses/approx_kl", "losses/clipfrac")  # fmt: skip
_FILE_CALLS = frozenset({
    "openat", "open", "close", "read", "pread64", "write", "pwrite64", "fstat", "newfstatat",
    "stat", "lstat", "statx", "fsync", "fdatasync", "rename", "unlink", "lseek", "mkdir",
    "getdents64", "readlink",
})  # fmt: skip


class Figures(TypedDict):
    """What one size costs."""

    nodes: int
    queued: int
    recover_s: float
    turn_ms: float
    loop_percent_of_a_core: float
    all_threads_percent_of_a_core: float
    file_calls_a_turn: int
    file_calls_a_second: int
    calls_a_node_and_turn: dict[str, float]
    changes_a_second: float
    message_us: float
    message_bytes: int
    watcher_percent_of_a_core: float
    schedule_ms: float
    resident_mb: float


# ------------------------------------------------------------ the nodes that are not there


def make_home(home: Home, nodes: int, queued: int, pid: int) -> list[str]:
    """A home as a killed daemon leaves it: a run at work on each node, others waiting.

    All runs at work name one process, which stands for a worker: what the daemon asks about it is
    asked once for each of them all the same.
    """
    home.create()
    busy = []
    for number in range(nodes + queued):
        run_id = new_run_id()
        directory = RunDirectory(home.run_dir(run_id))
        (directory.path / "logs").mkdir(parents=True, mode=0o700)
        happened: list[RunEvent] = [_submitted(number)]
        if number < nodes:
            happened += _at_work(number, pid)
            atomic.write_json(directory.supervisor, _identity(run_id, pid))
            directory.stdout.touch()
            busy.append(run_id)
        events = [
            Event(seq, time.time(), time.monotonic(), what) for seq, what in enumerate(happened, 1)
        ]
        history.append(directory.path, events)
    return busy


def _submitted(number: int) -> Submitted:
    return Submitted(
        run_name=f"node {number}", worker="example", module="mosaic.workers.example", algo="darts",
        env_id="darts", seed=number, total_timesteps=10**12, request=Request(cpus=1),
        tags=(f"experiment=scale-{number % 20}",),
    )  # fmt: skip


def _at_work(number: int, pid: int) -> list[RunEvent]:
    slots = SlotsReserved((f"cpu:{number}",), 1, boot_id())
    return [slots, WorkerSpawned(pid, pid), Registered({}), Started()]


def _identity(run_id: str, pid: int) -> dict[str, object]:
    started = start_time(pid)
    return {
        "run_id": run_id, "pid": pid, "start_time": started, "boot_id": boot_id(),
        "supervisor_pid": pid, "supervisor_start_time": started, "argv": [], "warm": False,
    }  # fmt: skip


class Nodes:
    """Writes the lines of every node, a quarter of the nodes before each turn."""

    def __init__(self, home: Home, run_ids: list[str]) -> None:
        self._run_ids = run_ids
        # Kept open, as workers keep theirs.
        flags = os.O_WRONLY | os.O_APPEND
        self._files = [
            os.open(home.run_dir(run_id) / "logs" / "stdout.log", flags) for run_id in run_ids
        ]
        self._turn = 0

    def speak(self) -> None:
        """What a quarter of a second of all nodes brings."""
        values = dict.fromkeys(_NAMES, 0.5 + self._turn / 1000)
        for place in range(self._turn % TURNS_A_SECOND, len(self._files), TURNS_A_SECOND):
            line = {
                "event": "metrics", "run_id": self._run_ids[place], "seq": self._turn + 1,
                "at": time.time(), "step": 1000 + self._turn, "total": 10**12, "values": values,
            }  # fmt: skip
            os.write(self._files[place], json.dumps(line).encode() + b"\n")
        self._turn += 1

    def close(self) -> None:
        """Let the nodes fall silent."""
        for file in self._files:
            os.close(file)


# ------------------------------------------------------------ the daemon's code


async def measure(home: Home, nodes: int, queued: int, turns: int) -> Figures:
    """One size."""
    with _stand_in() as pid:
        run_ids = make_home(home, nodes, queued, pid)
        registry = Registry(home.registry)
        settings = Settings(cpu_slots=nodes, warm_start=False, min_free_disk_mb=0)
        engine = Engine(home, settings, registry, LocalExecutor(), {}, b"token")
        begun = time.process_time()
        engine.recover()
        recover_s = time.process_time() - begun
        speaking = Nodes(home, run_ids)
        # A full second: first lines and first plans are another matter than the everyday.
        _turns(engine, speaking, TURNS_A_SECOND)
        loop_ms, all_ms, changes = _turns(engine, speaking, turns)
        calls = _count_calls(lambda: _turns(engine, speaking, TURNS_A_SECOND))
        message_us, message_bytes = _message(engine, run_ids)
        schedule_ms = _schedule(engine)
        speaking.close()
        await engine.close()
        registry.close()
    a_second = changes * TURNS_A_SECOND
    return {
        "nodes": nodes,
        "queued": queued,
        "recover_s": round(recover_s, 2),
        "turn_ms": round(loop_ms, 1),
        "loop_percent_of_a_core": round(loop_ms * TURNS_A_SECOND / 10, 1),
        "all_threads_percent_of_a_core": round(all_ms * TURNS_A_SECOND / 10, 1),
        "file_calls_a_turn": round(sum(calls.values()) / TURNS_A_SECOND),
        "file_calls_a_second": sum(calls.values()),
        "calls_a_node_and_turn": {
            name: round(count / TURNS_A_SECOND / nodes, 2) for name, count in calls.items()
        },
        "changes_a_second": round(a_second, 1),
        "message_us": round(message_us, 1),
        "message_bytes": message_bytes,
        "watcher_percent_of_a_core": round(a_second * message_us / 10_000, 1),
        "schedule_ms": round(schedule_ms, 1),
        "resident_mb": round(_resident_mb(), 1),
    }


def _turns(engine: Engine, nodes: Nodes, count: int) -> tuple[float, float, float]:
    """Processor milliseconds of a turn, of its thread and of all, and the changes it publishes."""
    watcher = engine.journal.changes.subscribe(0, capacity=1_000_000)
    loop, everything = [], []
    for _ in range(count):
        nodes.speak()
        thread, process = time.thread_time(), time.process_time()
        engine._turn()
        loop.append(time.thread_time() - thread)
        # The registry's writer works beside the loop; what it still has to do counts too.
        engine.registry.flush()
        everything.append(time.process_time() - process)
    engine.journal.changes.unsubscribe(watcher)
    changes = len(watcher._items) / count
    return 1000 * statistics.median(loop), 1000 * statistics.median(everything), changes


def _message(engine: Engine, run_ids: list[str]) -> tuple[float, int]:
    """Microseconds to put one change into a message, and its size: paid for each watcher."""
    messages, size = RunMessages(engine), 0
    chosen = run_ids[:200]
    begun = time.thread_time()
    for run_id in chosen:
        stored = engine.live.stored(run_id)
        size = len(messages.of(StoredRun(stored.run, stored.vitals, 1)).SerializeToString())
    return (time.thread_time() - begun) / len(chosen) * 1e6, size


def _schedule(engine: Engine) -> float:
    """Milliseconds to look through the queue, which every event of any run causes."""
    times = []
    for _ in range(5):
        engine.queue.changed()
        begun = time.thread_time()
        engine.queue.look()
        times.append(time.thread_time() - begun)
    return 1000 * statistics.median(times)


def _count_calls(work: Callable[[], object]) -> dict[str, int]:
    """The system calls on files that some work makes, by kind; empty without strace."""
    if shutil.which("strace") is None:
        return {}
    with tempfile.NamedTemporaryFile("r") as report:
        tracer = subprocess.Popen(
            ["strace", "-f", "-c", "-o", report.name, "-p", str(os.getpid())],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while "TracerPid:\t0" in Path("/proc/self/status").read_text():
            time.sleep(0.05)
        work()
        tracer.send_signal(2)
        tracer.wait()
        text = report.read()
    found = {}
    for line in text.splitlines():
        row = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)\s*$", line)
        if row and row[2] in _FILE_CALLS:
            found[row[2]] = int(row[1])
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _resident_mb() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@contextmanager
def _stand_in() -> Iterator[int]:
    """A process that stands for every worker."""
    process = subprocess.Popen(["sleep", "100000"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


# ------------------------------------------------------------ writing it down


def _write(results: list[Figures], command: str) -> None:
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    document = {"command": command, "machine": machine, "results": results}
    (RESULTS / "scale.json").write_text(json.dumps(document, indent=2) + "\n")
    names = ("nodes", "turn_ms", "loop_percent_of_a_core", "all_threads_percent_of_a_core",
             "file_calls_a_second", "changes_a_second", "watcher_percent_of_a_core",
             "schedule_ms", "recover_s", "resident_mb")  # fmt: skip
    rows = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    values: list[dict[str, object]] = [dict(row) for row in results]
    rows += [f"| {' | '.join(str(row[name]) for name in names)} |" for row in values]
    queued = results[-1]["queued"]
    (RESULTS / "scale.md").write_text(
        f"# A thousand nodes\n\n`{command}`: {machine}, {queued:,} runs waiting. Processor time\n"
        "and system calls of the daemon's own code; the nodes are simulated. What it means is in\n"
        "[scale](../../docs/scale.md).\n\n" + "\n".join(rows) + "\n"
    )


def main() -> None:
    """Measure each size and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 300, 1000])
    parser.add_argument("--queued", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=12)
    options = parser.parse_args()
    results = []
    for nodes in options.nodes:
        with tempfile.TemporaryDirectory(prefix="mosaic-scale-") as root:
            home = Home.locate(Path(root) / "home")
            figures = asyncio.run(measure(home, nodes, options.queued, options.turns))
        results.append(figures)
        print(json.dumps(figures), flush=True)
    _write(results, f"python benchmarks/scale.py --queued {options.queued}")


if __name__ == "__main__":
    main()
