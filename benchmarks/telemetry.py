"""Measures the telemetry lane: how many records a second it carries, loses none of, and holds.

Four worker processes publish steps through real emitters to one process that serves the real hub
and store; afterwards the stores are read and every record is looked for. In every second round each
stream also has a live viewer that never reads. What that costs a worker is the processor time of
its training thread in each call of the emitter; records a second also suffer from whatever else
the machine does. The store alone is measured in this process.

    python benchmarks/telemetry.py [--records 100000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import psutil

from mosaic.connect.channel import open_channel
from mosaic.connect.endpoint import Address
from mosaic.telemetry.records import Kind
from mosaic.telemetry.store import StoreReader, StoreWriter
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc as rpc

REPOSITORY = Path(__file__).parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results"
SERVER = REPOSITORY / "tests" / "support" / "lane_server.py"
STREAMS = 4
BATCH = 256
TOKEN = "a-session-token"

PUBLISHER = """
import sys, time
from pathlib import Path
from mosaic.connect.endpoint import Address
from mosaic.telemetry.emitter import TelemetryEmitter
run_id, folder, port, records, token = sys.argv[1:]
emitter = TelemetryEmitter(run_id, Path(folder), lambda: (Address(f"127.0.0.1:{port}"), token))
print("ready", flush=True)
sys.stdin.readline()
began = time.thread_time()
for n in range(int(records)):
    emitter.step(episode=n // 100, step=n % 100, observation=[0.1, 0.2, 0.3, n], action=n % 4,
                 reward=1.0, terminated=n % 100 == 99, info={"q": 0.5})
spent = time.thread_time() - began
print(emitter.close(120), emitter.stats()["steps"].dropped, spent, flush=True)
"""


def main() -> None:
    """Measure everything and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=100_000, help="records a stream")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rounds: list[dict[str, Any]] = []
    for _ in range(options.rounds):
        for viewers in (False, True):
            rounds.append(hub_round(options.records, viewers))
            print(json.dumps(rounds[-1]), flush=True)
    stores = [store_round(200_000) for _ in range(options.rounds)]
    result = {
        "command": f"python benchmarks/telemetry.py --records {options.records} "
        f"--rounds {options.rounds}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}",
        "load_average": os.getloadavg(),
        "streams": STREAMS,
        "records": STREAMS * options.records,
        "hub_records_per_s": best(rounds, viewers=False),
        "hub_records_per_s_with_stuck_viewers": best(rounds, viewers=True),
        "hub_lost": sum(r["lost"] for r in rounds),
        "hub_peak_mb": max(r["peak_mb"] for r in rounds),
        "worker_us_per_step": median(rounds, "worker_us_per_step", viewers=False),
        "worker_us_per_step_with_stuck_viewers": median(rounds, "worker_us_per_step", viewers=True),
        "hub_cpu_us_per_record": statistics.median(r["cpu_us_per_record"] for r in rounds),
        "store_records_per_s": max(stores),
        "rounds": rounds,
        "store_rounds": stores,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "telemetry.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({k: v for k, v in result.items() if "rounds" not in k}, indent=2))


def best(rounds: list[dict[str, Any]], viewers: bool) -> int:
    """The fastest of the rounds of one kind."""
    return max(int(r["records_per_s"]) for r in rounds if r["viewers"] is viewers)


def median(rounds: list[dict[str, Any]], name: str, viewers: bool) -> float:
    """The middle of the rounds of one kind."""
    return statistics.median(r[name] for r in rounds if r["viewers"] is viewers)


def hub_round(records: int, viewers: bool) -> dict[str, Any]:
    """One flood from four workers; what arrived, how fast, and what the server held."""
    with tempfile.TemporaryDirectory() as home:
        runs = [f"01JD00000000000000000000A{n}" for n in range(STREAMS)]
        for run_id in runs:
            Path(home, run_id).mkdir()
        server = subprocess.Popen(
            [sys.executable, str(SERVER), home, "0"], stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        channel = open_channel(Address(f"127.0.0.1:{port}"))
        try:
            if viewers:
                views = [stuck_viewer(channel, run_id) for run_id in runs]
            publishers = [start_publisher(run_id, home, port, records) for run_id in runs]
            peak = PeakMemory(server.pid)
            began = time.perf_counter()
            for publisher in publishers:
                assert publisher.stdin is not None
                publisher.stdin.write("go\n")
                publisher.stdin.flush()
            outcomes = [publisher.communicate()[0].split() for publisher in publishers]
            elapsed = time.perf_counter() - began
            cpu = psutil.Process(server.pid).cpu_times()
            peak_mb = peak.stop()
            if viewers:
                for view in views:
                    view.cancel()
        finally:
            channel.close()
            server.terminate()
            server.communicate()
        assert all(outcome[:2] == ["0", "0"] for outcome in outcomes), outcomes
        worker_s = sum(float(outcome[2]) for outcome in outcomes)
        stored = sum(count_dense(Path(home, run_id)) for run_id in runs)
    total = STREAMS * records
    return {
        "viewers": viewers,
        "records_per_s": round(total / elapsed),
        "lost": total - stored,
        "peak_mb": round(peak_mb, 1),
        "cpu_us_per_record": round((cpu.user + cpu.system) / total * 1e6, 2),
        "worker_us_per_step": round(worker_s / total * 1e6, 2),
        "seconds": round(elapsed, 2),
    }


def start_publisher(run_id: str, home: str, port: str, records: int) -> subprocess.Popen[str]:
    """A worker process that waits for the start."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            PUBLISHER,
            run_id,
            str(Path(home, run_id)),
            port,
            str(records),
            TOKEN,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def stuck_viewer(channel: grpc.Channel, run_id: str) -> Any:
    """A viewer that opens a live stream and never reads from it."""
    request = pb.StreamRunStepsRequest(run_id=run_id, follow=True)
    metadata = (("authorization", f"Bearer {TOKEN}"),)
    return rpc.TrainerStub(channel).StreamRunSteps(request, metadata=metadata)


def count_dense(run_dir: Path) -> int:
    """How many records a store holds; they must be numbered without holes."""
    reader = StoreReader(run_dir)
    try:
        count = reader.count(Kind.STEPS)
        assert reader.last_seq(Kind.STEPS) == count
        return count
    finally:
        reader.close()


class PeakMemory:
    """Watches the resident memory of a process."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self._peak = max(self._peak, self._process.memory_info().rss)

    def stop(self) -> float:
        """The peak in megabytes."""
        self._over.set()
        self._thread.join()
        return self._peak / 1e6


def store_round(records: int) -> int:
    """Records a second into the store alone, from the first to the last commit."""
    steps = [
        pb.Step(seq=n + 1, episode=n // 100, step=n % 100, observation_json="[0.1,0.2,0.3,0.4]",
                action_json="1", reward=1.0, info_json='{"q":0.5}', at=1.0)
        for n in range(records)
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        writer = StoreWriter(Path(folder))
        began = time.perf_counter()
        for start in range(0, records, BATCH):
            writer.submit(Kind.STEPS, list(steps[start : start + BATCH]), BATCH * 50)
        assert writer.flush(120)
        elapsed = time.perf_counter() - began
        writer.close()
        assert count_dense(Path(folder)) == records
    return round(records / elapsed)


if __name__ == "__main__":
    main()
