"""How sure a model was of its action, from the chances of the tokens it wrote.

Servers report chances before the schema is applied: much of them goes to tokens that no action
allows. So the chances are renormalised, token by token, over those that continue an allowed name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_ACTION = re.compile(r'"action"\s*:\s*"')


@dataclass(frozen=True)
class TokenChances:
    """One token of a reply.

    Attributes:
        text: What was written.
        chances: The logarithm of the chance of each likely token, this one included.
    """

    text: str
    chances: Mapping[str, float]


def action_probability(tokens: Sequence[TokenChances], names: Sequence[str]) -> float | None:
    """The chance of the action that was written, among the allowed ones; None if unknown."""
    written = "".join(token.text for token in tokens)
    marks = list(_ACTION.finditer(written))
    if not marks:
        return None
    probability = 1.0
    endings = [f'{name}"' for name in names]
    for token, prefix, skipped in _tokens_after(tokens, marks[-1].end()):
        shares = {
            text: math.exp(chance)
            for text, chance in token.chances.items()
            if text.startswith(skipped) and _continues(prefix + text[len(skipped) :], endings)
        }
        if token.text not in shares:
            return None
        probability *= shares[token.text] / sum(shares.values())
        if '"' in token.text[len(skipped) :]:
            return probability
    return None


def _continues(text: str, endings: Sequence[str]) -> bool:
    """Whether an action's name, with its closing quote, begins so or is followed by more JSON."""
    return any(ending.startswith(text) or text.startswith(ending) for ending in endings)


def _tokens_after(
    tokens: Sequence[TokenChances], start: int
) -> Iterator[tuple[TokenChances, str, str]]:
    """Each token of the action: what of the action is before it, and what of it is before that."""
    written, place = "".join(token.text for token in tokens), 0
    for token in tokens:
        end = place + len(token.text)
        if end > start:
            yield token, written[start:place], token.text[: max(0, start - place)]
        place = end
