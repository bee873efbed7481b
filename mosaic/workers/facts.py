"""What workers say about their algorithms and environments, as plain data."""

from typing import TYPE_CHECKING, NotRequired, TypedDict

if TYPE_CHECKING:
    from pydantic import JsonValue


class RangeFacts(TypedDict):
    """What a value may be: bounds for numbers, or a set of words."""

    low: float | None
    high: float | None
    low_open: bool
    high_open: bool
    choices: list[str]


class ArgumentFacts(TypedDict):
    """One argument of an algorithm, as its worker describes it.

    `path` says that the value names a file or folder of the user's. A relative one then means
    the folder in which the command was typed, not the directory of the run. `run` says that it may
    also name a run, whose directory is then meant.
    """

    name: str
    type: str
    default: "JsonValue"
    help: str
    range: RangeFacts | None
    path: NotRequired[bool]
    run: NotRequired[bool]


class AlgorithmFacts(TypedDict, total=False):
    """What an algorithm says about itself; a worker may say more.

    `smoke` are its short settings for a quick proof, `environment` the variables that a run of
    it needs, such as where its script was found. `curricula` are the environments of each preset
    of a curriculum, in their order; an algorithm that follows no curriculum leaves it out.
    """

    title: str
    family: str
    paper: str
    default_env: str
    actions: list[str]
    observations: list[str]
    max_agents: int
    requires: list[str]
    arguments: list[ArgumentFacts]
    smoke: "dict[str, JsonValue]"
    environment: dict[str, str]
    curricula: dict[str, list[str]]


class EnvironmentFacts(TypedDict, total=False):
    """One environment as a worker's `environments` lists it.

    `paradigm` is `sequential` and `agents` is 1 where they are not given.
    """

    id: str
    family: str
    actions: str
    observations: str
    paradigm: str
    agents: int
