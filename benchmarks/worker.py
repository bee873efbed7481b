"""Measures what the worker costs a training run: checkpoints, and the metric bridge.

Checkpoints: the time of one whole save (both files, checksums, fsync) of real states, as a share
of the 60 seconds between two of them. The bridge: what a second of logging takes in the loop, alone
and with a worker listening. Both are measured directly, because the difference between two whole
runs drowns in a busy machine's noise; the processor time of whole runs, alone and under the worker,
is reported beside them, with every pair.

Memories: the same for replay memories that are full, with the interval that the run's own pacing
then keeps and the share of time that saving takes with it.

    python benchmarks/worker.py [--pairs 4] [--total-timesteps 100000] [--only memories]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
INTERVAL_S = 60.0
SAVES = 7
MEMORY_SAVES = 5
SECONDS = 60
UPDATES_A_SECOND = 50
EPISODES_AN_UPDATE = 5
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
    from cleanrl_worker.running import checkpoint_files, checkpoints

    command = [sys.executable, "-m", f"cleanrl_worker.cleanrl.{name}", *flags]
    subprocess.run([*command, "--run-dir", str(run_dir)], check=True, capture_output=True)
    path, _ = checkpoint_files.find(run_dir)
    state = checkpoints.load(path)
    policy = checkpoints.load(checkpoint_files.find(run_dir, checkpoint_files.POLICY_SUFFIX)[0])
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


def measure_memories(folder: Path) -> list[dict[str, Any]]:
    """The time of one save of a full replay memory, and what pacing makes of it."""
    import torch

    from cleanrl_worker.kit.atari import AtariEnvs
    from cleanrl_worker.kit.envs import Envs
    from cleanrl_worker.kit.frame_replay import FrameReplayBuffer
    from cleanrl_worker.kit.replay import ReplayBuffer
    from cleanrl_worker.running import checkpoint_files, checkpoints
    from cleanrl_worker.running.checkpointing import SAVE_SHARE
    from mosaic.config.keeping import KeepPolicy

    cpu = torch.device("cpu")
    makers = {
        "sac_continuous_action, HalfCheetah-v5, 1,000,000 transitions": lambda: ReplayBuffer(
            1_000_000, Envs("HalfCheetah-v5", 1), cpu
        ),
        "dqn_atari, Breakout, 100,000 frames": lambda: FrameReplayBuffer(
            100_000, AtariEnvs("BreakoutNoFrameskip-v4", 1), cpu
        ),
    }
    found = []
    for name, make in makers.items():
        memory = make()
        _fill(memory)
        times = []
        for number in range(MEMORY_SAVES):
            state = {"objects": {"memory": memory.state_dict()}}
            began = time.perf_counter()
            path = checkpoints.save(folder / "memory", number, {}, state)[-1].path
            times.append(time.perf_counter() - began)
            checkpoint_files.prune(folder / "memory", KeepPolicy(last=1))
        median = statistics.median(times)
        interval = max(INTERVAL_S, median / SAVE_SHARE)
        found.append(
            {
                "memory": name,
                "state_mb": round(path.stat().st_size / 2**20),
                "save_s": [round(value, 2) for value in times],
                "share_at_60_s_percent": round(100 * median / (INTERVAL_S + median), 2),
                "interval_s": round(interval),
                "share_percent": round(100 * median / (interval + median), 2),
            }
        )
        print(json.dumps(found[-1]), flush=True)
    return found


def _fill(memory: Any) -> None:
    """Make a memory full of numbers that do not compress."""
    import numpy as np

    generator = np.random.default_rng(1)
    for array in memory._arrays.values():
        raw = array.view(np.uint8).reshape(-1)
        for first in range(0, len(raw), 1 << 24):
            part = raw[first : first + (1 << 24)]
            part[:] = generator.integers(0, 2, len(part), np.uint8)
    if hasattr(memory, "_full"):
        memory._full = True
    else:
        memory._count[:] = memory.size


def measure_bridge(folder: Path) -> dict[str, Any]:
    """What one second of logging takes in the loop, alone and with a worker listening.

    A second holds as many updates and episodes as PPO on CartPole has at 25,000 steps a second.
    The worker's second also writes the run's own metric files and the report on the bridge.
    """
    from cleanrl_worker.cleanrl.ppo import Args
    from cleanrl_worker.running.bridge import Bridge
    from cleanrl_worker.running.logger import Logger
    from mosaic.curves.episodes import NewestEpisodes

    alone = Logger(Args(), folder / "alone", Bridge(), 1_000_000, NewestEpisodes())
    ours, theirs = socket.socketpair()
    threading.Thread(target=_read_forever, args=(ours,), daemon=True).start()
    os.environ["CLEANRL_BRIDGE_FD"] = str(theirs.detach())
    os.environ["MOSAIC_RUN_DIR"] = str(folder / "worker")
    worker = Logger(Args(), folder / "worker", Bridge(), 1_000_000, NewestEpisodes())
    times: dict[str, list[float]] = {"alone": [], "worker": []}
    for number in range(SECONDS):
        for name, logger in (("alone", alone), ("worker", worker)):
            began = time.process_time()
            _log_one_second(logger, number * UPDATES_A_SECOND)
            times[name].append(time.process_time() - began)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        "alone_ms_a_second": round(medians["alone"] * 1000, 3),
        "worker_ms_a_second": round(medians["worker"] * 1000, 3),
        "share_percent": round(100 * (medians["worker"] - medians["alone"]), 3),
    }


def _log_one_second(logger: Any, first: int) -> None:
    names = ("value_loss", "policy_loss", "entropy", "approx_kl", "clipfrac", "old_approx_kl")
    values = {f"losses/{name}": 0.5 for name in names}
    with contextlib.redirect_stdout(io.StringIO()):
        for update in range(UPDATES_A_SECOND):
            step = first + update + 1
            for _ in range(EPISODES_AN_UPDATE):
                logger.episodes(step, [(100.0, 100)])
            logger.scalars(step, values)
        if logger._metrics is not None:
            logger._metrics.flush()
        logger.report(step, force=True)


def _read_forever(line: socket.socket) -> None:
    while line.recv(1 << 16):
        pass


def measure_pairs(folder: Path, pairs: int, total: int) -> dict[str, Any]:
    """CPU time that training itself takes, alone and under the worker, in turns.

    Processor time, not the clock: other programs of the machine do not count. A run of one
    update is subtracted from the long one, so that starting up does not count either.
    """
    programs = {
        "alone": ["cleanrl_worker.cleanrl.ppo"],
        "worker": ["cleanrl_worker.cli", "--algo", "ppo"],
    }
    found = []
    for number in range(pairs):
        # Whoever goes first meets another machine: take turns in that too.
        order = list(programs) if number % 2 == 0 else list(programs)[::-1]
        seconds = {
            name: _cpu_seconds(programs[name], total, folder / f"{name}-{number}-long")
            - _cpu_seconds(programs[name], 512, folder / f"{name}-{number}-short")
            for name in order
        }
        found.append({name: round(value, 2) for name, value in sorted(seconds.items())})
        print(json.dumps(found[-1]), flush=True)
    ratios = [item["worker"] / item["alone"] for item in found]
    return {
        "total_timesteps": total,
        "cpu_seconds": found,
        "ratios": [round(ratio, 3) for ratio in ratios],
        "median_ratio": round(statistics.median(ratios), 3),
    }


def _cpu_seconds(program: list[str], total: int, run_dir: Path) -> float:
    """Processor time of a run with all its processes."""
    flags = ["--env-id", "CartPole-v1", "--total-timesteps", str(total)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", *program, *flags, "--run-dir", str(run_dir)]
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def main() -> None:
    """Measure everything and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--total-timesteps", type=int, default=100_000)
    parser.add_argument("--only", choices=("checkpoints", "memories", "whole_runs", "bridge"))
    options = parser.parse_args()
    parts: dict[str, Callable[[Path], Any]] = {
        "checkpoints": measure_checkpoints,
        "memories": measure_memories,
        "whole_runs": lambda folder: measure_pairs(folder, options.pairs, options.total_timesteps),
        "bridge": measure_bridge,
    }
    RESULTS.mkdir(exist_ok=True)
    results = RESULTS / "worker.json"
    report = json.loads(results.read_text()) if results.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in (options.only,) if options.only else parts:
            report[name] = {
                "command": " ".join(["python", *sys.argv]),
                "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
                "load_average": [round(value, 2) for value in os.getloadavg()],
                "measured": parts[name](Path(folder)),
            }
            results.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
