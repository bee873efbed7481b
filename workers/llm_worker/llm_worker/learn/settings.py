"""The settings of the two trainings of the small model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from llm_worker.errors import SettingsError
from llm_worker.learn.names import BC, GRPO
from llm_worker.settings import SEED, read_fields

DEVICE = "cpu or cuda; auto takes cuda if there is one"


class LearnSettings(BaseModel):
    """What both trainings have in common."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    env_id: Annotated[str, Field(description="the level on which the model is measured")] = (
        "BabyAI-GoToObj-v0"
    )
    seed: SEED = 1
    device: Annotated[Literal["auto", "cpu", "cuda"], Field(description=DEVICE)] = "auto"
    eval_episodes: Annotated[
        int, Field(ge=0, le=1000, description="episodes played before and after; 0: none")
    ] = 20
    eval_steps: Annotated[
        int, Field(ge=1, le=1000, description="longest episode of these measurements")
    ] = 64
    checkpoint_every: Annotated[
        int, Field(ge=0, description="updates between checkpoints; 0: only at the end")
    ] = 200
    checkpoint_path: Annotated[str, Field(description="the run to continue")] = ""
    mode: Literal["train", "resume_training"] = "train"


class BcSettings(LearnSettings):
    """`llm_bc`: imitation of the bot, of people, or of a stronger model."""

    updates: Annotated[int, Field(ge=1, description="batches to learn from")] = 6_860
    batch: Annotated[int, Field(ge=1, le=65_536, description="examples in a batch")] = 512
    learning_rate: Annotated[float, Field(gt=0, le=1, description="step size at its highest")] = (
        2e-3
    )
    bot_episodes: Annotated[
        int, Field(ge=0, description="episodes of BabyAI's bot to imitate; 0: none")
    ] = 26_000
    recorded: Annotated[
        str,
        Field(
            description="a run whose won episodes are imitated: a language model's, a bot's, or a "
            "person's game in env_id"
        ),
    ] = ""
    width: Annotated[int, Field(ge=8, le=4096, description="numbers for each token")] = 128
    layers: Annotated[int, Field(ge=1, le=64, description="layers of the model")] = 4
    heads: Annotated[int, Field(ge=1, le=64, description="heads of each layer")] = 4
    hidden: Annotated[int, Field(ge=8, le=16384, description="width between layers")] = 384


class GrpoSettings(LearnSettings):
    """`llm_grpo`: the model plays, and what paid becomes likelier."""

    start_from: Annotated[
        str,
        Field(
            description="the model to improve: a run of llm_bc or llm_grpo, a FILE.gguf that was "
            "made here, or empty for the shipped one"
        ),
    ] = ""
    updates: Annotated[int, Field(ge=1, description="rounds of play and learning")] = 100
    groups: Annotated[int, Field(ge=1, le=1024, description="worlds in a round")] = 8
    group_size: Annotated[
        int, Field(ge=2, le=256, description="episodes in each world, compared with each other")
    ] = 8
    longest: Annotated[int, Field(ge=1, le=1000, description="longest episode in training")] = 24
    temperature: Annotated[
        float, Field(gt=0, le=5, description="how freely the model tries things")
    ] = 1.0
    learning_rate: Annotated[float, Field(gt=0, le=1, description="step size")] = 1e-4
    epochs: Annotated[int, Field(ge=1, le=32, description="times a round is learned from")] = 2
    # By number and not by size: noise moves the weights as far in a small update as in a large
    # one, so a larger round must make its updates better and not more.
    minibatches: Annotated[
        int, Field(ge=1, le=1024, description="updates in each pass over a round")
    ] = 4
    clip: Annotated[float, Field(gt=0, le=1, description="how far one round may change it")] = 0.2
    kl: Annotated[
        float, Field(ge=0, le=10, description="price of leaving the model it began with")
    ] = 0.02


KINDS: dict[str, type[LearnSettings]] = {BC: BcSettings, GRPO: GrpoSettings}


def from_config(config: Mapping[str, JsonValue]) -> BcSettings | GrpoSettings:
    """The settings of a training from a worker's part of a configuration.

    Raises:
        SettingsError: With every problem.
    """
    algo = str(config["algo"])
    if algo == GRPO:
        return read_fields(GrpoSettings, config, algo)
    settings = read_fields(BcSettings, config, algo)
    problems = []
    if not settings.bot_episodes and not settings.recorded:
        problems.append("there is nothing to imitate: give bot_episodes or recorded")
    if settings.width % (2 * settings.heads):
        problems.append(f"width must be a multiple of {2 * settings.heads}, twice the heads")
    if problems:
        raise SettingsError("; ".join(problems), "see: mosaic workers --algos llm_bc")
    return settings
