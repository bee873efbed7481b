"""Games between players at one table, each seed once for every order of the seats."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from llm_worker.errors import RecordError
from llm_worker.play.client import StoppedError
from llm_worker.play.records import RunRecords, StepRecord
from llm_worker.play.thinking import BudgetSpentError, Purse, record_of
from llm_worker.play.world import Outcome
from llm_worker.settings import Settings
from llm_worker.table.seats import Player
from llm_worker.table.world import Moved, TableWorld


@dataclass(frozen=True)
class GameResult:
    """One game, whole or cut short.

    Attributes:
        seats: The players in the order of the seats.
        scores: The sum of rewards of each, in the same order.
        outcome: `won` and `lost` by the first player that was named, `drawn`, `ended` where all
            want the same, `budget`, or `stopped`.
    """

    episode: int
    seed: int
    seats: tuple[str, ...]
    scores: tuple[float, ...]
    steps: int
    outcome: str
    tokens: int
    cost: float | None
    seconds: float

    @property
    def whole(self) -> bool:
        """Whether it was played to its end."""
        return self.outcome not in ("budget", "stopped")


class Spectator(Protocol):
    """Receives what happens: the daemon's telemetry, or a test."""

    def stepped(self, record: StepRecord, picture: bytes, scores: Sequence[float]) -> None: ...
    def played(self, game: GameResult) -> None: ...
    def goes_on(self) -> bool:
        """Whether the match continues; waits while it is paused."""


@dataclass
class TableMatch:
    """Plays all games of one run."""

    settings: Settings
    world: TableWorld
    players: Mapping[str, Player]
    records: RunRecords
    spectator: Spectator
    purse: Purse
    budget_reason: str = ""

    def play(self) -> list[GameResult]:
        """Play to the end, to the budget's end, or until it is stopped."""
        recorded: dict[int, list[StepRecord]] = {}
        for record in self.records.done:
            recorded.setdefault(record.episode, []).append(record)
        results: list[GameResult] = []
        for episode in range(self.settings.episodes):
            result = self._game(episode, recorded.get(episode, []))
            results.append(result)
            try:
                self.spectator.played(result)
            except StoppedError:
                # A person left after this game; it counts.
                break
            if not result.whole:
                break
        return results

    def seating(self, episode: int) -> tuple[int, tuple[str, ...]]:
        """The seed of a game and who sits where: every order of a seed before the next seed."""
        names = list(self.players)
        turned = episode % len(names)
        return self.settings.seed + episode // len(names), (*names[turned:], *names[:turned])

    def _game(self, episode: int, recorded: Sequence[StepRecord]) -> GameResult:
        seed, seats = self.seating(episode)
        self.world.begin(seed)
        for seat, name in enumerate(seats):
            self.players[name].begin(self.world, seed, seat)
        steps: list[StepRecord] = []
        scores, outcome = [0.0] * len(seats), ""
        while not outcome:
            if not self.spectator.goes_on():
                outcome = "stopped"
                break
            try:
                before = recorded[len(steps)] if len(steps) < len(recorded) else None
                record, moved = self._move(episode, len(steps), seats, before)
            except StoppedError:
                outcome = "stopped"
                break
            except BudgetSpentError as error:
                self.budget_reason, outcome = str(error), "budget"
                break
            steps.append(record)
            scores = [total + one for total, one in zip(scores, moved.rewards, strict=True)]
            self.spectator.stepped(record, self.world.picture(), scores)
            if moved.ended:
                outcome = self._verdict(seats, scores)
        return _result(episode, seed, seats, scores, steps, outcome)

    def _verdict(self, seats: Sequence[str], scores: Sequence[float]) -> str:
        if self.world.game.cooperative:
            return "ended"
        mine = scores[seats.index(next(iter(self.players)))]
        return "won" if mine > 0 else "lost" if mine < 0 else "drawn"

    def _move(
        self, episode: int, number: int, seats: Sequence[str], before: StepRecord | None
    ) -> tuple[StepRecord, Moved]:
        began = time.monotonic()
        text, name = self.world.text(), seats[self.world.to_move]
        if before is not None:
            return self._again(before, name, text, number)
        seat = self.world.to_move
        thought = self.players[name].decide(self.world, text, episode, number)
        action = thought.decision.action
        said, moved = self.world.actions.say(action), self.world.act(_number(action))
        seconds = time.monotonic() - began
        came = Outcome(moved.rewards[seat], moved.terminated, moved.truncated)
        record = record_of(thought, (episode, number), text, said, came, seconds)
        record = replace(record, player=name)
        self.records.add_step(record)
        self._spend(seconds)
        return record, moved

    def _again(
        self, record: StepRecord, name: str, text: str, number: int
    ) -> tuple[StepRecord, Moved]:
        """Take a recorded move again: same text, same player, same result, no request."""
        seat = self.world.to_move
        self.players[name].replay(self.world, record)
        moved = self.world.act(_number(record.action))
        now = (number, name, text, moved.rewards[seat], moved.terminated)
        then = (record.step, record.player, record.text, record.reward, record.terminated)
        if now != then:
            raise RecordError(
                f"game {record.episode}, move {record.step} went differently this time: the game "
                "does not repeat itself with the same seed, or its version changed"
            )
        self._spend(record.seconds)
        return record, moved

    def _spend(self, seconds: float) -> None:
        self.purse.spent = self.purse.spent.with_seconds(seconds)


def _number(action: object) -> int:
    if not isinstance(action, int):
        raise RecordError(f"{action!r} is no move")
    return action


def _result(
    episode: int,
    seed: int,
    seats: tuple[str, ...],
    scores: Sequence[float],
    steps: Sequence[StepRecord],
    outcome: str,
) -> GameResult:
    unknown = any(step.cost is None for step in steps)
    return GameResult(
        episode=episode,
        seed=seed,
        seats=seats,
        scores=tuple(round(score, 9) for score in scores),
        steps=len(steps),
        outcome=outcome,
        tokens=sum(step.tokens_in + step.tokens_out for step in steps),
        cost=None if unknown else sum(step.cost or 0.0 for step in steps),
        seconds=sum(step.seconds for step in steps),
    )
