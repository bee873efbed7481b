"""Players that need no model: random play and BabyAI's bot, rows of every honest comparison."""

from __future__ import annotations

import random
from typing import Protocol

from llm_worker.errors import WorldError
from llm_worker.play.actions import Action, Choices, Words
from llm_worker.play.answers import Decision
from llm_worker.play.models import SCRIPTED
from llm_worker.play.world import World

RANDOM, BOT = SCRIPTED


class ScriptedPlayer(Protocol):
    """Decides without a model; called once for each step, also for those taken again."""

    def begin(self, world: World, seed: int) -> None: ...
    def decide(self, world: World) -> Decision: ...


class RandomPlayer:
    """Each action is equally likely; the same seed gives the same game."""

    def begin(self, world: World, seed: int) -> None:
        """Begin an episode."""
        # Another stream than the environment's, which begins with the same seed.
        self._chance = random.Random(f"random player {seed}")

    def decide(self, world: World) -> Decision:
        """Any action."""
        actions = world.actions
        if isinstance(actions, Choices):
            return Decision(self._chance.choice(actions.legal)[0], "by chance")
        if isinstance(actions, Words):
            if not actions.offered:
                raise WorldError(f"{world.env_id} offers no moves that chance could draw from")
            return Decision(self._chance.choice(list(actions.offered)), "by chance")
        bounds = zip(actions.low, actions.high, strict=True)
        numbers = [self._chance.uniform(low, high) for low, high in bounds]
        action: Action = [round(n) for n in numbers] if actions.whole else numbers
        return Decision(action, "by chance")


class BotPlayer:
    """BabyAI's own planner, which knows the goal and sees what the agent sees."""

    def begin(self, world: World, seed: int) -> None:
        """Begin an episode.

        Raises:
            WorldError: The environment is not of BabyAI.
        """
        if not world.env_id.startswith("BabyAI-"):
            raise WorldError(f"the bot plays BabyAI levels, not {world.env_id}")
        from minigrid.utils.baby_ai_bot import BabyAIBot

        self._bot = BabyAIBot(world.env)

    def decide(self, world: World) -> Decision:
        """The next action of its plan."""
        return Decision(int(self._bot.replan()), "the bot's plan")


def scripted_player(preset: str) -> ScriptedPlayer | None:
    """The player that a model's name means; None for a real model."""
    if preset == RANDOM:
        return RandomPlayer()
    return BotPlayer() if preset == BOT else None
