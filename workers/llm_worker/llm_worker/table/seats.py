"""Who sits at a table: a language model, a bot, or chance.

`policies` has those that learned, `people` those who press keys.
"""

from __future__ import annotations

import random
from typing import Protocol

from llm_worker.play.answers import Decision, as_written
from llm_worker.play.game import sampling_of
from llm_worker.play.prompts import Prompts, Turn
from llm_worker.play.records import StepRecord
from llm_worker.play.thinking import Question, Thinker, Thought, free
from llm_worker.table.bots import BoardBot, HuntBot, bot_for
from llm_worker.table.world import TableWorld

RANDOM, BOT, HUMAN, MODEL, RUN = "random", "bot", "human", "llm:", "run:"


class Player(Protocol):
    """Decides when it is its turn; called once for each move, also for those taken again."""

    def begin(self, world: TableWorld, seed: int, seat: int) -> None: ...
    def decide(self, world: TableWorld, text: str, episode: int, step: int) -> Thought: ...
    def replay(self, world: TableWorld, record: StepRecord) -> None:
        """Bring the player to where it was after a recorded move of its own."""


class RandomPlayer:
    """Each legal move is equally likely; the same seed and seat give the same moves."""

    def begin(self, world: TableWorld, seed: int, seat: int) -> None:
        """Begin a game."""
        self._chance = random.Random(f"random player {seat} {seed}")

    def decide(self, world: TableWorld, text: str, episode: int, step: int) -> Thought:
        """Any legal move."""
        return free(Decision(self._chance.choice(world.actions.legal)[0], "by chance"))

    def replay(self, world: TableWorld, record: StepRecord) -> None:
        """Draw as often as before."""
        self.decide(world, "", 0, 0)


class BotPlayer:
    """The game's bot."""

    def begin(self, world: TableWorld, seed: int, seat: int) -> None:
        """Begin a game."""
        self._bot: BoardBot | HuntBot = bot_for(world, seed, seat)

    def decide(self, world: TableWorld, text: str, episode: int, step: int) -> Thought:
        """What its search finds best."""
        action, reason = self._bot.choose(world)
        return free(Decision(action, reason))

    def replay(self, world: TableWorld, record: StepRecord) -> None:
        """Draw as often as before."""
        self._bot.choose(world)


class ModelPlayer:
    """A language model, with a history of its own moves."""

    def __init__(self, thinker: Thinker, prompts: Prompts) -> None:
        self._thinker = thinker
        self._prompts = prompts
        self._turns: list[Turn] = []

    def begin(self, world: TableWorld, seed: int, seat: int) -> None:
        """Begin a game."""
        self._turns = []

    def decide(self, world: TableWorld, text: str, episode: int, step: int) -> Thought:
        """Ask the model."""
        settings, model = self._thinker.settings, self._thinker.model
        actions, asked = world.actions, self._asked(world, text, episode, step)
        system = ""
        if not model.reads_only_the_moment:
            system = self._prompts.first_message(world.env_id, world.game.rules, actions)
        sampling = sampling_of(settings, model, episode, step)
        picture = world.picture() if settings.pictures else b""
        thought = self._thinker.think(
            Question(system, self._turns, asked, actions, sampling, picture)
        )
        self._remember(asked, thought.decision, world)
        return thought

    def replay(self, world: TableWorld, record: StepRecord) -> None:
        """Count what the move cost, and remember it."""
        self._thinker.recount(record.requests)
        asked = self._asked(world, record.text, record.episode, record.step)
        self._remember(asked, Decision(record.action, record.reasoning), world)

    def _asked(self, world: TableWorld, text: str, episode: int, step: int) -> str:
        """The moment with what may be done in it, which changes from move to move."""
        told = self._prompts.step_message(text, episode, step)
        return f"{told}\nYou may: {world.actions.listed()}"

    def _remember(self, asked: str, decision: Decision, world: TableWorld) -> None:
        kept = self._thinker.settings.history
        if kept and not self._thinker.model.reads_only_the_moment:
            reasons = self._thinker.settings.keep_reasoning
            turn = Turn(asked, as_written(decision, world.actions, reasons))
            self._turns = [*self._turns, turn][-kept:]
