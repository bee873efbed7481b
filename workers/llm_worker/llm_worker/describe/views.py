"""From a running Gymnasium environment to text, with the best describer that fits it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import SupportsInt, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces

from llm_worker.describe import toy_text
from llm_worker.describe.grid import ACTIONS, GridDescriber, GridView
from llm_worker.describe.numbers import describe_value, known_numbers, named
from llm_worker.errors import WorldError
from llm_worker.play.actions import Actions, Choices, Numbers, Words

# Environments differ in what they show and accept; each describer knows its own.
Env: TypeAlias = gymnasium.Env[object, object]
# An environment, what it showed, and the names of the actions so far; returns the text.
Describe = Callable[[Env, object, Sequence[str]], str]
MOST_CHOICES = 512


@dataclass(frozen=True)
class Family:
    """How one kind of environment is put into words.

    Attributes:
        rules: What the agent wants and how the world works, for the first message.
        names: Names of the actions; empty for unnamed ones.
        new_episode: Gives the describer of one episode, which may remember what it saw.
        has_goal: Whether an episode that ends with a reward has succeeded.
    """

    rules: str
    names: Sequence[str]
    new_episode: Callable[[], Describe]
    has_goal: bool = True


GRID_RULES = (
    "Places are given from where you stand and look now: '2 forward 1 left'. A thing at "
    "'1 forward' is right in front of you. Seen lists what you have seen so far, Free how many "
    "steps are free, Unknown the nearest place you have not seen. Face a thing to pick it up; "
    "toggle opens doors and boxes. '(start: left)' says where a thing was when you began."
)


def family_of(env_id: str, env: Env) -> Family:
    """The family of an environment."""
    if hasattr(env.unwrapped, "agent_pos") and hasattr(env.unwrapped, "gen_obs_grid"):
        return Family(GRID_RULES, ACTIONS, _grid_episode)
    for prefix, family in _TOY_TEXT:
        if env_id.startswith(prefix):
            return family
    if isinstance(env.observation_space, spaces.Text):
        return Family("The game explains itself.", (), lambda: lambda env, seen, last: str(seen))
    facts = known_numbers(env_id)
    if facts is not None:
        names = facts.names

        def numbers(env: Env, seen: object, last: Sequence[str]) -> str:
            return named(np.asarray(seen).tolist(), names)

        return Family(facts.rules, facts.actions, lambda: numbers, has_goal=False)
    return Family("Find out what brings reward.", (), lambda: _anything, has_goal=False)


def moment_actions(env: Env, actions: Actions) -> Actions:
    """The actions of this moment: a game in words may offer others at each step."""
    if isinstance(actions, Words):
        return replace(actions, offered=getattr(env.unwrapped, "offered", ()))
    return actions


def actions_of(env_id: str, space: spaces.Space[object], names: Sequence[str]) -> Actions:
    """The actions of an environment in words.

    Raises:
        WorldError: They are neither choices nor a vector of numbers.
    """
    if isinstance(space, spaces.Discrete) and space.n <= MOST_CHOICES:
        count = int(space.n)
        known = list(names) if len(names) >= count else [f"action {n}" for n in range(count)]
        return Choices(known[:count], int(space.start))
    if isinstance(space, spaces.MultiDiscrete) and space.shape and len(space.shape) == 1:
        return Numbers([0.0] * len(space.nvec), [float(n - 1) for n in space.nvec], whole=True)
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and np.isfinite(space.low).all():
        return Numbers(space.low.tolist(), space.high.tolist())
    if isinstance(space, spaces.Text):
        return Words()
    raise WorldError(
        f"{env_id} has actions that cannot be put into words: {space}",
        "choices and vectors of bounded numbers can",
    )


def with_default(actions: Actions, name: str) -> Actions:
    """The same actions with another default.

    Raises:
        WorldError: There is no such action.
    """
    if not name:
        return actions
    if isinstance(actions, Words):
        return replace(actions, default_text=name)
    if not isinstance(actions, Choices) or actions.read(name) is None:
        raise WorldError(
            f"default_action: there is no action {name!r}", f"actions are: {actions.listed()}"
        )
    return replace(actions, default_name=name)


def grid_view(env: Env, observation: object, last_actions: Sequence[str]) -> GridView:
    """What a MiniGrid environment shows now."""
    assert isinstance(observation, Mapping)
    x, y = env.unwrapped.get_wrapper_attr("agent_pos")
    return GridView(
        mission=str(observation["mission"]),
        image=observation["image"].tolist(),
        place=(int(x), int(y)),
        direction=int(observation["direction"]),
        last_actions=last_actions,
    )


def _grid_episode() -> Describe:
    describer = GridDescriber()
    return lambda env, seen, last: describer.describe(grid_view(env, seen, last))


def _anything(env: Env, seen: object, last: Sequence[str]) -> str:
    return describe_value(seen)


def _lake(env: Env, seen: object, last: Sequence[str]) -> str:
    ice = env.unwrapped.get_wrapper_attr("desc")
    rows = ["".join(cell.decode() for cell in row) for row in ice]
    return toy_text.frozen_lake(_number(seen), rows)


def _number(seen: object) -> int:
    """The number of a state."""
    assert isinstance(seen, SupportsInt)
    return int(seen)


_TOY_TEXT: tuple[tuple[str, Family], ...] = (
    (
        "FrozenLake",
        Family(
            "Walk over the ice (F) from S to the goal (G); a hole (H) ends the game. "
            "On slippery ice you may slide to a side.",
            toy_text.LAKE_ACTIONS,
            lambda: _lake,
        ),
    ),
    (
        "CliffWalking",
        Family(
            "Reach the goal in few steps; the cliff throws you back to the start.",
            toy_text.CLIFF_ACTIONS,
            lambda: lambda env, seen, last: toy_text.cliff_walking(_number(seen)),
        ),
    ),
    (
        "Taxi",
        Family(
            "Fetch the passenger and drop them off at the destination. Some walls stand between "
            "columns.",
            toy_text.TAXI_ACTIONS,
            lambda: lambda env, seen, last: toy_text.taxi(_number(seen)),
        ),
    ),
    (
        "Blackjack",
        Family(
            "Get closer to 21 than the dealer without going over.",
            toy_text.BLACKJACK_ACTIONS,
            lambda: lambda env, seen, last: toy_text.blackjack(np.asarray(seen, int).tolist()),
        ),
    ),
)
