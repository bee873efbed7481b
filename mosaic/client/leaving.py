"""What leaves the house: a policy as an ONNX graph or a page, episodes as a Minari data set.

The worker has torch and the environments, so its exporter does the work, here and not at the
daemon: the result is wanted where the command is typed. What it needs is fetched first.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import cast

from mosaic import __version__
from mosaic.client.sdk import TrainerClient
from mosaic.config import build
from mosaic.config.json_types import JsonValue
from mosaic.errors import InvalidArgumentError, NotRecordedError
from mosaic.presenting.actor import PERSON, actor_of
from mosaic.records import RunRecord, StepRecord
from mosaic.workers.discovery import discover

_POLICY = "policy"


def export_onnx(trainer: TrainerClient, record: RunRecord, out: Path) -> dict[str, JsonValue]:
    """Write the newest policy of a run as `model.onnx`, checked, with a model card.

    Args:
        trainer: The daemon.
        record: The run.
        out: The folder to write.

    Raises:
        InvalidArgumentError: The run has no policy, or the policy cannot be written as ONNX.
    """
    if (out / "model.onnx").exists():
        raise InvalidArgumentError(f"{out} has a model already; choose another folder with -o")
    return _export_policy(trainer, record, "onnx", out)


def export_page(
    trainer: TrainerClient, record: RunRecord, out: Path, overwrite: bool = False
) -> dict[str, JsonValue]:
    """Write one HTML page that plays the newest policy of a run in a browser.

    Raises:
        InvalidArgumentError: The file exists, or the environment cannot be played in a browser.
    """
    if out.exists() and not overwrite:
        raise InvalidArgumentError(f"{out} exists; use --force, or -o for another name")
    return _export_policy(trainer, record, "html", out)


def _export_policy(
    trainer: TrainerClient, record: RunRecord, form: str, out: Path
) -> dict[str, JsonValue]:
    with tempfile.TemporaryDirectory(prefix="mosaic-export-") as folder:
        policy = _fetch_policy(trainer, record, Path(folder))
        about = json.dumps(_about(trainer, record))
        words = ["--policy", str(policy), "--out", str(out.absolute()), "--about", about]
        return _started(_exporter(record.worker), form, *words)


def export_minari(
    trainer: TrainerClient, record: RunRecord, dataset_id: str, episodes: int, seed: int
) -> dict[str, JsonValue]:
    """Write a run's recorded episodes, or some that its policy plays now, as a Minari data set.

    Args:
        trainer: The daemon.
        record: The run: a game that a person played, or a trained policy.
        dataset_id: Minari's name for the data set, such as `cartpole/me-v0`.
        episodes: How many a policy plays.
        seed: Seed of its first episode.

    Raises:
        NotRecordedError: The run has neither episodes nor a policy.
        InvalidArgumentError: The name is taken, or the episodes do not fit the environment.
    """
    with tempfile.TemporaryDirectory(prefix="mosaic-export-") as folder:
        about = {**_about(trainer, record), "algorithm": record.algo or record.worker}
        words = ["--id", dataset_id, "--about", json.dumps(about), "--env-id", record.env_id]
        if record.newest_checkpoint(_POLICY) is not None:
            policy = _fetch_policy(trainer, record, Path(folder))
            words += ["--policy", str(policy), "--episodes", str(episodes), "--seed", str(seed)]
        else:
            recorded = Path(folder) / "episodes.jsonl"
            with recorded.open("w", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(item)}\n" for item in _recorded(trainer, record))
            words += ["--recorded", str(recorded)]
        return _started(_exporter(record.worker), "minari", *words)


def _recorded(trainer: TrainerClient, record: RunRecord) -> Iterator[dict[str, JsonValue]]:
    """The episodes that a run has recorded whole, with the observation that ended each."""
    ended = {
        item.episode: (json.loads(item.info_json or "{}"), item.seed)
        for batch in trainer.episodes(record.run_id)
        for item in batch.episodes
    }
    steps: dict[int, list[StepRecord]] = {}
    for batch in trainer.steps(record.run_id):
        for step in batch.steps:
            steps.setdefault(step.episode, []).append(step)
    if not steps:
        raise NotRecordedError(
            f"run {record.run_id} has recorded no episodes and has no policy to play some; "
            "give a game of `mosaic play` or a trained run"
        )
    whole = {
        number: ended[number] for number in steps if "final_observation" in _info(ended, number)
    }
    if not whole:
        raise NotRecordedError(
            f"the worker {record.worker} did not record how the episodes of run {record.run_id} "
            "ended, which a data set needs; games of `mosaic play` have it"
        )
    for number, (info, seed) in whole.items():
        rows = steps[number]
        seen: list[JsonValue] = [json.loads(step.observation_json) for step in rows]
        yield {
            "observations": [*seen, info["final_observation"]],
            "actions": [json.loads(step.action_json) for step in rows],
            "rewards": [step.reward for step in rows],
            "terminated": [step.terminated for step in rows],
            "truncated": [step.truncated for step in rows],
            "seed": seed,
            **_who_acted(rows),
        }


def _who_acted(rows: Sequence[StepRecord]) -> dict[str, JsonValue]:
    """For each step whether a person took it; nothing where a run does not say."""
    actors = [actor_of(step.info_json) for step in rows]
    return {"person": [actor == PERSON for actor in actors]} if all(actors) else {}


def _info(
    ended: Mapping[int, tuple[dict[str, JsonValue], int]], number: int
) -> Mapping[str, JsonValue]:
    # A step in the middle of an episode that never ended has no record of its own.
    return ended[number][0] if number in ended else {}


def _fetch_policy(trainer: TrainerClient, record: RunRecord, folder: Path) -> Path:
    newest = record.newest_checkpoint(_POLICY)
    if newest is None:
        raise InvalidArgumentError(f"run {record.run_id} has saved no policy")
    target = folder / PurePosixPath(newest.path).name
    trainer.download(record.run_id, newest.path, target)
    return target


def _about(trainer: TrainerClient, record: RunRecord) -> dict[str, JsonValue]:
    """What a reader of the export wants to know about the run."""
    newest = record.newest_checkpoint(_POLICY)
    config = build.read_config(trainer.config(record.run_id))
    return {
        "run_id": record.run_id,
        "run_name": record.run_name,
        "seed": record.seed,
        "steps": newest.step if newest else record.progress.step,
        "mean_return": record.metrics.get("episodic_return"),
        "settings": dict(config.worker.extras.algo_params),
        "policy_sha256": newest.sha256 if newest else None,
        "mosaic": __version__,
    }


def _exporter(worker: str) -> str:
    """The module that exports; of another worker where the run's own has none."""
    able = {
        found.worker_type: found.capabilities.exporter
        for found in discover().values()
        if found.capabilities and found.capabilities.exporter
    }
    if not able:
        raise InvalidArgumentError("no installed worker can export policies or episodes")
    return able.get(worker) or next(iter(able.values()))


def _started(module: str, form: str, *words: str) -> dict[str, JsonValue]:
    done = subprocess.run(
        [sys.executable, "-P", "-m", module, form, *words],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise InvalidArgumentError(said[-1].removeprefix("error: "))
    return cast(dict[str, JsonValue], json.loads(lines[-1]))
