"""Curricula as data: presets, the grammar of stages and conditions, and what can be wrong.

The engine itself (Syllabus-RL) is loaded by `wrappers.tasks`, in the training process only.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypedDict, cast

from mosaic.workers import Problem, did_you_mean

# The training process reads its schedule here too; it must not wait for pydantic's import.
if TYPE_CHECKING:
    from cleanrl_worker.config import CleanRLWorkerConfig
    from mosaic.config.model import CurriculumStage

VARIABLE = "CLEANRL_CURRICULUM"
DEFAULT_CONDITION = "steps>=100000"
BAD_CURRICULUM = "CFG132"
_FIELD = "extras/curriculum_schedule"
_COUNT = re.compile(r"(steps|episodes)>=[1-9]\d*")
_RETURN = re.compile(r"episode_return>=[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
# Building an environment of each stage loads its library; a cold disk makes that slow.
_CHECK_LIMIT_S = 120.0


class StageDraft(TypedDict, total=False):
    """A stage as a user writes it."""

    env_id: str
    steps: int
    episodes: int
    episode_return: float
    condition: str


BABYAI_GOTO_CURRICULUM: list[StageDraft] = [
    {"env_id": "BabyAI-GoToRedBallNoDists-v0", "steps": 200_000},
    {"env_id": "BabyAI-GoToRedBall-v0", "steps": 200_000},
    {"env_id": "BabyAI-GoToObj-v0", "steps": 200_000},
    {"env_id": "BabyAI-GoToLocal-v0"},
]
BABYAI_DOORKEY_CURRICULUM: list[StageDraft] = [
    {"env_id": "MiniGrid-DoorKey-5x5-v0", "steps": 200_000, "condition": "episode_return>=0.8"},
    {"env_id": "MiniGrid-DoorKey-6x6-v0", "steps": 200_000, "condition": "episode_return>=0.8"},
    {"env_id": "MiniGrid-DoorKey-8x8-v0", "steps": 200_000, "condition": "episode_return>=0.8"},
    {"env_id": "MiniGrid-DoorKey-16x16-v0"},
]
PRESETS: dict[str, list[StageDraft]] = {
    "BABYAI_GOTO_CURRICULUM": BABYAI_GOTO_CURRICULUM,
    "BABYAI_DOORKEY_CURRICULUM": BABYAI_DOORKEY_CURRICULUM,
}


@dataclass(frozen=True)
class Stage:
    """One environment, and when it has been learned enough."""

    env_id: str
    condition: str


def read_schedule(given: list[CurriculumStage] | str | None) -> list[Stage] | str:
    """The stages of a schedule, or a sentence on what is wrong; an empty list for none.

    Args:
        given: A list of stages, a preset's name, or None.
    """
    if given is None:
        return []
    if isinstance(given, str):
        if given not in PRESETS:
            hint = did_you_mean(given, PRESETS)
            return f"there is no preset {given!r}; allowed: {', '.join(PRESETS)}{hint}"
        stages = PRESETS[given]
    else:
        stages = [cast(StageDraft, stage.model_dump(exclude_none=True)) for stage in given]
    if len(stages) < 2:
        return "a curriculum is a list of at least two stages, or a preset's name"
    sentences = [_stage_problem(number, item) for number, item in enumerate(stages)]
    if any(sentences):
        return "; ".join(filter(None, sentences))
    return [Stage(item["env_id"], _condition(item)) for item in stages]


def schedule_in_force() -> list[Stage]:
    """The schedule this process was started with; empty for ordinary training."""
    text = os.environ.get(VARIABLE)
    return [Stage(**item) for item in json.loads(text)] if text else []


def environment(config: CleanRLWorkerConfig) -> dict[str, str]:
    """The variables that hand a schedule to the training process."""
    stages = read_schedule(config.extras.curriculum_schedule)
    if not stages or isinstance(stages, str):
        return {}
    return {VARIABLE: json.dumps([asdict(stage) for stage in stages])}


def problems(config: CleanRLWorkerConfig, *, thorough: bool) -> Iterator[Problem]:
    """Everything wrong with a schedule.

    Args:
        config: The run.
        thorough: Whether to build the environments and compare their spaces.
    """
    from cleanrl_worker import bundles, catalog
    from cleanrl_worker.config import problem

    stages = read_schedule(config.extras.curriculum_schedule)
    if isinstance(stages, str):
        yield problem(_FIELD, BAD_CURRICULUM, stages)
        return
    if not stages:
        return
    if sentence := _deaf(config.algo):
        yield problem(_FIELD, BAD_CURRICULUM, sentence)
        return
    python = bundles.interpreter(bundles.wanted_sets(config))
    known = {item["id"] for item in catalog.environments(python)}
    unknown = [(number, stage) for number, stage in enumerate(stages) if stage.env_id not in known]
    for number, stage in unknown:
        text = f"there is no environment {stage.env_id!r}{did_you_mean(stage.env_id, known)}"
        yield problem(f"{_FIELD}/{number}/env_id", BAD_CURRICULUM, text)
    if not unknown and thorough:
        sentence = compare_spaces([stage.env_id for stage in stages], python)
        if sentence:
            yield problem(_FIELD, BAD_CURRICULUM, sentence)


def _deaf(algo: str) -> str:
    """Why a curriculum would change nothing for an algorithm; empty when it is followed."""
    from cleanrl_worker.resolution import UnknownAlgorithmError, resolve
    from cleanrl_worker.running.schema import SCRIPTS, read_schema, script_names

    try:
        script = resolve(algo)
    except UnknownAlgorithmError:
        return ""  # told by the check of the algorithm itself
    if script.bundled and script.schema.asks_for_envs:
        return ""
    able = [name for name in script_names() if read_schema(SCRIPTS / f"{name}.py").asks_for_envs]
    return (
        f"{algo} makes its environments itself and follows no curriculum; "
        f"these do: {', '.join(able)}"
    )


def _stage_problem(number: int, item: Mapping[str, object]) -> str:
    """What the model cannot check: the grammar of conditions."""
    where = f"stage {number}"
    for part in _condition(item).split("|"):
        if not _COUNT.fullmatch(part) and not _RETURN.fullmatch(part):
            return (
                f"{where} has the condition {part!r}; allowed: steps>=N, episodes>=N, "
                "episode_return>=X, joined by |"
            )
    return ""


def _condition(item: Mapping[str, object]) -> str:
    parts = [
        f"{name}>={item[name]}"
        for name in ("steps", "episodes", "episode_return")
        if item.get(name) is not None
    ]
    if item.get("condition") is not None:
        parts.append("".join(str(item["condition"]).split()))
    return "|".join(parts) or DEFAULT_CONDITION


def compare_spaces(env_ids: list[str], python: str) -> str:
    """Why one agent cannot act in all of these; in a process of its own, which loads Gymnasium."""
    done = subprocess.run(
        [python, "-m", "cleanrl_worker.tools.compare_spaces", *env_ids],
        capture_output=True,
        text=True,
        timeout=_CHECK_LIMIT_S,
        check=False,
    )
    return "" if done.returncode == 0 else (done.stdout.strip() or done.stderr.strip()[-300:])
