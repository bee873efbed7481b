"""What this worker offers, as plain data for forms, help and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from importlib.util import find_spec

from mosaic.workers.dry_run import by_command
from spade_bdi_rl_worker.settings import MODES, POLICIES, Settings

ALGORITHM = "spade_bdi"
TOY_TEXT = ("FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4", "CliffWalking-v1")
# Layouts whose states a table can hold; others work too but take long to explore.
MINIGRID = (
    "MiniGrid-Empty-5x5-v0",
    "MiniGrid-Empty-6x6-v0",
    "MiniGrid-Empty-8x8-v0",
    "MiniGrid-DoorKey-5x5-v0",
    "MiniGrid-DoorKey-6x6-v0",
    "MiniGrid-FourRooms-v0",
    "MiniGrid-LavaGapS5-v0",
    "MiniGrid-LavaGapS7-v0",
    "MiniGrid-SimpleCrossingS9N1-v0",
    "MiniGrid-LavaCrossingS9N1-v0",
    "MiniGrid-Unlock-v0",
)
_CHOICES = {"mode": MODES, "telemetry_policy": POLICIES}
# Shipped names, or files of the user's, relative to where a command is typed.
_PATHS = frozenset({"plan", "coach_plan", "checkpoint_path", "policy_path"})
_DRY_RUN_LIMIT_S = 60.0


def describe(algo: str) -> dict[str, object]:
    """The worker's settings and what it can act on.

    Raises:
        ValueError: There is no such algorithm.
    """
    if algo not in ("", ALGORITHM):
        raise ValueError(f"this worker has one algorithm, {ALGORITHM!r}, and no {algo!r}")
    return {
        "title": "BDI agents over tabular Q-learning",
        "paper": "Watkins 1989; Rao and Georgeff 1995; AgentSpeak(L), Rao 1996",
        "family": "BDI",
        "actions": ["discrete"],
        "observations": ["discrete", "grid"],
        "default_env": "FrozenLake-v1",
        "requires": [ALGORITHM],
        "arguments": [_argument(item) for item in fields(Settings) if item.name != "smoke"],
        "smoke": {"env_id": "FrozenLake-v1"},
    }


def environments() -> list[dict[str, str]]:
    """The environments a table can learn, as far as they are installed."""
    listed = [_environment(env_id, "toy_text", "discrete") for env_id in TOY_TEXT]
    if find_spec("minigrid"):
        listed += [_environment(env_id, "minigrid", "grid") for env_id in MINIGRID]
    return listed


def dry_run(config: Mapping[str, object]) -> tuple[bool, str]:
    """Check a config as the command line would, in a process of its own: (fits, text)."""
    return by_command("spade_bdi_rl_worker.cli", config, _DRY_RUN_LIMIT_S)


def _argument(item: Field[object]) -> dict[str, object]:
    default = {} if item.default is MISSING else item.default
    low, high = item.metadata.get("low"), item.metadata.get("high")
    choices = list(_CHOICES.get(item.name, ()))
    bounded = low is not None or high is not None or choices
    return {
        "name": item.name,
        "type": "any" if isinstance(default, dict) else type(default).__name__,
        "default": default,
        "help": item.metadata["help"],
        "path": item.name in _PATHS,
        "range": {
            "low": low,
            "high": high,
            "low_open": False,
            "high_open": False,
            "choices": choices,
        }
        if bounded
        else None,
    }


def _environment(env_id: str, family: str, observations: str) -> dict[str, str]:
    return {"id": env_id, "family": family, "actions": "discrete", "observations": observations}
