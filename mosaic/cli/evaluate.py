"""`mosaic eval`: play a run's newest policy and report its returns."""

import json
from pathlib import Path
from typing import Any

import click

from mosaic.cli import output
from mosaic.cli.follow import follow
from mosaic.cli.options import json_option, run_argument
from mosaic.client import TrainerClient
from mosaic.errors import InvalidConfigError, Problem
from mosaic.runs.directory import read_json


@click.command("eval")
@run_argument
@click.option("--episodes", type=click.IntRange(1), default=20, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--gamma", type=click.FloatRange(0, 1), help="Discount of the discounted return.")
@click.option("--env-id", help="Another environment than it was trained in.")
@click.option("--max-steps", type=click.IntRange(1), help="End longer episodes.")
@click.option("--video", is_flag=True, help="Record the first environment.")
@click.option("--repeat", is_flag=True, help="Go on until cancelled.")
@click.option("--detach", is_flag=True, help="Answer with the evaluation's id and return.")
@json_option
def evaluate(run: str, detach: bool, as_json: bool, **settings: Any) -> int:
    """Evaluate the newest policy of RUN as a run of its own."""
    with TrainerClient.connect() as trainer:
        base = trainer.get(run)
        record = trainer.submit(_config(base, settings), parent_run_id=base["run_id"])
        if detach:
            print(json.dumps({"run_id": record["run_id"]}) if as_json else record["run_id"])
            return 0
        if as_json:
            record = trainer.wait(record["run_id"])
            code = 0 if record["outcome"] == "completed" else 1
        else:
            code = follow(trainer, record["run_id"])
    summary = read_json(Path(record["run_dir"]) / "eval_summary.json")
    if as_json:
        output.print_json({**record, "evaluation": summary})
    elif summary:
        print(_sentence(summary))
    return code


def _config(base: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    if not any(item["kind"] == "policy" for item in base["checkpoints"]):
        message = f"run {base['run_id']} has saved no policy yet"
        raise InvalidConfigError([Problem("", "CFG121", message)])
    extras: dict[str, Any] = {
        "mode": "policy_eval",
        "policy_path": str(Path(base["run_dir"]) / "checkpoints"),
        "eval_episodes": settings["episodes"],
        "capture_video": settings["video"],
        "repeat": settings["repeat"],
    }
    if settings["gamma"] is not None:
        extras["gamma"] = settings["gamma"]
    if settings["max_steps"]:
        extras["eval_max_steps"] = settings["max_steps"]
    return {
        "run_name": f"eval of {base['run_name']}",
        "artifacts": {},
        "metadata": {
            "worker": {
                "type": base["worker"],
                "config": {
                    "algo": base["algo"],
                    "env_id": settings["env_id"] or base["env_id"],
                    "seed": settings["seed"],
                    "extras": extras,
                },
            }
        },
    }


def _sentence(summary: dict[str, Any]) -> str:
    interval = summary.get("iqm_confidence_interval") or ["-", "-"]
    low, high = (f"{edge:,.1f}" if isinstance(edge, float) else str(edge) for edge in interval)
    return (
        f"{summary['episodes']} episodes: return {summary['mean']:,.1f} ± {summary['std']:,.1f} "
        f"(min {summary['min']:,.1f}, median {summary['median']:,.1f}, max {summary['max']:,.1f}; "
        f"IQM {summary['iqm']:,.1f}, 95 % interval {low} to {high})"
    )
