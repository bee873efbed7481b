"""How a model is asked to answer, and what its answer means."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from llm_worker.play.actions import Action, Actions, Choices, Json, Words

Way = Literal["schema", "tools", "text"]
# The order in which a server is tried: a schema was always obeyed where it was supported, a
# forced tool was not.
WAYS: tuple[Way, ...] = ("schema", "tools", "text")
TOOL = "act"
LONGEST_REASON = 400
_MOST_BRACKETS = 32
_BRACKETS = re.compile(r"\[[^\[\]]+\]")
_ACTION_MARK = re.compile(r"\baction\b", re.IGNORECASE)


@dataclass(frozen=True)
class Decision:
    """A valid answer.

    Attributes:
        later: What it plans to do after the action.
    """

    action: Action
    reasoning: str = ""
    later: tuple[Action, ...] = ()


@dataclass(frozen=True)
class Invalid:
    """An answer that names no action, with a sentence that the model can learn from."""

    reason: str


def answer_schema(actions: Actions, plan: int = 1) -> Json:
    """The JSON schema of an answer with one action, or with up to `plan`."""
    name, wanted = "action", actions.schema()
    if plan > 1:
        name, wanted = (
            "actions",
            {"type": "array", "items": wanted, "minItems": 1, "maxItems": plan},
        )
    return {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string", "maxLength": LONGEST_REASON},
            name: wanted,
        },
        "required": ["reasoning", name],
        "additionalProperties": False,
    }


def constraints(way: Way, actions: Actions, plan: int = 1) -> Json:
    """The part of a request that makes the server keep the format."""
    schema = answer_schema(actions, plan)
    if way == "schema":
        wrapped: Json = {"name": "decision", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": wrapped}}
    if way == "tools":
        function: Json = {"name": TOOL, "description": "act once", "parameters": schema}
        return {
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": TOOL}},
        }
    return {}


def read_answer(text: str, actions: Actions, plan: int = 1) -> Decision | Invalid:
    """The decision in an answer: JSON, JSON among other words, or a plain sentence.

    Args:
        text: The answer.
        actions: What is allowed.
        plan: How many actions it may have; those beyond are left out.
    """
    document = _json_object(text)
    if document is not None:
        return _from_document(document, actions, plan)
    action = _from_words(text, actions)
    if action is not None:
        return Decision(action, text.strip()[:LONGEST_REASON])
    return Invalid(f"The answer has no action. Answer with JSON only. {_allowed(actions)}")


def _from_document(document: Json, actions: Actions, plan: int) -> Decision | Invalid:
    lowered = {str(key).lower(): value for key, value in document.items()}
    planned = lowered.get("actions")
    if plan > 1 and isinstance(planned, list) and planned:
        return _from_plan(planned[:plan], str(lowered.get("reasoning", "")), actions)
    if "action" not in lowered:
        return Invalid(f'The answer has no "action". {_allowed(actions)}')
    value = lowered["action"]
    action = actions.read(value)
    if action is None:
        return Invalid(f"{str(value)[:60]!r} is not an action. {_allowed(actions)}")
    reasoning = lowered.get("reasoning", "")
    return Decision(action, str(reasoning)[:LONGEST_REASON])


def _from_plan(planned: list[JsonValue], reasoning: str, actions: Actions) -> Decision | Invalid:
    taken: list[Action] = []
    for value in planned:
        action = actions.read(value)
        if action is None:
            return Invalid(f"{str(value)[:60]!r} is not an action. {_allowed(actions)}")
        taken.append(action)
    return Decision(taken[0], reasoning[:LONGEST_REASON], tuple(taken[1:]))


def _from_words(text: str, actions: Actions) -> Action | None:
    if isinstance(actions, Words):
        return _as_move(text, actions)
    if not isinstance(actions, Choices):
        return None
    # The last one counts: models weigh several actions before they decide.
    for mark in reversed(list(_ACTION_MARK.finditer(text))):
        action = actions.first_named(text[mark.end() :])
        if action is not None:
            return action
    return actions.mentioned(text)


def _as_move(text: str, actions: Words) -> str | None:
    """The last move in brackets; where any text may be a move, else the whole answer."""
    marked = _BRACKETS.findall(text)
    if marked:
        return actions.read(marked[-1])
    return None if actions.offered else actions.read(text)


def _json_object(text: str) -> Json | None:
    """The first whole JSON object in a text."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    # A reply of a thousand opening brackets is nonsense and must not take long to be one.
    for _ in range(_MOST_BRACKETS):
        if start < 0:
            break
        try:
            found, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        return found if isinstance(found, dict) else None
    return None


def _allowed(actions: Actions) -> str:
    return f"Allowed: {actions.listed()}."


def as_written(decision: Decision, actions: Actions, keep_reasoning: bool, plan: int = 1) -> str:
    """A decision as it appears in the history, in the format of the answers."""
    said: JsonValue = actions.say(decision.action)
    if not isinstance(actions, Choices):
        action = decision.action
        said = action if isinstance(action, int | str) else list(action)
    document: Json = {"reasoning": decision.reasoning} if keep_reasoning else {}
    return json.dumps({**document, **({"actions": [said]} if plan > 1 else {"action": said})})
