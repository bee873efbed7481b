"""Prompts: two templates, the history, and the exact request that follows from them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from string import Template

from pydantic import JsonValue

from llm_worker.play.actions import Actions, Json
from llm_worker.play.answers import Way, constraints

SYSTEM = """You play $env_id, one action at a time.
$rules
Actions: $actions
$format"""
ONE_ACTION = 'Answer with one JSON object: {"reasoning": "one short sentence", "action": "..."}'
SEVERAL = (
    'Answer with one JSON object: {"reasoning": "one short sentence", "actions": ["...", "..."]}, '
    "the next action first, at most $plan."
)
STEP = "$text"
FEEDBACK = "$text\n\nYour last answer was not valid. $reason"


@dataclass(frozen=True)
class Turn:
    """One earlier step: what was asked and what the model wrote, or would have written."""

    asked: str
    answered: str


@dataclass(frozen=True)
class Prompts:
    """The templates of a run; `$name` stands for what is filled in."""

    system: str = SYSTEM
    step: str = STEP

    def first_message(self, env_id: str, rules: str, actions: Actions, plan: int = 1) -> str:
        """The instructions, the same in every request of a run."""
        wanted = _fill(SEVERAL, plan=plan) if plan > 1 else ONE_ACTION
        return _fill(
            self.system, env_id=env_id, rules=rules, actions=actions.listed(), format=wanted
        )

    def step_message(self, text: str, episode: int, step: int) -> str:
        """The description of a moment."""
        return _fill(self.step, text=text, episode=episode, step=step)


@dataclass(frozen=True)
class Sampling:
    """How the model chooses its words."""

    model: str
    temperature: float
    max_tokens: int
    seed: int
    probabilities: bool = False
    plan: int = 1


def request_body(
    system: str,
    turns: Sequence[Turn],
    asked: str,
    way: Way,
    actions: Actions,
    sampling: Sampling,
    picture: bytes = b"",
) -> Json:
    """The exact request: instructions, history, newest last, so that servers reuse the prefix."""
    messages: list[Json] = [{"role": "system", "content": system}] if system else []
    for turn in turns:
        messages.append({"role": "user", "content": turn.asked})
        messages.append({"role": "assistant", "content": turn.answered})
    messages.append({"role": "user", "content": _content(asked, picture)})
    body: Json = {
        "messages": list(messages),
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "seed": sampling.seed,
        **constraints(way, actions, sampling.plan),
    }
    if sampling.probabilities:
        body |= {"logprobs": True, "top_logprobs": 10}
    if sampling.model:
        body["model"] = sampling.model
    return body


def with_feedback(asked: str, reason: str) -> str:
    """The same question with what was wrong with the last answer."""
    return _fill(FEEDBACK, text=asked, reason=reason)


def request_hash(identity: str, body: Json) -> str:
    """The name of a request in the cache: equal requests to the same model have the same."""
    text = json.dumps([identity, body], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _content(text: str, picture: bytes) -> JsonValue:
    if not picture:
        return text
    url = "data:image/png;base64," + base64.b64encode(picture).decode()
    return [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]


def _fill(template: str, **values: object) -> str:
    # Unknown names stay as they are: a template may speak of dollars.
    return Template(template).safe_substitute({k: str(v) for k, v in values.items()})
