"""Trains algorithms for real and records how well they learned.

    python -m benchmarks.learning.run [--jobs N] ppo dqn        (all settings without names)

Each algorithm's record goes to `benchmarks/results/learning/<algorithm>.json`: the curve,
returns, evaluation, seeds, speed, the commands, and whether resume was exact. What else computes on
the machine slows it down; `--beside` says how many processes that are, so that the record does.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from benchmarks.learning.fingerprint import fingerprint
from benchmarks.learning.records import place_for
from benchmarks.learning.settings import SETTINGS, Setting
from cleanrl_worker.running.evaluation import evaluate
from cleanrl_worker.running.verification import resume_differences, smoke_flags

_CURVE_POINTS = 60
LAST_EPISODES = 100
_EVALUATION_EPISODES = 50
# Longer than any episode of classic control; ends games that a poor policy never loses.
_EVALUATION_MAX_STEPS = 3000


def main() -> None:
    """Record the algorithms named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="seeds to train side by side")
    parser.add_argument("--beside", type=int, default=0, help="other busy processes there")
    parser.add_argument("algorithms", nargs="*", default=list(SETTINGS))
    options = parser.parse_args()
    for algorithm in options.algorithms:
        setting = SETTINGS[algorithm]
        record = record_algorithm(algorithm, setting, options.jobs)
        record["side_by_side"] = min(options.jobs, len(setting.seeds)) + options.beside
        path = place_for(algorithm, setting.env_id)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(f"{algorithm}: {record['training_return']} evaluation {record['evaluation']}")


def record_algorithm(algorithm: str, setting: Setting, jobs: int) -> dict[str, Any]:
    """Train one algorithm with every seed and put its record together."""
    with ThreadPoolExecutor(jobs) as pool:
        runs = list(pool.map(lambda seed: train(algorithm, setting, seed), setting.seeds))
    training = [run["training_return"] for run in runs]
    evaluated = [run["evaluation_return"] for run in runs]
    flags, half = smoke_flags(algorithm)
    with tempfile.TemporaryDirectory() as folder:
        differences = resume_differences(algorithm, half, flags, Path(folder))
    return {
        "algorithm": algorithm,
        "env_id": setting.env_id,
        "total_timesteps": setting.total_timesteps,
        "flags": setting.flags,
        "seeds": list(setting.seeds),
        "training_return": _summary(training),
        "evaluation": _summary(evaluated),
        "evaluation_episodes": _EVALUATION_EPISODES,
        "random_return": setting.random_return,
        "code": fingerprint(algorithm),
        "resumes_exactly": not differences,
        "sps": _summary([run["sps"] for run in runs]),
        "runs": runs,
        "machine": machine(),
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": f"python -m benchmarks.learning.run {algorithm}",
    }


def train(algorithm: str, setting: Setting, seed: int) -> dict[str, Any]:
    """Train one seed and evaluate it."""
    values = {"env_id": setting.env_id, "total_timesteps": setting.total_timesteps}
    command = ["-m", f"cleanrl_worker.cleanrl.{algorithm}"]
    for name, value in {**values, "seed": seed, **setting.flags}.items():
        flag = f"--{name.replace('_', '-')}"
        command += [flag] if value is True else [flag, str(value)]
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        began = time.monotonic()
        subprocess.run([sys.executable, *command, "--run-dir", str(run_dir)], check=True)
        seconds = time.monotonic() - began
        steps, returns, sps = read_curve(run_dir / "tensorboard")
        episodes = evaluate(
            run_dir,
            episodes=_EVALUATION_EPISODES,
            seed=10_000 + seed,
            max_steps=_EVALUATION_MAX_STEPS,
        )
    return {
        "seed": seed,
        "command": " ".join(["python", *command]),
        "training_return": round(float(returns[-LAST_EPISODES:].mean()), 2),
        "evaluation_return": round(float(np.mean([e.episodic_return for e in episodes])), 2),
        "sps": round(sps),
        "wall_s": round(seconds, 1),
        "episodes": len(returns),
        "curve": thin(steps, returns),
    }


def read_curve(folder: Path) -> tuple[np.ndarray, np.ndarray, float]:
    """The step and the return of each episode, and the steps a second at the end."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    points = events.Scalars("charts/episodic_return")
    steps, returns = [p.step for p in points], [p.value for p in points]
    return np.array(steps), np.array(returns), events.Scalars("charts/SPS")[-1].value


def thin(steps: np.ndarray, returns: np.ndarray) -> list[list[float]]:
    """Mean return in equal stretches of the run."""
    edges = np.linspace(0, steps[-1] + 1, _CURVE_POINTS + 1)
    where = np.digitize(steps, edges) - 1
    filled = [index for index in range(_CURVE_POINTS) if (where == index).any()]
    return [[int(edges[i + 1]), round(float(returns[where == i].mean()), 2)] for i in filled]


def machine() -> dict[str, Any]:
    """What it was measured on."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "cpu": platform.machine(),
        "cores": os.cpu_count(),
        "gpu": gpu,
        "torch": torch.__version__,
    }


def _summary(values: list[float]) -> dict[str, float]:
    return {"mean": round(float(np.mean(values)), 2), "std": round(float(np.std(values)), 2)}


if __name__ == "__main__":
    main()
