"""Compares a curriculum with training on its hardest task alone, on the same budget of steps.

Each run is a run of the worker's own command line. Afterwards both policies are judged on the
hardest task by the worker's evaluation, actions sampled, with the same seeds.

    python benchmarks/curriculum.py [--total-timesteps 250000] [--seeds 1 2 3] [--episodes 40]
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
from pathlib import Path
from typing import Any

from cleanrl_worker.wrappers.curriculum import BABYAI_DOORKEY_CURRICULUM
from mosaic.config import build
from mosaic.config.model import TrainRunConfig

RESULTS = Path(__file__).parent / "results"
# The preset without its last stage, which takes millions of steps.
STAGES = BABYAI_DOORKEY_CURRICULUM[:3]
HARDEST = str(STAGES[-1]["env_id"])
FLAGS = {"num_envs": 8, "num_steps": 128, "num_minibatches": 8}


def train(folder: Path, seed: int, total: int, stages: list[dict[str, Any]] | None) -> list[Any]:
    """Train once; the stages that were told, with the step at which each began."""
    extras: dict[str, Any] = {"fastlane_video_mode": "off"}
    if stages:
        extras["curriculum_schedule"] = stages
    config = build.train(
        build.Worker("cleanrl"),
        "ppo",
        env_id=HARDEST,
        seed=seed,
        total_timesteps=total,
        parameters=FLAGS,
        extras=extras,
    )
    lines = _worker(folder, config)
    return [
        {key: line[key] for key in ("stage", "env_id", "steps", "episodes")}
        for line in lines
        if line["event"] == "curriculum_stage"
    ]


def judge(folder: Path, policy: Path, episodes: int) -> dict[str, Any]:
    """Play the hardest task."""
    extras = {
        "mode": "policy_eval",
        "policy_path": str(policy),
        "eval_episodes": episodes,
        # Agents of a grid that take the likeliest action walk in circles.
        "eval_sample": True,
        "fastlane_video_mode": "off",
    }
    fields = {"env_id": HARDEST, "seed": 1000, "extras": extras}
    _worker(folder, build.any_worker(build.Worker("cleanrl"), fields))
    summary = json.loads((folder / "eval_summary.json").read_text())
    solved = sum(value > 0 for value in summary["returns"]) / len(summary["returns"])
    return {
        "mean": summary["mean"],
        "iqm_confidence_interval": summary["iqm_confidence_interval"],
        "solved": solved,
    }


def _worker(folder: Path, config: TrainRunConfig) -> list[dict[str, Any]]:
    path = folder.with_suffix(".json")
    path.write_text(json.dumps(config.document()))
    command = [sys.executable, "-m", "cleanrl_worker.cli", "--config", str(path)]
    done = subprocess.run(
        [*command, "--run-dir", str(folder)], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    return [json.loads(line) for line in lines if line.startswith('{"event":')]


def main() -> None:
    """Run the comparison and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--total-timesteps", type=int, default=250_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--episodes", type=int, default=40)
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in options.seeds:
            for name, stages in (("curriculum", STAGES), ("hardest alone", None)):
                run_dir = Path(folder) / f"{name.split()[0]}-{seed}"
                began = time.monotonic()
                told = train(run_dir, seed, options.total_timesteps, stages)
                seconds = time.monotonic() - began
                judged = judge(run_dir.with_name(run_dir.name + "-eval"), run_dir, options.episodes)
                entry = {"what": name, "seed": seed, "seconds": round(seconds), **judged}
                results.append({**entry, "stages": told})
                print(json.dumps(entry), flush=True)
    report = {
        "command": " ".join(["python", *sys.argv]),
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "hardest_task": HARDEST,
        "curriculum": STAGES,
        "flags": FLAGS,
        "total_timesteps": options.total_timesteps,
        "episodes_judged": options.episodes,
        "results": results,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "curriculum.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
