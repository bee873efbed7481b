"""The game: describe, ask, act, record; and the same again after a kill, without asking twice."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Protocol

from llm_worker.errors import RecordError
from llm_worker.play.actions import Action
from llm_worker.play.answers import Decision, Way, as_written, read_answer
from llm_worker.play.budget import Limits
from llm_worker.play.client import StoppedError
from llm_worker.play.models import Model
from llm_worker.play.plans import Plan
from llm_worker.play.prompts import Prompts, Sampling, Turn, request_body
from llm_worker.play.records import RunRecords, StepRecord
from llm_worker.play.scripted import scripted_player
from llm_worker.play.thinking import (
    Ask,
    BudgetSpentError,
    Purse,
    Question,
    Thinker,
    Thought,
    free,
    record_of,
)
from llm_worker.play.world import World
from llm_worker.settings import Settings


class Spectator(Protocol):
    """Receives what happens: the daemon's telemetry, or a test."""

    def stepped(self, record: StepRecord, picture: bytes) -> None: ...
    def ended(self, episode: EpisodeResult) -> None: ...
    def goes_on(self) -> bool:
        """Whether the game continues; waits while it is paused."""


@dataclass(frozen=True)
class EpisodeResult:
    """One episode, whole or cut short.

    Attributes:
        outcome: `success`, `failure`, `ended` where the environment has no goal, `budget`, or
            `stopped`.
    """

    episode: int
    seed: int
    steps: int
    total: float
    outcome: str
    success: bool | None
    tokens: int
    cost: float | None
    seconds: float


@dataclass
class Game:
    """Plays the episodes of one run."""

    settings: Settings
    model: Model
    way: Way
    world: World
    records: RunRecords
    ask: Ask
    spectator: Spectator
    prompts: Prompts = field(default_factory=Prompts)
    purse: Purse = field(default_factory=Purse)
    budget_reason: str = ""

    def __post_init__(self) -> None:
        s = self.settings
        self._scripted = scripted_player(self.model.preset)
        self._plan = Plan()
        self._thinker = Thinker(s, self.model, self.way, self.records, self.ask, self.purse)
        self._system = instructions(s, self.model, self.world, self.prompts)

    def play(self) -> list[EpisodeResult]:
        """Play to the end, to the budget's end, or until it is stopped."""
        results: list[EpisodeResult] = []
        recorded: dict[int, list[StepRecord]] = {}
        for record in self.records.done:
            recorded.setdefault(record.episode, []).append(record)
        for episode in range(self.settings.episodes):
            result = self._episode(episode, recorded.get(episode, []))
            results.append(result)
            self.spectator.ended(result)
            if result.outcome in ("budget", "stopped"):
                break
        return results

    def ask_again(self, episode: int, recorded: list[StepRecord]) -> Thought:
        """Take the recorded steps of an episode again and decide the next one, without acting.

        Raises:
            RecordError: The environment does not repeat what was recorded.
            ModelError: The model does not answer.
        """
        seed = self.settings.seed + episode
        self.world.begin(seed)
        if self._scripted is not None:
            self._scripted.begin(self.world, seed)
        turns: list[Turn] = []
        for number, record in enumerate(recorded):
            self._replay(record, number)
            turns = self._remember(turns, record)
        # The question is what the model says now, not what it has planned.
        self._plan.begin()
        return self._decide(self.world.text(), episode, len(recorded), turns)

    def _episode(self, episode: int, recorded: list[StepRecord]) -> EpisodeResult:
        seed = self.settings.seed + episode
        self.world.begin(seed)
        if self._scripted is not None:
            self._scripted.begin(self.world, seed)
        self._plan.begin()
        turns: list[Turn] = []
        steps: list[StepRecord] = []
        outcome = ""
        while not outcome:
            if not self.spectator.goes_on():
                outcome = "stopped"
                break
            number = len(steps)
            try:
                if number < len(recorded):
                    record = self._replay(recorded[number], number)
                else:
                    record = self._step(episode, number, turns)
            except StoppedError:
                outcome = "stopped"
                break
            except BudgetSpentError as error:
                self.budget_reason = str(error)
                outcome = "budget"
                break
            steps.append(record)
            turns = self._remember(turns, record)
            self.spectator.stepped(record, self.world.picture())
            if record.terminated or record.truncated:
                outcome = _verdict(record.success)
        return _result(episode, seed, steps, outcome)

    def _step(self, episode: int, number: int, turns: list[Turn]) -> StepRecord:
        began = time.monotonic()
        text = self.world.text()
        thought = self._decide(text, episode, number, turns)
        outcome = self.world.act(thought.decision.action)
        later = thought.decision.later if thought.requests else None
        self._plan.took(text, outcome.reward, later)
        seconds = time.monotonic() - began
        said = self.world.actions.say(thought.decision.action)
        record = record_of(thought, (episode, number), text, said, outcome, seconds)
        self.records.add_step(record)
        self._spend(seconds)
        return record

    def _decide(self, text: str, episode: int, number: int, turns: list[Turn]) -> Thought:
        if self._scripted is not None:
            return free(self._scripted.decide(self.world))
        planned = self._plan.next(text)
        if planned is not None:
            return free(Decision(planned, "as planned"))
        asked = self.prompts.step_message(text, episode, number)
        sampling = sampling_of(self.settings, self.model, episode, number)
        return self._think(asked, turns, sampling)

    def _replay(self, record: StepRecord, number: int) -> StepRecord:
        """Take a recorded step again: same text, same action, same result, no request."""
        text = self.world.text()
        if self._scripted is not None:
            # Its plan or its chances have to be as far as they were.
            self._scripted.decide(self.world)
        # The rest of a plan is in the reply: a run that is continued follows it to the same step.
        self._plan.next(text)
        outcome = self.world.act(record.action)
        self._plan.took(text, outcome.reward, self._planned(record))
        now = (number, text, outcome.reward, outcome.terminated, outcome.truncated)
        then = (record.step, record.text, record.reward, record.terminated, record.truncated)
        if now != then:
            raise RecordError(
                f"episode {record.episode}, step {record.step} went differently this time: the "
                "environment does not repeat itself with the same seed, or its version changed"
            )
        self._thinker.recount(record.requests)
        self._spend(record.seconds)
        return record

    def _spend(self, seconds: float) -> None:
        self.purse.spent = self.purse.spent.with_seconds(seconds)

    def _planned(self, record: StepRecord) -> tuple[Action, ...] | None:
        """What a recorded step planned after it; None when it was planned itself."""
        if not record.requests:
            return None
        answer = read_answer(record.reply, self.world.actions, self.settings.plan)
        return answer.later if isinstance(answer, Decision) and record.valid else ()

    def _think(self, asked: str, turns: list[Turn], sampling: Sampling) -> Thought:
        picture = self.world.picture() if self.settings.pictures else b""
        return self._thinker.think(
            Question(self._system, turns, asked, self.world.actions, sampling, picture)
        )

    def _remember(self, turns: list[Turn], record: StepRecord) -> list[Turn]:
        kept = self.settings.history
        if not kept or self.model.reads_only_the_moment:
            return []
        decision = Decision(record.action, record.reasoning)
        asked = self.prompts.step_message(record.text, record.episode, record.step)
        settings = self.settings
        answered = as_written(decision, self.world.actions, settings.keep_reasoning, settings.plan)
        return [*turns, Turn(asked, answered)][-kept:]


