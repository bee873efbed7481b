"""What this worker offers, as plain data for forms, help and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from llm_worker import TRAININGS
from llm_worker.learn.names import BC, GRPO
from llm_worker.learn.settings import KINDS
from llm_worker.settings import Settings
from llm_worker.table.names import TABLE_GAMES
from mosaic.workers.dry_run import by_command

ALGORITHM = "llm"
TOY_TEXT = ("FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1")
CONTROL = ("CartPole-v1", "MountainCar-v0", "Acrobot-v1")
CONTINUOUS = ("Pendulum-v1", "MountainCarContinuous-v0")
BABYAI = (
    "BabyAI-GoToObj-v0",
    "BabyAI-GoToRedBall-v0",
    "BabyAI-GoToLocal-v0",
    "BabyAI-PickupLoc-v0",
    "BabyAI-GoToDoor-v0",
    "BabyAI-OpenDoor-v0",
    "BabyAI-PutNextLocal-v0",
    "BabyAI-UnlockPickup-v0",
    "BabyAI-GoToSeq-v0",
    "BabyAI-BossLevel-v0",
    "MiniGrid-Empty-8x8-v0",
    "MiniGrid-DoorKey-5x5-v0",
    "MiniGrid-FourRooms-v0",
)
# Games of TextArena that need neither a network nor a second player; others may be typed too.
WORDS = (
    "2048-v0",
    "FifteenPuzzle-v0",
    "FrozenLake-v0",
    "GuessTheNumber-v0",
    "LightsOut-v0",
    "Mastermind-v0",
    "Minesweeper-v0",
    "PegJump-v0",
    "Sokoban-v0",
    "Sudoku-v0",
    "TowerOfHanoi-v0",
)
_DRY_RUN_LIMIT_S = 180.0
_TITLES = {
    BC: "The small model learns to imitate: the bot, a person, or a stronger model",
    GRPO: "The small model learns from the rewards of what it tries",
}
_NAMING_RUNS = ("recorded", "start_from")
_TINY = {"updates": 2, "eval_episodes": 2, "eval_steps": 3}
_SMOKE = {
    BC: {**_TINY, "batch": 8, "bot_episodes": 4, "width": 16, "layers": 1, "hidden": 16},
    GRPO: {**_TINY, "groups": 1, "group_size": 2, "longest": 2},
}
_HIDDEN_FIELDS = ("mode", "checkpoint_path")


def describe(algo: str) -> dict[str, object]:
    """The worker's settings and what it can act on.

    Raises:
        ValueError: There is no such algorithm.
    """
    if algo in TRAININGS:
        return _describe_training(algo)
    if algo not in ("", ALGORITHM):
        raise ValueError(f"this worker has {ALGORITHM}, {', '.join(TRAININGS)} and no {algo!r}")
    shown = {n: f for n, f in Settings.model_fields.items() if n not in _HIDDEN_FIELDS}
    return {
        "title": "A language model that acts step by step",
        "family": "LLM",
        "actions": ["discrete", "continuous", "multi_discrete", "text"],
        "default_env": "BabyAI-GoToObj-v0" if find_spec("minigrid") else "FrozenLake-v1",
        "requires": [ALGORITHM],
        "arguments": [_argument(name, item) for name, item in shown.items()],
        "smoke": {"env_id": "FrozenLake-v1"},
    }


def _describe_training(algo: str) -> dict[str, object]:
    kind = KINDS[algo]
    shown = {n: f for n, f in kind.model_fields.items() if n not in _HIDDEN_FIELDS}
    arguments = [_argument(name, item) for name, item in shown.items()]
    for one in arguments:
        if one["name"] in _NAMING_RUNS:
            one |= {"path": True, "run": True}
    return {
        "title": _TITLES[algo],
        "family": "LLM",
        "actions": ["discrete"],
        "default_env": "BabyAI-GoToObj-v0",
        "requires": [ALGORITHM],
        "arguments": arguments,
        "smoke": _SMOKE[algo],
    }


def environments() -> list[dict[str, str | int]]:
    """Environments with a describer of their own; any other Gymnasium environment works too."""
    listed = [_environment(env_id, "toy_text", "discrete") for env_id in TOY_TEXT]
    listed += [_environment(env_id, "gymnasium", "vector") for env_id in CONTROL]
    listed += [_environment(env_id, "gymnasium", "vector", "continuous") for env_id in CONTINUOUS]
    if find_spec("pettingzoo"):
        listed += [_table(env_id, seats) for env_id, seats in TABLE_GAMES.items()]
    if find_spec("textarena"):
        listed += [_environment(f"textarena:{name}", "textarena", "text", "text") for name in WORDS]
    if find_spec("minigrid"):
        listed += [_environment(env_id, "minigrid", "grid") for env_id in BABYAI]
    return listed


def dry_run(config: Mapping[str, object]) -> tuple[bool, str]:
    """Check a configuration and ask the model server, in a process of its own: (fits, text)."""
    return by_command("llm_worker.cli", config, _DRY_RUN_LIMIT_S)


def _argument(name: str, item: FieldInfo) -> dict[str, object]:
    kind = item.annotation
    choices = list(get_args(kind)) if get_origin(kind) is Literal else []
    low = next((m.ge for m in item.metadata if isinstance(m, Ge)), None)
    high = next((m.le for m in item.metadata if isinstance(m, Le)), None)
    above = next((m.gt for m in item.metadata if isinstance(m, Gt)), None)
    below = next((m.lt for m in item.metadata if isinstance(m, Lt)), None)
    bounded = choices or any(bound is not None for bound in (low, high, above, below))
    return {
        "name": name,
        "type": "any" if isinstance(item.default, dict) else type(item.default).__name__,
        "default": item.default,
        "help": item.description,
        "range": {
            "low": low if low is not None else above,
            "high": high if high is not None else below,
            "low_open": above is not None,
            "high_open": below is not None,
            "choices": choices,
        }
        if bounded
        else None,
    }


def _table(env_id: str, seats: int) -> dict[str, str | int]:
    return {**_environment(env_id, "pettingzoo", "grid"), "agents": seats}


def _environment(
    env_id: str, family: str, observations: str, actions: str = "discrete"
) -> dict[str, str | int]:
    return {"id": env_id, "family": family, "actions": actions, "observations": observations}
