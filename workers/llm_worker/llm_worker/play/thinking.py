"""One model thinks about one moment: asked until its answer is valid, paid for once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from llm_worker.play.actions import Actions, Choices, Json
from llm_worker.play.answers import Decision, Invalid, Way, read_answer
from llm_worker.play.budget import Limits, Spent, exhausted
from llm_worker.play.client import Answered
from llm_worker.play.models import Model
from llm_worker.play.probability import action_probability
from llm_worker.play.prompts import Sampling, Turn, request_body, request_hash, with_feedback
from llm_worker.play.records import RunRecords, StepRecord
from llm_worker.play.replies import Reply, Usage
from llm_worker.settings import Settings

Ask = Callable[[Json], Answered]


class BudgetSpentError(Exception):
    """Ends the game, not the run: what was played is kept."""


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


class Came(Protocol):
    """What came of an action."""

    @property
    def reward(self) -> float: ...
    @property
    def terminated(self) -> bool: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def success(self) -> bool | None: ...


def free(decision: Decision) -> Thought:
    """A decision that no model was asked for."""
    return Thought(decision, "", [], True, Usage(), 0.0)


def record_of(
    thought: Thought, where: tuple[int, int], text: str, said: str, came: Came, seconds: float
) -> StepRecord:
    """A step that was taken, with the thought behind it."""
    return StepRecord(
        episode=where[0],
        step=where[1],
        text=text,
        requests=thought.requests,
        reply=thought.reply,
        reasoning=thought.decision.reasoning,
        action=thought.decision.action,
        action_name=said,
        valid=thought.valid,
        probability=thought.probability,
        reward=came.reward,
        terminated=came.terminated,
        truncated=came.truncated,
        success=came.success,
        tokens_in=thought.usage.tokens_in,
        tokens_out=thought.usage.tokens_out,
        tokens_cached=thought.usage.tokens_cached,
        cost=thought.cost,
        seconds=seconds,
    )


@dataclass(frozen=True)
class Question:
    """A moment as a model reads it.

    Attributes:
        system: The first message; empty for a model that reads only the moment.
        turns: The steps before.
        asked: The description of the moment.
        actions: What is allowed in it.
    """

    system: str
    turns: Sequence[Turn]
    asked: str
    actions: Actions
    sampling: Sampling
    picture: bytes = b""


@dataclass
class Purse:
    """What a run may spend and has spent, over all models that play in it."""

    limits: Limits = field(default_factory=Limits)
    spent: Spent = field(default_factory=Spent)


@dataclass
class Thinker:
    """A model, how it is asked, and who pays."""

    settings: Settings
    model: Model
    way: Way
    records: RunRecords
    ask: Ask
    purse: Purse
    _counted: set[str] = field(default_factory=set)

    def think(self, question: Question) -> Thought:
        """Ask until an answer is valid; the default action when none is.

        Raises:
            BudgetSpentError: The next request could pass a limit.
            ModelError: The model does not answer.
        """
        before, asked, requests = self.purse.spent, question.asked, []
        actions, plan = question.actions, self.settings.plan
        reply, found = Reply(""), None
        for _ in range(self.settings.invalid_retries + 1):
            body = request_body(
                question.system,
                question.turns,
                asked,
                self.way,
                actions,
                question.sampling,
                question.picture,
            )
            request = request_hash(self.model.identity, body)
            if request in requests:
                # The same mistake twice: the same question would get the same answer.
                break
            requests.append(request)
            reply = self._fetch(request, body)
            answer = read_answer(reply.text, actions, plan)
            if isinstance(answer, Decision):
                found = answer
                break
            asked = with_feedback(question.asked, _complaint(answer, reply))
        valid = found is not None
        decision = found or Decision(actions.default, "no valid answer")
        # What a reasoning model thought says more than the sentence that it gives as its reason.
        if reply.reasoning and valid:
            decision = replace(decision, reasoning=reply.reasoning)
        usage, cost = _difference(before, self.purse.spent)
        likely = _probability(reply, actions) if valid else None
        return Thought(decision, reply.text, requests, valid, usage, cost, likely)

    def recount(self, requests: Sequence[str]) -> None:
        """Count the requests of a recorded step, which are not sent again."""
        for request in requests:
            if (reply := self.records.replies.get(request)) is not None:
                self._count(request, reply)

    def _fetch(self, request: str, body: Json) -> Reply:
        reply = self.records.replies.get(request)
        if reply is None:
            purse, longest = self.purse, self.settings.max_tokens
            reason = exhausted(purse.spent, purse.limits, longest, self.model.price)
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
            self.purse.spent = self.purse.spent.plus(reply.usage, self.model.price)


def _probability(reply: Reply, actions: Actions) -> float | None:
    if not reply.tokens or not isinstance(actions, Choices):
        return None
    return action_probability(reply.tokens, actions.legal_names)


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