def limits_of(settings: Settings) -> Limits:
    """The most that a run may spend."""
    return Limits(settings.budget_tokens, settings.budget_cost, settings.budget_minutes * 60)


def sampling_of(settings: Settings, model: Model, episode: int = 0, step: int = 0) -> Sampling:
    """How the model chooses its words in a step.

    With a temperature each step has a seed of its own: without, two equal moments would get one
    draw. At temperature 0 the seed changes nothing, and equal requests are asked once.
    """
    seed = settings.seed
    if settings.temperature:
        seed = (settings.seed * 1_000_003 + episode * 10_007 + step) % 2**31
    return Sampling(
        model.name,
        settings.temperature,
        settings.max_tokens,
        seed,
        settings.probabilities,
        settings.plan,
    )


def instructions(settings: Settings, model: Model, world: World, prompts: Prompts) -> str:
    """The first message of every request; empty for a model that reads only the moment."""
    if model.reads_only_the_moment:
        return ""
    return prompts.first_message(settings.env_id, world.rules, world.actions, settings.plan)


def first_request(
    settings: Settings, model: Model, way: Way, world: World, prompts: Prompts
) -> str:
    """The exact first request of a run as text, without sending it."""
    world.begin(settings.seed)
    asked = prompts.step_message(world.text(), 0, 0)
    system = instructions(settings, model, world, prompts)
    picture = world.picture() if settings.pictures else b""
    sampling = sampling_of(settings, model)
    body = request_body(system, [], asked, way, world.actions, sampling, picture)
    return json.dumps(body, indent=2, ensure_ascii=False)


def _verdict(success: bool | None) -> str:
    return "ended" if success is None else "success" if success else "failure"


def _result(episode: int, seed: int, steps: list[StepRecord], outcome: str) -> EpisodeResult:
    unknown = any(step.cost is None for step in steps)
    whole = outcome not in ("budget", "stopped")
    return EpisodeResult(
        episode=episode,
        seed=seed,
        steps=len(steps),
        total=sum(step.reward for step in steps),
        outcome=outcome,
        success=steps[-1].success if steps and whole else None,
        tokens=sum(step.tokens_in + step.tokens_out for step in steps),
        cost=None if unknown else sum(step.cost or 0.0 for step in steps),
        seconds=sum(step.seconds for step in steps),
    )
