"""Trains with and without bootstrapping at a time limit, and asks what difference it makes.

    python -m benchmarks.learning.truncation [--jobs N] [ppo] [pqn]

Our files add what the last state was still worth to an episode that its time limit cut off;
CleanRL's take it for lost. The other way is trained by a copy of the file without that one
condition: the same seeds, steps and machine. Every run is kept as soon as it has ended, in
`benchmarks/results/truncation.json`; a second call trains what is missing. `docs/deviations.md` has
the result.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learning.fingerprint import fingerprint
from benchmarks.learning.run import LAST_EPISODES, machine, read_curve
from cleanrl_worker.running.schema import SCRIPTS
from mosaic.statistics.significance import permutation_test

RESULTS = Path(__file__).resolve().parents[1] / "results" / "truncation.json"
ALGORITHMS = ("ppo", "pqn")
VALUED, LOST = "valued", "lost"
_SEEDS = range(1, 17)
_STEPS = 500_000
_CONDITION, _NEVER = "if cut_off.any():", "if False:"


def main() -> None:
    """Train what is missing, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="runs to train side by side")
    parser.add_argument("algorithms", nargs="*", default=list(ALGORITHMS))
    options = parser.parse_args()
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    records = {name: _begun(name, found.get(name)) for name in options.algorithms}
    with ThreadPoolExecutor(options.jobs) as pool:
        started = {
            pool.submit(_train, name, way, seed): (name, way, seed)
            for name, record in records.items()
            for seed in _SEEDS
            for way in (VALUED, LOST)
            if str(seed) not in record["returns"][way]
        }
        for done in as_completed(started):
            name, way, seed = started[done]
            records[name]["returns"][way][str(seed)] = done.result()
            records[name]["recorded_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            found[name] = records[name]
            RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, record in records.items():
        print(f"{name}: {said(record)}")


def _begun(algorithm: str, before: dict[str, Any] | None) -> dict[str, Any]:
    """The record so far; one of older code or of another machine is not continued."""
    about = {
        "env_id": "CartPole-v1",
        "total_timesteps": _STEPS,
        "code": fingerprint(algorithm),
        "machine": machine(),
        "command": f"python -m benchmarks.learning.truncation {algorithm}",
    }
    if before is not None and all(before[name] == value for name, value in about.items()):
        return before
    return {**about, "returns": {VALUED: {}, LOST: {}}}


def _train(algorithm: str, way: str, seed: int) -> float:
    """The average return of the last episodes of one run."""
    source = (SCRIPTS / f"{algorithm}.py").read_text(encoding="utf-8")
    if source.count(_CONDITION) != 1:
        raise ValueError(f"{algorithm}.py has no single {_CONDITION!r}")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / f"{algorithm}.py"
        script.write_text(source if way == VALUED else source.replace(_CONDITION, _NEVER))
        run_dir = Path(folder) / "run"
        flags = ["--seed", str(seed), "--total-timesteps", str(_STEPS), "--no-cuda"]
        command = [sys.executable, str(script), *flags, "--run-dir", str(run_dir)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        _, returns, _ = read_curve(run_dir / "tensorboard")
    return round(float(returns[-LAST_EPISODES:].mean()), 2)


def said(record: dict[str, Any]) -> str:
    """A whole record in a sentence."""
    valued, lost = (np.array(list(record["returns"][way].values())) for way in (VALUED, LOST))
    p = permutation_test([valued], [lost])
    return (
        f"{valued.mean():.1f} ± {valued.std():.1f} over {len(valued)} seeds, "
        f"{lost.mean():.1f} ± {lost.std():.1f} with CleanRL's treatment (p = {p:.2g})"
    )


if __name__ == "__main__":
    main()
