"""`mosaic llm`: let a language model play, continue what was interrupted, make the small model."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, cast

import click

from mosaic.arena.match import RUN
from mosaic.cli import output
from mosaic.cli.building import TrainOptions, fresh_config, own_flags
from mosaic.cli.follow import follow
from mosaic.cli.options import json_option, run_argument
from mosaic.client import TrainerClient
from mosaic.client.tables import find_policies
from mosaic.config import build
from mosaic.config.model import Parameters, TrainRunConfig
from mosaic.errors import RunFileError
from mosaic.records import RunRecord
from mosaic.workers.algorithms import find_algorithm

WORKER = "llm"
SUMMARY, STEPS = "llm/summary.json", "llm/steps.jsonl"
EXIT_REFUSED = 2
# A key on the command line would show in the process list; the environment does not.
KEY_VARIABLE = "MOSAIC_LLM_API_KEY"


class Summary(TypedDict, total=False):
    """What a run of a language model reports at its end."""

    outcome: str
    budget: str
    episodes: int
    success: float | None
    success_interval: list[float] | None
    steps_per_second: float | None
    tokens: dict[str, int]
    cost: float | None


class Decided(TypedDict, total=False):
    """What was decided at a step, and why."""

    model: str
    action: str
    reasoning: str
    valid: bool
    tokens: int
    cost: float | None


class Answer(TypedDict):
    """A step of a run, as it was decided then and as it is decided now."""

    episode: int
    step: int
    text: str
    then: Decided
    now: Decided


@click.group()
def llm() -> None:
    """Language models as agents."""


@llm.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    epilog="Any other flag is a setting of the worker: --temperature 0.7 --budget-tokens 100000",
)
@click.argument("env_id")
@click.option(
    "--model",
    default="embedded",
    show_default=True,
    help="embedded, embedded:FILE.gguf, ollama:NAME, openai:NAME, …, or a server's URL.",
)
@click.option(
    "--episodes", type=click.IntRange(1), default=10, show_default=True, help="Number of episodes."
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="First seed.",
)
@click.option("--name", default="", help="Name of the run.")
@click.option("--detach", is_flag=True, help="Print the run's id and return.")
@json_option
@click.pass_context
def play(
    ctx: click.Context,
    /,
    env_id: str,
    model: str,
    episodes: int,
    seed: int,
    name: str,
    detach: bool,
    as_json: bool,
) -> int:
    """Let a language model play ENV_ID.

    The key of a server is read from MOSAIC_LLM_API_KEY.
    """
    algorithm = find_algorithm(WORKER, WORKER)
    flags = own_flags(ctx.args, algorithm, WORKER)
    options = TrainOptions(env_id=env_id, seed=seed, name=name)
    named = [name.strip() for name in str(flags.get("players", "")).split(",")]
    parameters = {**flags, "model": model, "episodes": episodes, **_key(), **_policies(named)}
    return _submit(fresh_config(algorithm, options, parameters), "", detach, as_json)


@llm.command()
@run_argument
@click.option("--detach", is_flag=True, help="Print the id of the new run and return.")
@json_option
def resume(run: str, detach: bool, as_json: bool) -> int:
    """Continue RUN in the middle of its episode.

    The new run takes over what RUN has played and paid for.
    """
    with TrainerClient.connect() as trainer:
        base = trainer.get(run)
        before = build.read_config(trainer.config(base.run_id))
    config = build.resume(before, base, parameters=_key())
    return _submit(config, base.run_id, detach, as_json)


@llm.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    epilog="Any other flag is a setting that is to be different: --system-prompt '…' --history 0",
)
@run_argument
@click.option("--episode", type=click.IntRange(0), default=0, show_default=True)
@click.option("--step", type=click.IntRange(0), default=0, show_default=True)
@click.option("--model", default="", help="Another model than the run's.")
@json_option
@click.pass_context
def ask(ctx: click.Context, /, run: str, episode: int, step: int, model: str, as_json: bool) -> int:
    """Ask again what to do at a recorded step of RUN, with another model or prompt.

    The environment is brought to that step by the recorded actions; nothing is changed in RUN.
    """
    flags = own_flags(ctx.args, find_algorithm(WORKER, WORKER), WORKER)
    with TrainerClient.connect() as trainer:
        base = trainer.get(run)
        config = build.read_config(trainer.config(base.run_id))
        steps = trainer.read_file(base.run_id, STEPS).data
    changed = {**flags, **({"model": model} if model else {}), **_key()}
    answer = _ask(build.with_parameters(config, changed), steps, episode, step)
    if answer is None:
        return EXIT_REFUSED
    if as_json:
        output.print_json(answer)
    else:
        output.say(_both_answers(answer))
    return 0


@llm.command("make-model")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--episodes", type=click.IntRange(1), default=26_000, show_default=True)
@click.option("--steps", type=click.IntRange(1), default=6_860, show_default=True)
@click.option("--batch", type=click.IntRange(1), default=512, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--device", default="", help="cpu or cuda (default: cuda if there is one).")
@click.option(
    "--from",
    "runs",
    multiple=True,
    metavar="RUN",
    help="Imitate the episodes that this run has won, too (repeatable).",
)
def make_model(
    file: Path, episodes: int, steps: int, batch: int, seed: int, device: str, runs: tuple[str, ...]
) -> int:
    """Train the small model on BabyAI's bot and write it to FILE (GGUF).

    The same arguments give the same model on the same kind of device.
    """
    command = [sys.executable, "-m", "llm_worker.model.make", str(file)]
    command += ["--episodes", str(episodes), "--steps", str(steps), "--batch", str(batch)]
    command += ["--seed", str(seed), *(["--device", device] if device else [])]
    with tempfile.TemporaryDirectory(prefix="mosaic-make-model-") as folder:
        for path in _recorded_steps(runs, Path(folder)):
            command += ["--recorded", str(path)]
        return subprocess.run(command, check=False).returncode


def _policies(players: Sequence[str]) -> Parameters:
    """Where the policies of the players `run:ID` are, if there are any."""
    if not any(name.startswith(RUN) for name in players):
        return {}
    with TrainerClient.connect() as trainer:
        return {"policies": dict(find_policies(trainer, players))}


def _recorded_steps(runs: Sequence[str], folder: Path) -> list[Path]:
    """Copies of what runs of language models, bots or chance have recorded."""
    if not runs:
        return []  # the model can be made without a daemon
    with TrainerClient.connect() as trainer:
        paths = []
        for run in runs:
            record = trainer.get(run)
            paths.append(folder / f"{record.run_id}.jsonl")
            paths[-1].write_bytes(trainer.read_file(record.run_id, STEPS).data)
        return paths


def _ask(config: TrainRunConfig, steps: bytes, episode: int, step: int) -> Answer | None:
    """Ask in a process of the worker, which may have packages that commands do without."""
    with tempfile.TemporaryDirectory(prefix="mosaic-ask-") as folder:
        files = {"config": Path(folder) / "config.json", "steps": Path(folder) / "steps.jsonl"}
        files["config"].write_text(json.dumps(config.document()))
        files["steps"].write_bytes(steps)
        command = [sys.executable, "-m", "llm_worker.again"]
        for name, path in files.items():
            command += [f"--{name}", str(path)]
        command += ["--episode", str(episode), "--step", str(step)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    # What an environment prints comes before the answer; why there is none is on stderr already.
    return cast(Answer, json.loads(done.stdout.splitlines()[-1])) if not done.returncode else None


def _both_answers(answer: Answer) -> str:
    now, then = answer["now"], answer["then"]
    lines = [answer["text"], ""]
    for when, said in ((f"then: {then['action']}", then), (f"now:  {now['action']}", now)):
        lines.append(f"{when}  ({said['reasoning']})" if said["reasoning"] else when)
    default = "" if now["valid"] else ", no valid answer: the default action"
    lines.append(f"      {now['model']}, {now['tokens']} tokens{default}")
    return "\n".join(lines)


def _key() -> dict[str, str]:
    key = os.environ.get(KEY_VARIABLE, "")
    return {"api_key": key} if key else {}


def _submit(config: TrainRunConfig, parent: str, detach: bool, as_json: bool) -> int:
    with TrainerClient.connect() as trainer:
        record = trainer.submit(config, parent_run_id=parent)
        if detach:
            print(json.dumps({"run_id": record.run_id}) if as_json else record.run_id)
            return 0
        if as_json:
            record = trainer.wait(record.run_id)
            summary = _summary(trainer, record)
            output.print_json(
                {
                    "run_id": record.run_id,
                    "run_outcome": record.outcome,
                    "reason": record.reason,
                    **summary,
                }
            )
            return 0 if record.completed else 1
        code = follow(trainer, record.run_id)
        if summary := _summary(trainer, record):
            output.say(_sentence(summary))
        return code


def _summary(trainer: TrainerClient, record: RunRecord) -> Summary:
    try:
        content = trainer.read_file(record.run_id, SUMMARY)
    except RunFileError:
        return {}  # it ended before its first episode did; the record has the reason
    return cast(Summary, content.document())


def _sentence(summary: Summary) -> str:
    parts = [f"{summary['episodes']} episodes"]
    share, interval = summary.get("success"), summary.get("success_interval")
    if share is not None and interval:
        parts.append(f"success {share:.0%} (95 % interval {interval[0]:.0%} to {interval[1]:.0%})")
    tokens = summary["tokens"]
    parts.append(f"{tokens['in'] + tokens['out']:,} tokens")
    cost = summary.get("cost")
    parts.append("cost unknown" if cost is None else f"cost ${cost:.4f}")
    parts.append(f"{output.number(summary.get('steps_per_second'))} steps/s")
    stopped = f"; budget: {summary.get('budget')}" if summary.get("budget") else ""
    return ", ".join(parts) + stopped
