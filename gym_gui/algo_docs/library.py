"""Reads the help texts and puts them together for one algorithm."""

import html
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypedDict

from mosaic.presenting.formatting import compact
from mosaic.workers.facts import AlgorithmFacts

_FOLDER = Path(__file__).parent
_LINK = re.compile(r"(https?://[^\s,]+)")


class AlgorithmHelp(TypedDict, total=False):
    """An entry of `algorithms.toml`; what it does not say is in the entry named by `base`."""

    base: str
    what: str
    when: str
    policy: str
    matters: list[str]
    environments: list[str]


class FamilyHelp(TypedDict):
    """An entry of `environments.toml`: a family, and how many steps usually show a result."""

    title: str
    examples: str
    on_policy: int
    off_policy: int
    advice: str


@cache
def _algorithms() -> Mapping[str, AlgorithmHelp]:
    return tomllib.loads(_text("algorithms"))


@cache
def _families() -> Mapping[str, FamilyHelp]:
    return tomllib.loads(_text("environments"))


@cache
def _reasons() -> Mapping[str, str]:
    """Why each parameter matters."""
    return tomllib.loads(_text("parameters"))


def _text(name: str) -> str:
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def documented_algorithms() -> list[str]:
    """The algorithms that have a help text."""
    return list(_algorithms())


def entry(algo: str) -> AlgorithmHelp:
    """What is written about an algorithm, with what its base says underneath; empty if nothing."""
    own = _algorithms().get(algo)
    if own is None:
        return {}
    return {**entry(own.get("base", "")), **own}


def parameters_that_matter(algo: str) -> tuple[str, ...]:
    """The names a beginner should see first; nothing when nothing is written about it."""
    return tuple(entry(algo).get("matters", ()))


def recommended_timesteps(algo: str, family: str) -> int | None:
    """How long training usually takes until there is something to see."""
    written = entry(algo)
    place = _families().get(family)
    if place is None or family not in written.get("environments", ()):
        return None
    return _usual_steps(place, written)


def help_html(algo: str, description: AlgorithmFacts) -> str:
    """The help panel's text for an algorithm.

    Args:
        algo: Its name.
        description: What its own script says about it (`title`, `paper`, `arguments`).
    """
    written = entry(algo)
    parts = [f"<h3>{html.escape(str(description.get('title') or algo))}</h3>"]
    if written:
        parts.append(f"<p>{html.escape(written['what'])}</p>")
        parts.append(f"<p><b>When to use it.</b> {html.escape(written['when'])}</p>")
    elif description.get("family"):
        parts.append(f"<p>{html.escape(str(description['family']))}</p>")
    parts.append(_parameters(algo, description))
    parts.extend(_environment(name, written) for name in written.get("environments", ()))
    if description.get("paper"):
        parts.append(f"<p><b>Paper.</b> {_linked(str(description['paper']))}</p>")
    return "\n".join(parts)


def _parameters(algo: str, description: AlgorithmFacts) -> str:
    defaults = {item["name"]: item for item in description.get("arguments", ())}
    rows = []
    for name in parameters_that_matter(algo):
        if defaults and name not in defaults:
            continue
        known = defaults.get(name)
        default = known["default"] if known else ""
        why = _reasons().get(name) or (known["help"] if known else "")
        shown = f" ({html.escape(str(default))})" if default != "" else ""
        rows.append(f"<p><code>{name}</code>{shown}: {html.escape(why)}</p>")
    if not rows:
        return ""
    return f"<p><b>Parameters that matter</b> (with their defaults)</p>{''.join(rows)}"


def _usual_steps(place: FamilyHelp, written: AlgorithmHelp) -> int:
    return place["on_policy" if written.get("policy", "on") == "on" else "off_policy"]


def _environment(name: str, written: AlgorithmHelp) -> str:
    place = _families()[name]
    steps = _usual_steps(place, written)
    return (
        f"<p><b>{html.escape(place['title'])}</b> — about {compact(steps)} steps. "
        f"{html.escape(place['advice'])}<br><i>{html.escape(place['examples'])}</i></p>"
    )


def _linked(text: str) -> str:
    return _LINK.sub(r"<a href='\1'>\1</a>", html.escape(text))
