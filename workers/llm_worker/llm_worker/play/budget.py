"""What a run has spent and whether it may spend more."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llm_worker.play.models import Price
from llm_worker.play.replies import Usage


@dataclass(frozen=True)
class Limits:
    """The most that a run may spend; 0 means no limit."""

    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Spent:
    """What a run has used so far, over all its processes.

    Attributes:
        cost: In dollars; None when a price is unknown.
        largest_prompt: The tokens of the longest prompt so far.
    """

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    cost: float | None = 0.0
    seconds: float = 0.0
    largest_prompt: int = 0

    def plus(self, usage: Usage, price: Price) -> Spent:
        """After one more request."""
        cost = price.cost(usage.tokens_in, usage.tokens_out)
        return replace(
            self,
            requests=self.requests + 1,
            tokens_in=self.tokens_in + usage.tokens_in,
            tokens_out=self.tokens_out + usage.tokens_out,
            tokens_cached=self.tokens_cached + usage.tokens_cached,
            cost=None if cost is None or self.cost is None else self.cost + cost,
            largest_prompt=max(self.largest_prompt, usage.tokens_in),
        )

    def and_also(self, other: Spent) -> Spent:
        """What two models have used together."""
        unknown = self.cost is None or other.cost is None
        return Spent(
            self.requests + other.requests,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.tokens_cached + other.tokens_cached,
            None if unknown else (self.cost or 0.0) + (other.cost or 0.0),
            self.seconds + other.seconds,
            max(self.largest_prompt, other.largest_prompt),
        )

    def with_seconds(self, seconds: float) -> Spent:
        """After so many seconds more."""
        return replace(self, seconds=self.seconds + seconds)


def exhausted(spent: Spent, limits: Limits, largest_answer: int, price: Price) -> str:
    """Why no further request may be sent; empty when one may.

    A request is counted before it is sent, so that a limit is not passed by it: the longest
    answer that is allowed, and a prompt a tenth longer than the longest so far. How long the next
    prompt is, only the server knows.
    """
    tokens = spent.tokens_in + spent.tokens_out
    prompt = spent.largest_prompt * 11 // 10
    if limits.tokens and tokens + prompt + largest_answer > limits.tokens:
        return f"{tokens} of {limits.tokens} tokens are spent"
    next_cost = price.cost(prompt, largest_answer)
    if limits.cost and (spent.cost or 0.0) + (next_cost or 0.0) > limits.cost:
        return f"{spent.cost or 0.0:.4f} of {limits.cost:g} dollars are spent"
    if limits.seconds and spent.seconds >= limits.seconds:
        return f"{spent.seconds:.0f} of {limits.seconds:.0f} seconds are spent"
    return ""
