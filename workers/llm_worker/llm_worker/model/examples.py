"""Examples for the small model: BabyAI's own bot plays, and each of its decisions becomes text.

In part of the episodes the bot's action is sometimes replaced by a random one, and the bot says
what to do next: so the model also learns to come back from its own mistakes.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import gymnasium

from llm_worker.describe.grid import ACTIONS, GridDescriber, Place
from llm_worker.describe.views import grid_view

if TYPE_CHECKING:
    from minigrid.utils.baby_ai_bot import BabyAIBot

# Level and its share of the episodes. The hard ones, whose goal must be bound to one of many
# things, get most.
LEVELS: Mapping[str, int] = {
    "BabyAI-GoToRedBallNoDists-v0": 1,
    "BabyAI-GoToRedBallGrey-v0": 1,
    "BabyAI-GoToRedBall-v0": 2,
    "BabyAI-GoToObj-v0": 2,
    "BabyAI-GoToLocal-v0": 6,
    "BabyAI-PickupLoc-v0": 8,
    "BabyAI-PickupDist-v0": 1,
    "BabyAI-GoToRedBlueBall-v0": 1,
    "BabyAI-GoToDoor-v0": 1,
    "BabyAI-OpenDoor-v0": 1,
}
# Seeds from here on are for training; what is below is for measuring.
FIRST_TRAINING_SEED = 1_000_000
_SLIPS = (0.0, 0.0, 0.1, 0.25)
_MOVES = (0, 1, 2)


class Example(NamedTuple):
    """One decision: what the model reads and what it should answer."""

    prompt: str
    reply: str


def reply_text(reasoning: str, action: str) -> str:
    """An answer as the model writes it: JSON in one line, the reason first."""
    return json.dumps({"reasoning": reasoning, "action": action})


def examples(episodes: int, seed: int) -> Iterator[Example]:
    """The decisions of many episodes, each also mirrored; repeated ones are left out."""
    import minigrid

    gymnasium.register_envs(minigrid)
    rng = random.Random(seed)
    levels = [level for level, share in LEVELS.items() for _ in range(share)]
    worlds = {level: gymnasium.make(level) for level in LEVELS}
    seen: set[Example] = set()
    for number in range(episodes):
        level = levels[number % len(levels)]
        try:
            # MiniGrid prints each layout that it throws away.
            with contextlib.redirect_stdout(io.StringIO()):
                found = list(_episode(worlds[level], FIRST_TRAINING_SEED + seed + number, rng))
        except (AssertionError, KeyError, TypeError):
            # The bot gives up on some of the situations into which slips bring it.
            continue
        for example in found:
            if example not in seen:
                seen.add(example)
                yield example


def _episode(
    env: gymnasium.Env[object, object], seed: int, rng: random.Random
) -> Iterator[Example]:
    from minigrid.utils.baby_ai_bot import BabyAIBot

    observation, _ = env.reset(seed=seed)
    bot = BabyAIBot(env)
    describers = GridDescriber(), GridDescriber(mirrored=True)
    slip, done, taken = rng.choice(_SLIPS), False, None
    last: list[str] = []
    while not done:
        wanted = int(bot.replan(taken))
        view = grid_view(env, observation, last)
        for describer in describers:
            prompt = describer.describe(view)
            action = describer.swapped(ACTIONS[wanted])
            yield Example(prompt, reply_text(_reason(env, bot, describer), action))
        taken = rng.choice(_MOVES) if rng.random() < slip else wanted
        observation, _, terminated, truncated, _ = env.step(taken)
        last.append(ACTIONS[taken])
        done = terminated or truncated


def _reason(env: gymnasium.Env[object, object], bot: BabyAIBot, describer: GridDescriber) -> str:
    """The thing the goal is about, with its place, or where to look for it."""
    target = _target(env, bot, describer)
    if target is not None:
        return f"the {describer.name(target)} {describer.offset(target)}"
    unknown = describer.unknown()
    return f"look {describer.offset(unknown)}" if unknown else "look around"


def _target(
    env: gymnasium.Env[object, object], bot: BabyAIBot, describer: GridDescriber
) -> Place | None:
    """The known place of what the bot walks to: the nearest match of the goal's description."""
    goal = env.unwrapped.get_wrapper_attr("instrs")
    description = getattr(goal, "desc", None)
    if description is None:
        return None
    _, place = bot._find_obj_pos(description)
    if place is None or not describer.name((int(place[0]), int(place[1]))):
        return None
    return int(place[0]), int(place[1])
