"""Which lines of a log are wanted, decided quickly enough for gigabytes."""

import re

_EDGE = r"(\\b|\(\?<!\w+\))*"
_WORDS = re.compile(
    rf"(?P<case>\(\?i\))?{_EDGE}(?P<group>\()?(?P<words>[\w =:/,|-]+)(?(group)\)){_EDGE}"
)


class LineFilter:
    """Takes the lines that a pattern fits, except hidden ones.

    Most searches are for a word or one of a few. Where none of them occurs in a whole block, none
    of its lines needs to be looked at.

    Args:
        pattern: A regular expression; empty takes every line.
        hidden: Lines with this in them are never taken.

    Raises:
        re.error: The pattern cannot be read.
    """

    def __init__(self, pattern: str, hidden: str = "") -> None:
        self._search = re.compile(pattern).search if pattern else None
        self._hidden = hidden
        self._words, self._fold_case = _required_words(pattern)

    def takes(self, line: str) -> bool:
        """Whether a line is wanted."""
        if self._search is not None and self._search(line) is None:
            return False
        return not self._hidden or self._hidden not in line

    def may_be_in(self, content: bytes) -> bool:
        """Whether a line of `content` could be wanted; False is certain, True is not."""
        # Beyond ASCII, letters have cases and lookalikes that bytes do not show; an escape
        # sequence may stand in the middle of a word.
        if not self._words or not content.isascii() or b"\x1b" in content:
            return True
        haystack = content.lower() if self._fold_case else content
        return any(word in haystack for word in self._words)


def _required_words(pattern: str) -> tuple[tuple[bytes, ...], bool]:
    """Words of which every fitting line has one, and whether to look for them in small letters."""
    found = _WORDS.fullmatch(pattern)
    words = found["words"].split("|") if found else []
    if found is None or not all(words) or not pattern.isascii():
        return (), False
    lowered = {one.lower() for one in words}
    # Fewer words in small letters let more through, but are looked for more quickly.
    fold = bool(found["case"]) or len(lowered) < len(words)
    return tuple(one.encode() for one in sorted(lowered if fold else words)), fold
