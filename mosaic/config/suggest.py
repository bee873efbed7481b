"""The nearest valid name for a mistyped one."""

import difflib
from collections.abc import Iterable


def nearest(given: str, allowed: Iterable[str]) -> str | None:
    """The one of `allowed` most like `given`, or None when nothing is close."""
    names = list(allowed)
    folded = {name.lower(): name for name in names}
    matches = difflib.get_close_matches(given.lower(), list(folded), n=1, cutoff=0.6)
    if matches:
        return folded[matches[0]]
    # `Breakout` is far from `BreakoutNoFrameskip-v4` letter by letter, yet clearly meant.
    containing = [name for name in names if given and given.lower() in name.lower()]
    return min(containing, key=len) if containing else None


def by_initials(given: str, names: Iterable[str]) -> str | None:
    """The only name whose words begin with these letters: `lr` is `learning_rate`."""
    fitting = [
        name for name in names if "".join(word[:1] for word in name.split("_")) == given.lower()
    ]
    return fitting[0] if len(fitting) == 1 else None


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """A sentence fragment such as `; did you mean 'seed'?`, or nothing."""
    match = nearest(given, allowed)
    return f"; did you mean {match!r}?" if match else ""


def allowed_names(names: Iterable[str], limit: int = 12) -> str:
    """`names` as a short list for a sentence."""
    ordered = sorted(names)
    shown = ", ".join(ordered[:limit])
    return shown if len(ordered) <= limit else f"{shown}, … ({len(ordered)} in all)"
