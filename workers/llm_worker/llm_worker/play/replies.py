"""What a server's reply says: text, reasoning, tokens; and which failures are worth a retry."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from http import HTTPStatus

from pydantic import JsonValue

from llm_worker.play.answers import TOOL
from llm_worker.play.probability import TokenChances

# Too busy or broken for the moment; 529 is what some providers send when they are overloaded.
_TEMPORARY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_CUT_OFF = "does not match the expected"
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
LARGEST_REPLY = 4 * 1024 * 1024


@dataclass(frozen=True)
class Usage:
    """The tokens of one request."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0


@dataclass(frozen=True)
class Reply:
    """A reply that could be read.

    Attributes:
        text: The answer, or the arguments of the tool that was called.
        reasoning: What a reasoning model thought, where the server says it.
        whole: False when the server cut the answer.
        tokens: How likely each token was, if it was asked for.
    """

    text: str
    reasoning: str = ""
    whole: bool = True
    usage: Usage = Usage()
    tokens: list[TokenChances] = field(default_factory=list)


@dataclass(frozen=True)
class Failure:
    """A request that brought no reply.

    Attributes:
        temporary: Whether trying again makes sense.
        wait_s: How long the server asks to wait.
    """

    reason: str
    temporary: bool
    hint: str = ""
    wait_s: float = 0.0


def read_reply(content: bytes) -> Reply | Failure:
    """The reply in a response with status 200; anything else is a failure worth a retry."""
    try:
        document = json.loads(content)
        choice = document["choices"][0]
        message = choice["message"]
        usage = _usage(document.get("usage"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        excerpt = content[:80].decode(errors="replace")
        return Failure(f"the server's reply cannot be read: {excerpt!r}", temporary=True)
    text = _text(message)
    if text is None:
        return Failure("the server's reply has no text", temporary=True)
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    whole = choice.get("finish_reason") != "length"
    return Reply(text, str(reasoning), whole, usage, _tokens(choice.get("logprobs")))


def read_failure(status: int, content: bytes, retry_after: str) -> Reply | Failure:
    """What a response with another status means."""
    complaint = _complaint(content)
    if status == HTTPStatus.INTERNAL_SERVER_ERROR and _CUT_OFF in complaint:
        # llama.cpp says so of an answer that ended in the middle of its JSON. The server is well;
        # the same request would fail again.
        return Reply("", whole=False)
    reason = f"the server answers {status} {_phrase(status)}: {complaint}"
    if status in _TEMPORARY:
        return Failure(reason, temporary=True, wait_s=_seconds(retry_after))
    hints = {
        401: "check api_key; it is refused",
        403: "check api_key; it does not allow this model",
        404: "check the model's name and the URL, which should end with /v1",
    }
    return Failure(reason, temporary=False, hint=hints.get(status, ""))


def next_wait(attempt: int, asked_for: float, chance: random.Random) -> float:
    """How long to wait before attempt number `attempt` + 1: doubling, with jitter.

    Jitter keeps many runs that failed together from coming back together.
    """
    ceiling = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0**attempt)
    waited = ceiling * (0.5 + 0.5 * chance.random())
    return max(waited, min(asked_for, LONGEST_WAIT_S))


def _text(message: dict[str, JsonValue]) -> str | None:
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        for call in calls:
            function = call.get("function") if isinstance(call, dict) else None
            # Small models invent tools: only ours counts.
            if isinstance(function, dict) and function.get("name") == TOOL:
                return str(function.get("arguments"))
    content = message.get("content")
    return content if isinstance(content, str) else None


def _tokens(given: JsonValue) -> list[TokenChances]:
    content = given.get("content") if isinstance(given, dict) else None
    found = []
    for item in content if isinstance(content, list) else []:
        if not isinstance(item, dict):
            continue
        others = item.get("top_logprobs")
        chances: dict[str, float] = {}
        for one in [item, *(others if isinstance(others, list) else [])]:
            chance = one.get("logprob") if isinstance(one, dict) else None
            if isinstance(one, dict) and isinstance(chance, int | float):
                chances[str(one.get("token"))] = float(chance)
        found.append(TokenChances(str(item.get("token")), chances))
    return found


def _usage(given: JsonValue) -> Usage:
    facts = given if isinstance(given, dict) else {}
    details = facts.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return Usage(
        _count(facts.get("prompt_tokens")), _count(facts.get("completion_tokens")), _count(cached)
    )


def _count(value: JsonValue) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _complaint(content: bytes) -> str:
    text = content[:2000].decode(errors="replace")
    try:
        error = json.loads(text)["error"]
        text = str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, LookupError, TypeError):
        pass
    return text[:200]


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _seconds(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0
