"""Compares what training reaches, ours and the peer's, on equal budgets over eight seeds.

    python -m benchmarks.speed.returns [ALGORITHM ...]

Speed counts only when the return at the end is the same. Both sides train with the
hyperparameters of `benchmarks.speed.cases`; the mean return of the last 50 training episodes is
compared. Results: `benchmarks/results/speed/returns-<algorithm>.json`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learning.run import read_curve
from benchmarks.speed.cases import CASES, Case
from benchmarks.speed.peer import make_model
from benchmarks.speed.run import RESULTS, our_flags
from cleanrl_worker.kit.verification import train

SEEDS = range(1, 9)
STEPS = {"ppo": 50_000, "dqn": 50_000}
_LAST_EPISODES = 50
_DIFFERENCES = {
    "dqn": "the peer minimises the Huber loss and clips the gradient's norm at 10, its default; "
    "ours the squared error without clipping"
}


def main() -> None:
    """Compare the algorithms named on the command line, or all of them."""
    for name in sys.argv[1:] or STEPS:
        case = next(case for case in CASES if case.algorithm == name)
        record = compare(replace(case, steps=STEPS[name]))
        path = RESULTS / f"returns-{name}.json"
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(f"{name}: ours {record['ours']}, {record['peer']} {record['peers']}", flush=True)


def compare(case: Case) -> dict[str, Any]:
    """Train both sides with every seed."""
    ours = [_ours(case, seed) for seed in SEEDS]
    peers = [_peers(case, seed) for seed in SEEDS]
    return {
        "algorithm": case.algorithm,
        "env_id": case.env_id,
        "steps": case.steps,
        "seeds": list(SEEDS),
        "return_of": f"the last {_LAST_EPISODES} training episodes",
        "peer": f"stable-baselines3 {case.peer}",
        "ours": _summary(ours),
        "peers": _summary(peers),
        "all_ours": ours,
        "all_peers": peers,
        "flags": case.flags,
        "peer_options": case.peer_options,
        "differences": _DIFFERENCES.get(case.algorithm),
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": f"python -m benchmarks.speed.returns {case.algorithm}",
    }


def _ours(case: Case, seed: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        train(case.algorithm, run_dir, *our_flags(case), "--seed", str(seed))
        _, returns, _ = read_curve(run_dir / "tensorboard")
    return round(float(returns[-_LAST_EPISODES:].mean()), 2)


def _peers(case: Case, seed: int) -> float:
    model = make_model(case.peer, case.env_id, case.num_envs, case.peer_options, seed)
    model.learn(case.steps)
    returns = [episode["r"] for episode in model.ep_info_buffer]
    return round(float(np.mean(returns[-_LAST_EPISODES:])), 2)


def _summary(returns: list[float]) -> dict[str, float]:
    return {"mean": round(float(np.mean(returns)), 2), "std": round(float(np.std(returns)), 2)}


if __name__ == "__main__":
    main()
