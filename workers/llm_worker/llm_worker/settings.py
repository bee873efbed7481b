"""The settings of a run and everything that can be wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from llm_worker.errors import SettingsError
from llm_worker.play.models import SCRIPTED, find_model
from llm_worker.table.names import TABLE_GAMES
from mosaic.config.model import Extras
from mosaic.workers import did_you_mean

# Settings that every worker accepts; those that mean nothing here do no harm.
_COMMON = frozenset(Extras.model_fields)
_OWN_FIELDS = ("env_id", "seed", "checkpoint_path", "mode")
SEED = Annotated[
    int, Field(ge=0, le=2**32 - 1, description="seed of the first episode; each next adds 1")
]
M = TypeVar("M", bound=BaseModel)


class PolicyFile(BaseModel):
    """Where a trained policy is: who trained it, its file or folder, its environment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    worker: str
    path: str
    env_id: str


class Settings(BaseModel):
    """One run. The descriptions drive the form, the flags and the checks."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    env_id: Annotated[str, Field(description="any Gymnasium environment")] = "BabyAI-GoToObj-v0"
    seed: SEED = 1
    episodes: Annotated[int, Field(ge=1, description="episodes to play")] = 10
    max_steps: Annotated[
        int, Field(ge=0, description="longest episode; 0: the environment's own limit")
    ] = 0
    model: Annotated[
        str,
        Field(
            description="embedded, embedded:FILE.gguf, smollm2, llamacpp:NAME, ollama:NAME, "
            "vllm:NAME, openai:NAME, openrouter:NAME, random, bot, or the URL of an "
            "OpenAI-compatible server, http://HOST:PORT/v1#NAME"
        ),
    ] = "embedded"
    players: Annotated[
        str,
        Field(
            description="board games: who plays, separated by commas: random, bot, llm:MODEL, "
            "run:ID or human; empty: the model against random. Each seed is played in every order "
            "of the seats"
        ),
    ] = ""
    policies: Annotated[
        dict[str, PolicyFile],
        Field(description="where the policy of each player run:ID is; commands fill it in"),
    ] = {}
    api_key: Annotated[str, Field(description="the server's key; kept in the secret store")] = ""
    proxy: Annotated[str, Field(description="HTTP proxy for the model server; empty: none")] = ""
    answer: Annotated[
        Literal["auto", "schema", "tools", "text"],
        Field(description="how the model is made to answer; auto: what the server honours"),
    ] = "auto"
    temperature: Annotated[float, Field(ge=0, le=2, description="0: the likeliest answer")] = 0.0
    max_tokens: Annotated[int, Field(ge=8, le=32768, description="longest answer")] = 200
    probabilities: Annotated[
        bool, Field(description="ask how likely each action was; some servers refuse")
    ] = False
    history: Annotated[int, Field(ge=0, le=1000, description="earlier steps in the prompt")] = 4
    keep_reasoning: Annotated[bool, Field(description="keep reasons in the history")] = False
    plan: Annotated[
        int, Field(ge=1, le=50, description="steps that one answer may plan; 1: ask at each step")
    ] = 1
    pictures: Annotated[bool, Field(description="send a picture of each step to the model")] = False
    system_prompt: Annotated[
        str, Field(description="template of the first message; empty: the default")
    ] = ""
    step_prompt: Annotated[
        str, Field(description="template of each step's message; empty: the default")
    ] = ""
    invalid_retries: Annotated[
        int, Field(ge=0, le=10, description="questions after an invalid answer, with the reason")
    ] = 2
    default_action: Annotated[
        str, Field(description="action when no answer is valid; empty: the first one")
    ] = ""
    timeout_s: Annotated[float, Field(gt=0, le=3600, description="patience with one request")] = (
        60.0
    )
    retries: Annotated[
        int, Field(ge=0, le=100, description="further attempts after a failed request")
    ] = 6
    retry_limit_s: Annotated[
        float, Field(ge=0, le=86400, description="longest wait for a failing server in one step")
    ] = 300.0
    budget_tokens: Annotated[int, Field(ge=0, description="stop after so many; 0: no limit")] = 0
    budget_cost: Annotated[
        float, Field(ge=0, description="stop after this cost in dollars; 0: no limit")
    ] = 0.0
    budget_minutes: Annotated[float, Field(ge=0, description="stop after so long; 0: no limit")] = (
        0.0
    )
    price_in: Annotated[
        float, Field(ge=-1, description="dollars per million prompt tokens; -1: unknown")
    ] = -1.0
    price_out: Annotated[
        float, Field(ge=-1, description="dollars per million answer tokens; -1: unknown")
    ] = -1.0
    frames: Annotated[bool, Field(description="record a picture of each step")] = True
    env_kwargs: Annotated[
        dict[str, JsonValue], Field(description="arguments for the environment")
    ] = {}
    checkpoint_path: Annotated[str, Field(description="the run to continue")] = ""
    mode: Literal["train", "resume_training"] = "train"


def from_config(config: Mapping[str, JsonValue]) -> Settings:
    """Settings from a worker's part of a configuration.

    Raises:
        SettingsError: With every problem: unknown names, wrong types, values out of range.
    """
    settings = read_fields(Settings, config, "llm")
    problems = semantic_problems(settings)
    if problems:
        raise SettingsError("; ".join(problems), _help("llm"))
    return settings


def read_fields(kind: type[M], config: Mapping[str, JsonValue], algo: str) -> M:
    """Settings of one kind from a worker's part of a configuration, each value checked by itself.

    Raises:
        SettingsError: With every problem.
    """
    extras = config.get("extras")
    given = dict(extras) if isinstance(extras, dict) else {}
    parameters = given.pop("algo_params", None)
    own = {name: config.get(name) for name in _OWN_FIELDS[:2]}
    named = {**given, **(parameters if isinstance(parameters, dict) else {})}
    known = {**own, **{name.replace("-", "_"): value for name, value in named.items()}}
    fields = set(kind.model_fields)
    strange = [name for name in known if name not in fields and name not in _COMMON]
    # Fields that the platform writes as null, or as an empty environment, are not given.
    chosen = {n: v for n, v in known.items() if n in fields and v not in (None, "")}
    problems = [f"there is no setting {name!r}{did_you_mean(name, fields)}" for name in strange]
    try:
        settings = kind.model_validate(_with_floats(kind, chosen))
    except ValidationError as error:
        problems += [_sentence(dict(item)) for item in error.errors()]
    else:
        if not problems:
            return settings
    raise SettingsError("; ".join(problems), _help(algo))


def _help(algo: str) -> str:
    return f"see: mosaic workers --algos {algo}"


def semantic_problems(settings: Settings) -> list[str]:
    """What is wrong although every single value is allowed."""
    problems = []
    try:
        model = find_model(settings.model, settings.price_in, settings.price_out)
    except ValueError as error:
        return [str(error)]
    if settings.budget_cost and not model.price.known:
        problems.append(
            "budget_cost needs price_in and price_out: the price of this model is unknown"
        )
    problems += table_problems(settings)
    if settings.plan > 1 and model.reads_only_the_moment:
        problems.append("plan: the shipped model answers with one action; choose another model")
    return problems


def players_of(settings: Settings) -> list[str]:
    """The players of a board game, by name."""
    named = [name.strip() for name in settings.players.split(",") if name.strip()]
    model = settings.model if settings.model in SCRIPTED else f"llm:{settings.model}"
    other = "random" if model != "random" else "bot"
    return named or [model, other]


def table_problems(settings: Settings) -> list[str]:
    """What is wrong with the players of a board game."""
    if settings.env_id not in TABLE_GAMES:
        return ["players: this environment has one player"] if settings.players else []
    players, seats = players_of(settings), TABLE_GAMES[settings.env_id]
    problems = [] if len(set(players)) == seats else [f"players: name {seats} different ones"]
    for name in players:
        if name == "human":
            continue
        if name.startswith("run:"):
            if name not in settings.policies:
                problems.append(
                    f"players: the policy of {name} is not given; name it in `mosaic arena` or "
                    "`mosaic llm play`, which look for it"
                )
            continue
        try:
            find_model(name.removeprefix("llm:"), settings.price_in, settings.price_out)
        except ValueError as error:
            problems.append(f"players: {error}")
        if name not in SCRIPTED and not name.startswith("llm:"):
            problems.append(
                f"players: {name!r} is none; write random, bot, llm:MODEL, run:ID or human"
            )
    return problems


def _with_floats(kind: type[BaseModel], values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Whole numbers are fine where a number is asked for; strict models refuse them."""
    floats = {n for n, item in kind.model_fields.items() if item.annotation is float}
    return {
        name: float(value)
        if name in floats and isinstance(value, int) and not isinstance(value, bool)
        else value
        for name, value in values.items()
    }


def _sentence(item: Mapping[str, object]) -> str:
    where = ".".join(map(str, item["loc"])) if isinstance(item["loc"], tuple) else ""
    return f"{where}: {str(item['msg']).lower()}, not {str(item.get('input'))[:80]!r}"
