"""`mosaic eval`: play a run's newest policy and report its returns."""

import json
from collections.abc import Mapping
from typing import TypedDict, Unpack

import click

from mosaic.cli import output
from mosaic.cli.follow import follow
from mosaic.cli.options import json_option, run_argument
from mosaic.client import TrainerClient
from mosaic.config import build
from mosaic.config.json_types import JsonValue
from mosaic.errors import MosaicError


class _Settings(TypedDict):
    """The options that `build.evaluate` has under the same names."""

    episodes: int
    seed: int
    gamma: float | None
    env_id: str | None
    max_steps: int | None
    policy_seed: int | None
    best: bool
    video: bool
    repeat: bool


@click.command("eval")
@run_argument
@click.option(
    "--episodes", type=click.IntRange(1), default=20, show_default=True, help="Number of episodes."
)
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the evaluation."
)
@click.option(
    "--gamma", type=click.FloatRange(0, 1), help="Discount factor (default: the policy's)."
)
@click.option("--env-id", help="Environment (default: the one it was trained in).")
@click.option("--max-steps", type=click.IntRange(1), help="Cut episodes after this many steps.")
@click.option(
    "--policy-seed",
    type=click.IntRange(0),
    help="Seed to play if the run trained several (default: the best in training).",
)
@click.option(
    "--best", is_flag=True, help="Play the best policy evaluated beside training, not the newest."
)
@click.option("--video", is_flag=True, help="Record every episode.")
@click.option("--repeat", is_flag=True, help="Repeat until cancelled.")
@click.option("--detach", is_flag=True, help="Print the id of the evaluation and return.")
@json_option
def evaluate(run: str, detach: bool, as_json: bool, **settings: Unpack[_Settings]) -> int:
    """Evaluate the newest policy of RUN, or its best.

    The evaluation is a run of its own.
    """
    with TrainerClient.connect() as trainer:
        base = trainer.get(run)
        record = trainer.submit(build.evaluate(base, **settings), parent_run_id=base.run_id)
        if detach:
            print(json.dumps({"run_id": record.run_id}) if as_json else record.run_id)
            return 0
        if as_json:
            record = trainer.wait(record.run_id)
            code = 0 if record.completed else 1
        else:
            code = follow(trainer, record.run_id)
        summary = _summary(trainer, record.run_id)
    if as_json:
        output.print_json({**record.to_dict(), "evaluation": summary})
    elif summary:
        output.say(_sentence(summary))
    return code


def _summary(trainer: TrainerClient, run_id: str) -> dict[str, JsonValue] | None:
    """What the evaluation wrote, read through the daemon; None if it wrote nothing."""
    try:
        return trainer.read_file(run_id, "eval_summary.json").document() or None
    except MosaicError:
        # It failed or was cancelled before its end, which its outcome says.
        return None


def _sentence(summary: Mapping[str, JsonValue]) -> str:
    """What an evaluation says about itself; a worker may write less than all of it."""
    numbers = {
        name: output.score(value)
        for name in ("mean", "std", "min", "median", "max", "iqm")
        if isinstance(value := summary.get(name), int | float)
    }
    said = f"return {numbers['mean']}" if "mean" in numbers else "no mean return reported"
    if "std" in numbers:
        said += f" ± {numbers['std']}"
    spread = [f"{name} {numbers[name]}" for name in ("min", "median", "max") if name in numbers]
    if "iqm" in numbers:
        given = summary.get("iqm_confidence_interval")
        interval = given if isinstance(given, list) and given else [None, None]
        between = " to ".join(
            output.score(end if isinstance(end, int | float) else None) for end in interval
        )
        spread.append(f"IQM {numbers['iqm']}, 95 % interval {between}")
    details = f" ({', '.join(spread)})" if spread else ""
    return f"{summary.get('episodes', 'some')} episodes: {said}{details}"
