"""A picture in a terminal that is changed in place: only the cells that differ are sent.

A whole picture of an 80 × 24 terminal is 60 kB; fifty of them a second are more than a slow
connection takes, and then the game would wait for the terminal.
"""

import re
import select
from typing import TextIO

# One character with the colours in front of it.
_CELL = re.compile(r"((?:\x1b\[[0-9;]*m)*)([^\x1b\n])")
_TRAILING = re.compile(r"(?:\x1b\[[0-9;]*m)+$")
_PLAIN = "\x1b[0m"


class Screen:
    """Lines of text at the cursor's place, shown again and again.

    Args:
        stream: The terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: list[list[tuple[str, str]]] = []

    def show(self, text: str, *, always: bool = False) -> bool:
        """Change what is shown to `text`; returns whether it was sent.

        Args:
            text: Lines, with ANSI colours.
            always: Wait for a terminal that does not keep up, instead of dropping this picture.
        """
        if not always and not self._ready():
            return False
        lines = [cells_of(line) for line in text.split("\n")]
        if len(lines) != len(self._shown):
            up = f"\x1b[{len(self._shown)}F\x1b[J" if self._shown else ""
            sent = up + "\r\n".join(text.split("\n")) + "\r\n"
        else:
            sent = "".join(
                _change(before, after, len(lines) - number)
                for number, (before, after) in enumerate(zip(self._shown, lines, strict=True))
            )
        self._shown = lines
        self._stream.write(sent)
        self._stream.flush()
        return True

    def _ready(self) -> bool:
        """Whether the terminal takes more now; what is no terminal always does."""
        try:
            return bool(select.select([], [self._stream], [], 0)[1])
        except (OSError, ValueError):
            return True


def cells_of(line: str) -> list[tuple[str, str]]:
    """Each character of a line with the colours that it is shown in."""
    cells, colours = [], ""
    for codes, character in _CELL.findall(_TRAILING.sub("", line)):
        # Without codes of its own a character has those of the one before.
        colours = codes or colours
        cells.append((colours.removeprefix(_PLAIN), character))
    return cells


def _change(before: list[tuple[str, str]], after: list[tuple[str, str]], up: int) -> str:
    """What turns one line into another; `up` is how far above the cursor it is."""
    if before == after:
        return ""
    parts, column, colours = [f"\x1b[{up}F"], 0, _PLAIN
    for place, cell in enumerate(after):
        if place < len(before) and before[place] == cell:
            continue
        if column != place:
            parts.append(f"\x1b[{place + 1}G")
        if cell[0] != colours:
            parts.append(cell[0] or _PLAIN)
            colours = cell[0]
        parts.append(cell[1])
        column = place + 1
    rest = f"\x1b[{len(after) + 1}G\x1b[K" if len(after) < len(before) else ""
    return "".join([*parts, _PLAIN, rest, f"\x1b[{up}E"])
