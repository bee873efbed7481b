"""Compares the speed of two checkouts of the project: ours then and ours now.

    python -m benchmarks.speed.versions OLD_CHECKOUT [ALGORITHM ...]

Both checkouts run on this interpreter; only the path differs. Runs alternate, old and new, and
speed is taken by processor time, because another program on the machine changes it far less than
the wall clock. The best of each side counts. Results: `benchmarks/results/speed/versions.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.speed.cases import CASES, ENVIRONMENT
from benchmarks.speed.run import RESULTS

_HERE = Path(__file__).resolve().parents[2]
_ROUNDS = 4
_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# A ratio below this is called slower.
_ALLOWED = 0.95


@dataclass(frozen=True)
class Timed:
    """One script to time: its environment, its steps, and the step at which the clock starts."""

    algorithm: str
    env_id: str
    steps: int
    warm: int
    flags: dict[str, object] = field(default_factory=dict)


def _from_cases() -> list[Timed]:
    return [
        Timed(c.algorithm, c.env_id, c.steps, c.warm, {"num_envs": c.num_envs, **c.flags})
        for c in CASES
        if c.peer != ENVIRONMENT
    ]


_BREAKOUT = "BreakoutNoFrameskip-v4"
_REPLAY = {"learning_starts": 400, "buffer_size": 3000}
_FURTHER = [
    Timed("rpo_continuous_action", "HalfCheetah-v5", 6144, 2048),
    Timed("dqn_atari", _BREAKOUT, 1600, 600, _REPLAY),
    Timed("c51_atari", _BREAKOUT, 1600, 600, _REPLAY),
    Timed("rainbow_atari", _BREAKOUT, 1200, 600, _REPLAY),
    Timed("sac_atari", "BeamRiderNoFrameskip-v4", 800, 500, {**_REPLAY, "batch_size": 64}),
    Timed("ppo_atari_lstm", _BREAKOUT, 3072, 1024),
    Timed("dqn_jax", "CartPole-v1", 20_000, 4000, {"learning_starts": 1000}),
    Timed("c51_jax", "CartPole-v1", 15_000, 4000, {"learning_starts": 1000}),
    Timed("td3_continuous_action_jax", "HalfCheetah-v5", 1500, 500, {"learning_starts": 200}),
    Timed("ddpg_continuous_action_jax", "HalfCheetah-v5", 1500, 500, {"learning_starts": 200}),
]


def main() -> None:
    """Compare the algorithms named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path, help="a checkout of the older version")
    parser.add_argument("algorithms", nargs="*")
    options = parser.parse_args()
    path = RESULTS / "versions.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for case in [*_from_cases(), *_FURTHER]:
        if options.algorithms and case.algorithm not in options.algorithms:
            continue
        record = compare(case, options.old.resolve())
        kept[f"{case.algorithm} {case.env_id}"] = record
        path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        verdict = "" if record["ratio"] >= _ALLOWED else "  SLOWER"
        print(f"{case.algorithm:28} {case.env_id:24} {record['ratio']:.3f}{verdict}", flush=True)


def compare(case: Timed, old: Path) -> dict[str, object]:
    """Alternate old and new, and keep every speed with the ratio of the best."""
    then, now = [], []
    for _ in range(_ROUNDS):
        then.append(_speed(case, old))
        now.append(_speed(case, _HERE))
    return {
        "ratio": round(max(now) / max(then), 3),
        "ratio_of_medians": round(statistics.median(now) / statistics.median(then), 3),
        "old_per_cpu_second": then,
        "new_per_cpu_second": now,
        "load_average": os.getloadavg()[0],
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": f"python -m benchmarks.speed.versions OLD_CHECKOUT {case.algorithm}",
    }


def _speed(case: Timed, checkout: Path) -> float:
    command = [sys.executable, "-m", "benchmarks.speed.ours", case.algorithm, str(case.warm)]
    values = {"env_id": case.env_id, "total_timesteps": case.steps, **case.flags}
    flags = [part for name, value in values.items() for part in (_flag(name), str(value))]
    paths = [checkout, checkout / "workers" / "cleanrl_worker"]
    environment = {**os.environ, **_THREADS, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*command, *flags, "--run-dir", folder],
            env=environment,
            cwd=checkout,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise SystemExit(f"{case.algorithm} failed in {checkout}:\n{done.stderr[-2000:]}")
    return round(float(done.stdout.splitlines()[-1].split()[1]), 1)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


if __name__ == "__main__":
    main()
