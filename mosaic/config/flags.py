"""Flags of an algorithm, read with the types that it declares.

The only reader of such flags: `mosaic train`, `mosaic sweep`, the worker's own command line and a
script that is started by hand all use it, so a flag means the same everywhere.
"""

from collections.abc import Iterator, Mapping, Sequence

from mosaic.config.json_types import JsonValue
from mosaic.config.secrets import looks_secret
from mosaic.config.suggest import did_you_mean
from mosaic.config.values import convert, kinds_of, noun
from mosaic.errors import Problem

NOT_A_FLAG, SECRET_FLAG, MISSING_VALUE = "CLI100", "CLI101", "CLI102"
UNKNOWN_FLAG, BAD_VALUE = "CFG113", "CFG114"


def read_flags(
    words: Sequence[str], kinds: Mapping[str, str] | None, subject: str
) -> tuple[dict[str, JsonValue], list[Problem]]:
    """Turn `--num-envs 8 --no-anneal-lr` into values.

    Args:
        words: What was typed.
        kinds: The declared type of each argument, such as `int` or `float | None`; None reads
            any flag and guesses the type of its value.
        subject: Whose flags these are, for messages.

    Returns:
        The values by argument, and a problem for each flag that is unknown or does not fit.
    """
    reader = _Reader(words, kinds, subject)
    return reader.values, list(reader.read())


def flag_of(name: str) -> str:
    """An argument as it is typed."""
    return "--" + name.replace("_", "-")


def as_words(name: str, value: JsonValue) -> list[str]:
    """One value as the words of a command line; the inverse of reading it.

    Upstream's scripts read the same words with tyro: switches are bare, lists have one word each.
    """
    flag = flag_of(name)
    if isinstance(value, bool):
        return [flag if value else f"--no-{flag.removeprefix('--')}"]
    if isinstance(value, list):
        return [flag, *map(str, value)]
    return [flag, "none" if value is None else str(value)]


class _Reader:
    """One pass over the words."""

    def __init__(self, words: Sequence[str], kinds: Mapping[str, str] | None, subject: str) -> None:
        self.values: dict[str, JsonValue] = {}
        self._words = words
        self._kinds = kinds
        self._subject = subject
        self._next = 0

    def read(self) -> Iterator[Problem]:
        """Fill `values`; yields what is wrong."""
        while self._next < len(self._words):
            word, equals, inline = self._words[self._next].partition("=")
            self._next += 1
            problem = self._flag(word, inline if equals else None)
            if problem is not None:
                yield problem

    def _flag(self, word: str, inline: str | None) -> Problem | None:
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("--") or not name:
            return Problem("", NOT_A_FLAG, f"{word!r} is not a flag; flags begin with two dashes")
        if looks_secret(name):
            # The next word is the secret, whatever it looks like: it must not be shown either.
            self._next += inline is None
            text = (
                f"{word} would show a secret to every user of this machine; set it in the "
                "environment (WANDB_API_KEY) or in a configuration file"
            )
            return Problem("", SECRET_FLAG, text)
        kind = self._kind(name)
        negated = name.removeprefix("no_")
        if kind is None and negated != name and _is_switch(self._kind(negated)):
            self.values[negated] = False
            return None
        if kind is None:
            self._skip_value(inline)
            known = [flag_of(known) for known in self._kinds or ()]
            text = f"{self._subject} has no flag {word}{did_you_mean(word, known)}"
            return Problem("", UNKNOWN_FLAG, text)
        return self._value(word, name, kind, inline)

    def _value(self, word: str, name: str, kind: str, inline: str | None) -> Problem | None:
        text = inline if inline is not None else self._following()
        if inline is None:
            if _is_switch(kind) and (text is None or text.startswith("--")):
                self.values[name] = True
                return None
            # Only a text may begin with two dashes; elsewhere it is the next flag.
            if text is None or (text.startswith("--") and kinds_of(kind)[0] != "str"):
                return Problem("", MISSING_VALUE, f"{word} needs a value ({noun(kind)})")
            self._next += 1
        assert text is not None
        try:
            self.values[name] = convert(text, kind)
        except ValueError:
            return Problem("", BAD_VALUE, f"{word} takes {noun(kind)}, not {text!r}")
        return None

    def _kind(self, name: str) -> str | None:
        return "any" if self._kinds is None else self._kinds.get(name)

    def _following(self) -> str | None:
        return self._words[self._next] if self._next < len(self._words) else None

    def _skip_value(self, inline: str | None) -> None:
        """A flag that is refused takes its value along, so that it is not told as a problem too."""
        following = self._following()
        if inline is None and following is not None and not following.startswith("--"):
            self._next += 1


def _is_switch(kind: str | None) -> bool:
    return kind is not None and kinds_of(kind)[0] == "bool"
