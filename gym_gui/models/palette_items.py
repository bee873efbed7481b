"""What the command palette offers and how it ranks it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PaletteItem:
    """One line of the palette.

    Attributes:
        key: What is done when it is chosen.
        title: What it says.
        hint: A shortcut, or what kind of thing it is.
        icon: Name of its icon.
        enabled: Whether it can be chosen now.
    """

    key: str
    title: str
    hint: str = ""
    icon: str = ""
    enabled: bool = True


def score(query: str, title: str) -> int | None:
    """How well a title fits what was typed: lower is better, None is not at all."""
    wanted, given = query.lower().split(), title.lower()
    total = 0
    for word in wanted:
        place = given.find(word)
        if place < 0:
            if not _in_order(word, given):
                return None
            # Letters in order but not together: a guess, so it comes after every real match.
            total += 200
        elif place == 0 or given[place - 1] in " ·-_/.":
            total += place
        else:
            total += 50 + place
    return total + len(given) // 8


def _in_order(word: str, text: str) -> bool:
    letters = iter(text)
    return all(letter in letters for letter in word)


def rank(
    query: str, items: Iterable[PaletteItem], recent: Sequence[str], limit: int = 60
) -> list[PaletteItem]:
    """The items that fit, best first; without a query the recent ones first."""
    if not query.strip():
        order = {key: place for place, key in enumerate(recent)}
        return sorted(items, key=lambda item: order.get(item.key, len(order)))[:limit]
    scored = [(score(query, item.title), item) for item in items]
    fitting = [(value, item) for value, item in scored if value is not None]
    fitting.sort(key=lambda pair: (not pair[1].enabled, pair[0]))
    return [item for _, item in fitting[:limit]]
