"""What a server honours: a JSON schema, a tool, or only words; asked once, before the game."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from llm_worker.errors import ModelError
from llm_worker.play.actions import Choices, Json
from llm_worker.play.answers import WAYS, Decision, Way, read_answer
from llm_worker.play.prompts import Sampling, request_body
from llm_worker.play.replies import Reply

_QUESTION = "Which of the two comes first in the alphabet?"
_CHOICES = Choices(("alpha", "omega"))
_SYSTEM = 'Answer with JSON only: {"reasoning": "one short sentence", "action": "alpha or omega"}'


@dataclass
class Probed:
    """The best way that works, and why the better ones do not."""

    way: Way
    refused: dict[str, str] = field(default_factory=dict)

    def document(self) -> Json:
        """For the records."""
        return {"way": self.way, "refused": dict(self.refused)}


def probe(ask: Callable[[Json], Reply], sampling: Sampling) -> Probed:
    """Try the ways in their order.

    Args:
        ask: Sends a request; raises `ModelError` when the server refuses it.
        sampling: How the run samples.

    Raises:
        ModelError: Not even words work; the text is the server's.
    """
    refused: dict[str, str] = {}
    # What a server honours does not depend on how many actions an answer has.
    sampling = replace(sampling, plan=1)
    for way in WAYS:
        body = request_body(_SYSTEM, [], _QUESTION, way, _CHOICES, sampling)
        try:
            reply = ask(body)
        except ModelError as error:
            refused[way] = str(error)
            # A key or a name that is wrong is wrong for every way.
            if way == "text" or any(status in str(error) for status in (" 401 ", " 403 ", " 404 ")):
                raise
            continue
        if way == "text" or _kept(reply):
            return Probed(way, refused)
        refused[way] = f"ignored: answered {reply.text[:60]!r}"
    raise AssertionError("the last way is always accepted")


def _kept(reply: Reply) -> bool:
    """Whether the answer has the form that was asked for, and nothing around it."""
    text = reply.text.strip()
    strict = text.startswith("{") and text.endswith("}")
    return strict and isinstance(read_answer(text, _CHOICES), Decision)
