"""Trains each on-device file beside the file it is the twin of, and asks whether they learn alike.

    python -m benchmarks.learning.twins [--jobs N] [algorithm ...]

Both are trained with the same settings for the same steps, eight seeds each. A permutation test
compares the returns at the end of training. The results go to `benchmarks/results/twins.json`,
with every seed's return, and from there to `docs/coverage.md`.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learning.fingerprint import fingerprint
from benchmarks.learning.run import machine, train
from benchmarks.learning.settings import PENDULUM_OFF_POLICY, SHORT_HORIZON, Setting
from mosaic.statistics.significance import permutation_test

RESULTS = Path(__file__).resolve().parents[1] / "results" / "twins.json"
# Below this the two are called different. Chance alone does so in one comparison of a hundred.
LEVEL = 0.01
_SEEDS = tuple(range(1, 9))

TWINS: dict[str, tuple[str, Setting]] = {
    "ppo_ondevice": ("ppo", Setting("CartPole-v1", 500_000, seeds=_SEEDS)),
    "pqn_ondevice": ("pqn", Setting("CartPole-v1", 500_000, seeds=_SEEDS)),
    "dqn_ondevice": ("dqn", Setting("CartPole-v1", 200_000, seeds=_SEEDS)),
    "ppo_continuous_ondevice": (
        "ppo_continuous_action",
        Setting("Pendulum-v1", 200_000, SHORT_HORIZON, seeds=_SEEDS),
    ),
    "td3_ondevice": (
        "td3_continuous_action",
        Setting("Pendulum-v1", 20_000, PENDULUM_OFF_POLICY, seeds=_SEEDS),
    ),
    "sac_ondevice": (
        "sac_continuous_action",
        Setting("Pendulum-v1", 20_000, {"learning_starts": 1000}, seeds=_SEEDS),
    ),
}


def main() -> None:
    """Compare the files named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="runs to train side by side")
    parser.add_argument("algorithms", nargs="*", default=list(TWINS))
    options = parser.parse_args()
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    with ThreadPoolExecutor(options.jobs) as pool:
        started = {name: _start(pool, name) for name in options.algorithms}
        for name, trained in started.items():
            twin, setting = TWINS[name]
            runs = {side: [one.result() for one in own] for side, own in trained.items()}
            found[name] = compared(name, twin, setting, runs)
            print(f"{name}: {said(name, found[name])}", flush=True)
            # Written after each pair: the next one may take an hour.
            RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _start(pool: ThreadPoolExecutor, name: str) -> dict[str, list[Future[dict[str, Any]]]]:
    """Train both sides of a pair, every seed."""
    twin, setting = TWINS[name]
    return {
        side: [pool.submit(train, side, setting, seed) for seed in setting.seeds]
        for side in (name, twin)
    }


def compared(
    name: str, twin: str, setting: Setting, runs: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """The record of one pair."""
    returns = {side: [run["training_return"] for run in own] for side, own in runs.items()}
    return {
        "twin": twin,
        "env_id": setting.env_id,
        "total_timesteps": setting.total_timesteps,
        "flags": setting.flags,
        "seeds": list(setting.seeds),
        "returns": returns,
        "p": round(permutation_test([np.array(returns[name])], [np.array(returns[twin])]), 4),
        "code": {side: fingerprint(side) for side in (name, twin)},
        "machine": machine(),
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": f"python -m benchmarks.learning.twins {name}",
    }


def said(name: str, record: dict[str, Any]) -> str:
    """The comparison in a sentence."""
    ours, theirs = (np.array(record["returns"][side]) for side in (name, record["twin"]))
    alike = "no difference found" if record["p"] >= LEVEL else "different"
    return (
        f"{ours.mean():.1f} ± {ours.std():.1f} against {theirs.mean():.1f} ± {theirs.std():.1f} "
        f"({alike}, p = {record['p']:.3g})"
    )


if __name__ == "__main__":
    main()
