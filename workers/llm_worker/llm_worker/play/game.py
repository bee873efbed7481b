"""The game: describe, ask, act, record; and the same again after a kill, without asking twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from llm_worker.errors import RecordError
from llm_worker.play.actions import Action, Choices, Json
from llm_worker.play.answers import Decision, Invalid, Way, as_written, read_answer
from llm_worker.play.budget import Limits, Spent, exhausted
from llm_worker.play.client import Answered, StoppedError
from llm_worker.play.models import Model
from llm_worker.play.plans import Plan
from llm_worker.play.probability import action_probability
from llm_worker.play.prompts import (
    Prompts,
    Sampling,
    Turn,
    request_body,
    request_hash,
    with_feedback,
)
from llm_worker.play.records import RunRecords, StepRecord
from llm_worker.play.replies import Reply, Usage
from llm_worker.play.scripted import scripted_player
from llm_worker.play.world import World
from llm_worker.settings import Settings

Ask = Callable[[Json], Answered]


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


@dataclass(frozen=True)
class Thought:
    """A decision with everything that led to it."""

    decision: Decision
    reply: str
    requests: list[str]
    valid: bool
    usage: Usage
    cost: float | None
    probability: float | None = None


class BudgetSpentError(Exception):
    """Ends the game, not the run: what was played is kept."""


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
    spent: Spent = field(default_factory=Spent)
    budget_reason: str = ""
    _counted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        s = self.settings
        self._scripted = scripted_player(self.model.preset)
        self._plan = Plan()
        self._limits = Limits(s.budget_tokens, s.budget_cost, s.budget_minutes * 60)
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
        record = StepRecord(
            episode=episode,
            step=number,
            text=text,
            requests=thought.requests,
            reply=thought.reply,
            reasoning=thought.decision.reasoning,
            action=thought.decision.action,
            action_name=self.world.actions.say(thought.decision.action),
            valid=thought.valid,
            probability=thought.probability,
            reward=outcome.reward,
            terminated=outcome.terminated,
            truncated=outcome.truncated,
            success=outcome.success,
            tokens_in=thought.usage.tokens_in,
            tokens_out=thought.usage.tokens_out,
            tokens_cached=thought.usage.tokens_cached,
            cost=thought.cost,
            seconds=seconds,
        )
        self.records.add_step(record)
        self.spent = self.spent.with_seconds(seconds)
        return record

    def _decide(self, text: str, episode: int, number: int, turns: list[Turn]) -> Thought:
        if self._scripted is not None:
            return Thought(self._scripted.decide(self.world), "", [], True, Usage(), 0.0)
        planned = self._plan.next(text)
        if planned is not None:
            return Thought(Decision(planned, "as planned"), "", [], True, Usage(), 0.0)
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
        for request in record.requests:
            if (reply := self.records.replies.get(request)) is not None:
                self._count(request, reply)
        self.spent = self.spent.with_seconds(record.seconds)
        return record

    def _planned(self, record: StepRecord) -> tuple[Action, ...] | None:
        """What a recorded step planned after it; None when it was planned itself."""
        if not record.requests:
            return None
        answer = read_answer(record.reply, self.world.actions, self.settings.plan)
        return answer.later if isinstance(answer, Decision) and record.valid else ()

    def _think(self, asked: str, turns: list[Turn], sampling: Sampling) -> Thought:
        """Ask until an answer is valid, then act; the default action when none is."""
        before, question, requests = self.spent, asked, []
        picture = self.world.picture() if self.settings.pictures else b""
        reply, found = Reply(""), None
        for _ in range(self.settings.invalid_retries + 1):
            body = request_body(
                self._system, turns, question, self.way, self.world.actions, sampling, picture
            )
            request = request_hash(self.model.identity, body)
            if request in requests:
                # The same mistake twice: the same question would get the same answer.
                break
            requests.append(request)
            reply = self._fetch(request, body)
            answer = read_answer(reply.text, self.world.actions, self.settings.plan)
            if isinstance(answer, Decision):
                found = answer
                break
            question = with_feedback(asked, _complaint(answer, reply))
        valid = found is not None
        decision = found or Decision(self.world.actions.default, "no valid answer")
        # What a reasoning model thought says more than the sentence that it gives as its reason.
        if reply.reasoning and valid:
            decision = replace(decision, reasoning=reply.reasoning)
        usage, cost = _difference(before, self.spent)
        likely = self._probability(reply) if valid else None
        return Thought(decision, reply.text, requests, valid, usage, cost, likely)

    def _probability(self, reply: Reply) -> float | None:
        actions = self.world.actions
        if not reply.tokens or not isinstance(actions, Choices):
            return None
        return action_probability(reply.tokens, actions.names)

    def _fetch(self, request: str, body: Json) -> Reply:
        reply = self.records.replies.get(request)
        if reply is None:
            reason = exhausted(self.spent, self._limits, self.settings.max_tokens, self.model.price)
            if reason:
                raise BudgetSpentError(reason)
            reply = self.ask(body).reply
            # Before anything else is done with it: from here on a kill costs no money.
            self.records.add_reply(request, reply)
        self._count(request, reply)
        return reply

    def _count(self, request: str, reply: Reply) -> None:
        """Add a request to what is spent; an equal one later is answered from the records."""
        if request not in self._counted:
            self._counted.add(request)
            self.spent = self.spent.plus(reply.usage, self.model.price)

    def _remember(self, turns: list[Turn], record: StepRecord) -> list[Turn]:
        kept = self.settings.history
        if not kept or self.model.reads_only_the_moment:
            return []
        decision = Decision(record.action, record.reasoning)
        asked = self.prompts.step_message(record.text, record.episode, record.step)
        settings = self.settings
        answered = as_written(decision, self.world.actions, settings.keep_reasoning, settings.plan)
        return [*turns, Turn(asked, answered)][-kept:]


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


def _difference(before: Spent, after: Spent) -> tuple[Usage, float | None]:
    usage = Usage(
        after.tokens_in - before.tokens_in,
        after.tokens_out - before.tokens_out,
        after.tokens_cached - before.tokens_cached,
    )
    unknown = after.cost is None or before.cost is None
    return usage, None if unknown else round((after.cost or 0.0) - (before.cost or 0.0), 9)


def _complaint(answer: Invalid, reply: Reply) -> str:
    if not reply.whole:
        return f"It was cut off because it was too long. {answer.reason}"
    return answer.reason


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
