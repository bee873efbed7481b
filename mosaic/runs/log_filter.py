"""Which lines of a log are wanted, decided quickly enough for gigabytes.

Patterns come from clients and logs from workers. An engine that backtracks can need years for one
line of forty letters, and no thread can be stopped. RE2's time grows with the length of the text
alone; for that it knows neither lookaround nor back references.
"""

import re
from collections.abc import Iterator

import re2

from mosaic.errors import InvalidArgumentError

_EDGE = r"(\\b)*"
# Not after an underscore: `error`, but not `td_error`. It takes part in no word.
_NOT_JOINED = "(^|[^_])"
_WORDS = re.compile(
    rf"(?P<case>\(\?i\))?{_EDGE}(?P<group>\()?(?P<words>[\w =:/,|-]+)(?(group)\)){_EDGE}"
)
# Beyond this a search for words takes its time too.
_MOST_WORDS = 1000
# What means something else in a block of lines than in a single one.
_ONLY_BY_LINE = re.compile(r"\\[AzZC]|\(\?(?!i\)|:)")


class LineFilter:
    """Takes the lines that a pattern fits, except hidden ones.

    Most searches are for a word or one of a few. Where none of them occurs in a whole block, none
    of its lines needs to be looked at.

    Args:
        pattern: A regular expression as RE2 knows it; empty takes every line.
        hidden: Lines with this in them are never taken.

    Raises:
        InvalidArgumentError: The pattern cannot be read.
    """

    def __init__(self, pattern: str, hidden: str = "") -> None:
        self._hidden = hidden
        self._words, self._fold_case = _required_words(pattern.replace(_NOT_JOINED, ""))
        # Words need no backtracking, and for a hit in every line Python's own engine is quicker.
        harmless = bool(self._words) and len(pattern) <= _MOST_WORDS
        make = re.compile if harmless else _compile
        self._pattern = make(pattern) if pattern else None
        self._in_block = make(f"(?m){pattern}".encode()) if _fits_blocks(pattern) else None

    def takes(self, line: str) -> bool:
        """Whether a line is wanted."""
        if self._pattern is not None and self._pattern.search(line) is None:
            return False
        return not self._hidden or self._hidden not in line

    def may_be_in(self, content: bytes) -> bool:
        """Whether a line of `content` could be wanted; False is certain, True is not."""
        # Beyond ASCII, letters have cases and lookalikes that bytes do not show; an escape
        # sequence may be in the middle of a word.
        if not self._words or not content.isascii() or b"\x1b" in content:
            return True
        haystack = content.lower() if self._fold_case else content
        return any(word in haystack for word in self._words)

    def spans(self, content: bytes) -> Iterator[tuple[int, int]]:
        """Where the wanted lines of some plain ASCII text begin and end.

        One search over the block finds where to look: a call for each line would cost more than
        the search itself.
        """
        at = 0
        while at < len(content):
            stop = begin = at
            if self._in_block is not None:
                hit = self._in_block.search(content, at)
                if hit is None:
                    return
                begin, stop = max(at, content.rfind(b"\n", at, hit.start()) + 1), hit.end()
            stop = content.find(b"\n", stop)
            stop = len(content) if stop < 0 else stop
            lines = content[begin:stop].split(b"\n")
            # A hit may reach over several lines, which need not fit by themselves.
            certain = self._in_block is not None and len(lines) == 1
            for line in lines:
                if self._shows(line) if certain else self.takes(line.decode("ascii")):
                    yield begin, begin + len(line)
                begin += len(line) + 1
            at = stop + 1

    def _shows(self, line: bytes) -> bool:
        return not self._hidden or self._hidden.encode() not in line


def _compile(pattern: str | bytes) -> "re2._Regexp":
    options = re2.Options()
    # RE2 would print them to the daemon's stderr; the client gets the reason instead.
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidArgumentError(
            f"{pattern!r} is not a regular expression that logs can be searched with: {text} "
            "(RE2 syntax: no lookaround, no back references)"
        ) from None


def _fits_blocks(pattern: str) -> bool:
    """Whether a search over many lines finds at least what a search in each of them does."""
    return bool(pattern) and pattern.isascii() and not _ONLY_BY_LINE.search(pattern)


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
