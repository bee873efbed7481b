"""Measures what the worker costs a training run: checkpoints, and the metric bridge.

Checkpoints: the time of one whole save (both files, checksums, fsync) of real states, as a share
of the 60 seconds between two of them. The bridge: the time the training loop spends on one report
to a listening worker, as a share of the second between two of them. Both are measured directly,
because the difference between two whole runs drowns in this machine's noise; whole runs, alone and
under the worker, are interleaved and reported beside them.

    python benchmarks/worker.py [--pairs 5] [--total-timesteps 200000]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
INTERVAL_S = 60.0
SAVES = 7
REPORTS = 300
STATES = {
    "ppo": ["--env-id", "CartPole-v1", "--total-timesteps", "4096"],
    "dqn": ["--env-id", "CartPole-v1", "--total-timesteps", "12000", "--learning-starts", "11000"],
    "sac_continuous_action": [
        *("--env-id", "Pendulum-v1", "--total-timesteps", "20000"),
        *("--learning-starts", "19990"),
    ],
}


def measure_checkpoints(folder: Path) -> list[dict[str, Any]]:
    """The time of one save of each algorithm's state."""
    return [_measure_save(name, flags, folder / name) for name, flags in STATES.items()]


def _measure_save(name: str, flags: list[str], run_dir: Path) -> dict[str, Any]:
    from cleanrl_worker.kit import checkpoints

    command = [sys.executable, "-m", f"cleanrl_worker.cleanrl.{name}", *flags]
    subprocess.run([*command, "--run-dir", str(run_dir)], check=True, capture_output=True)
    path, _ = checkpoints.find(run_dir)
    state = checkpoints.load(path)
    policy = checkpoints.load(checkpoints.find(run_dir, checkpoints.POLICY_SUFFIX)[0])
    times = []
    for number in range(SAVES):
        began = time.perf_counter()
        checkpoints.save(run_dir / "again", number, policy, state)
        times.append(time.perf_counter() - began)
    median = statistics.median(times)
    return {
        "algorithm": name,
        "state_mb": round(path.stat().st_size / 2**20, 2),
        "save_ms": round(median * 1000, 1),
        "share_at_60_s_percent": round(100 * median / INTERVAL_S, 3),
    }


def measure_bridge(folder: Path) -> dict[str, Any]:
    """The time of one report, as the loop sees it, with somebody reading at the other end."""
    ours, theirs = socket.socketpair()
    threading.Thread(target=_read_forever, args=(ours,), daemon=True).start()
    os.environ["CLEANRL_BRIDGE_FD"] = str(theirs.detach())
    from cleanrl_worker.cleanrl.ppo import Args
    from cleanrl_worker.kit.bridge import Bridge
    from cleanrl_worker.kit.logger import Logger

    logger = Logger(Args(), folder / "bridge", Bridge(), 1_000_000)
    logger.start(0)
    names = ("value_loss", "policy_loss", "entropy", "approx_kl", "clipfrac", "old_approx_kl")
    values = {f"losses/{name}": 0.5 for name in names}
    times = []
    for step in range(REPORTS):
        logger.scalars(step + 1, values)
        logger.episodes(step + 1, [(20.0, 20)])
        began = time.perf_counter()
        logger.report(step + 1, force=True)
        times.append(time.perf_counter() - began)
    median = statistics.median(times)
    return {
        "report_us": round(median * 1e6, 1),
        "share_at_one_a_second_percent": round(100 * median, 4),
    }


def _read_forever(line: socket.socket) -> None:
    while line.recv(1 << 16):
        pass


def measure_pairs(folder: Path, pairs: int, total: int) -> dict[str, Any]:
    """Whole runs of PPO on CartPole, alone and under the worker, in turns."""
    flags = ["--env-id", "CartPole-v1", "--total-timesteps", str(total)]
    alone_command = [sys.executable, "-m", "cleanrl_worker.cleanrl.ppo", *flags]
    worker_command = [sys.executable, "-m", "cleanrl_worker.cli", "--algo", "ppo", *flags]
    found = []
    for number in range(pairs):
        alone = _speed([*alone_command, "--run-dir", str(folder / f"alone-{number}")])
        under = _speed([*worker_command, "--run-dir", str(folder / f"worker-{number}")])
        found.append({"alone_sps": round(alone), "worker_sps": round(under)})
        print(json.dumps(found[-1]), flush=True)
    ratios = [item["worker_sps"] / item["alone_sps"] for item in found]
    return {"pairs": found, "median_ratio": round(statistics.median(ratios), 3)}


def _speed(command: list[str]) -> float:
    """Steps a second of the training loop itself, from the run's own event file."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    subprocess.run(command, check=True, capture_output=True)
    events = EventAccumulator(str(Path(command[-1]) / "tensorboard")).Reload()
    return float(events.Scalars("charts/SPS")[-1].value)


def main() -> None:
    """Measure everything and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--total-timesteps", type=int, default=200_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report = {
            "command": " ".join(["python", *sys.argv]),
            "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
            "load_average": [round(value, 2) for value in os.getloadavg()],
            "checkpoints": measure_checkpoints(folder),
            "whole_runs": measure_pairs(folder, options.pairs, options.total_timesteps),
            "bridge": measure_bridge(folder),
        }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "worker.json").write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
