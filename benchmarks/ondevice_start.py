"""How soon a compiled run takes its first step: the first start of a shape, and later ones.

    python -m benchmarks.ondevice_start [--starts 6] [--algorithm ppo_ondevice]

Runs of one update each, one after the other, under one daemon on a home of its own. Of each: the
seconds from the submission to the first stored point, and the processor time of the worker with
its training process from fork to exit. The latter does not depend on how busy the machine is. The
result is `benchmarks/results/ondevice_start.json`.
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
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from mosaic.client import TrainerClient
from mosaic.config import build
from mosaic.config.paths import Home
from mosaic.errors import DaemonNotRunningError

RESULT = Path(__file__).parent / "results" / "ondevice_start.json"


class Start(TypedDict):
    """One run."""

    to_first_point_s: float
    processor_s: float


@contextmanager
def under_a_daemon() -> Iterator[TrainerClient]:
    """A daemon on a home of its own, and a connection to it."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home.locate(Path(folder) / "home")
        command = [sys.executable, "-m", "mosaic.trainer.daemon", "--port", "0"]
        process = subprocess.Popen([*command, "--home", str(home.root)])
        client = _connect(home)
        try:
            yield client
        finally:
            client.shutdown("stop")
            client.close()
            process.wait()


def _connect(home: Home) -> TrainerClient:
    while True:
        try:
            return TrainerClient.connect(home)
        except DaemonNotRunningError:
            time.sleep(0.02)


def measure(client: TrainerClient, algorithm: str, seed: int) -> Start:
    """Train one update."""
    config = build.train(
        build.Worker("cleanrl"), algorithm, env_id="CartPole-v1", total_timesteps=512, seed=seed
    )
    began = time.time()
    run_id = client.submit(config).run_id
    record = client.wait(run_id)
    assert record.completed, record.outcome
    first = min(wall for batch in client.metrics(run_id) for wall in batch.wall_times)
    usage = json.loads((Path(record.run_dir) / "exit.json").read_text())["usage"]
    return {
        "to_first_point_s": round(first - began, 2),
        "processor_s": round(usage["user_s"] + usage["system_s"], 2),
    }


def main() -> None:
    """Start the same shape several times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=6)
    parser.add_argument("--algorithm", default="ppo_ondevice")
    options = parser.parse_args()
    with under_a_daemon() as client:
        starts = [measure(client, options.algorithm, seed) for seed in range(options.starts)]
    for start in starts:
        print(start)
    later = starts[1:]
    record = {
        "command": f"python -m benchmarks.ondevice_start --algorithm {options.algorithm}",
        "machine": {"processor": platform.machine(), "cores": os.cpu_count()},
        "load_at_the_end": round(os.getloadavg()[0], 1),
        "algorithm": options.algorithm,
        "first": starts[0],
        "later": later,
        "median_later": {
            "to_first_point_s": statistics.median(one["to_first_point_s"] for one in later),
            "processor_s": statistics.median(one["processor_s"] for one in later),
        },
    }
    RESULT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
