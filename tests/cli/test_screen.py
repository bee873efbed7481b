"""A game in a terminal sends what changed, and shows the same as if it had sent everything."""

import io
import os
import re
from contextlib import suppress

import numpy as np

from mosaic.cli.screen import Screen, cells_of
from mosaic.fastlane.recorder import ansi_picture

_CODE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")


class Terminal:
    """As much of a terminal as the pictures use: colours, cursor moves, erasing."""

    def __init__(self) -> None:
        self.rows: list[dict[int, tuple[str, str]]] = [{}]
        self.row, self.column, self.colours = 0, 0, ""

    def feed(self, text: str) -> None:
        """Do what a terminal does with these characters."""
        place = 0
        while place < len(text):
            code = _CODE.match(text, place)
            if code:
                self._obey(code[1], code[2])
                place = code.end()
                continue
            self._put(text[place])
            place += 1

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            self.rows += [{} for _ in range(self.row + 1 - len(self.rows))]
        else:
            self.rows[self.row][self.column] = (self.colours, character)
            self.column += 1

    def _obey(self, number: str, kind: str) -> None:
        count = int(number) if number.isdigit() else 1
        if kind == "m":
            self.colours = "" if number == "0" else f"\x1b[{number}m"
        elif kind in "FE":
            self.row += count if kind == "E" else -count
            self.column = 0
        elif kind == "G":
            self.column = count - 1
        elif kind == "K":
            self.rows[self.row] = {
                place: cell for place, cell in self.rows[self.row].items() if place < self.column
            }
        elif kind == "J":
            self.rows[self.row :] = [{}]
        else:
            raise AssertionError(f"an unknown code: {kind}")

    def lines(self) -> list[list[tuple[str, str]]]:
        """What is seen, without empty lines at the end."""
        seen = [[row[place] for place in sorted(row)] for row in self.rows]
        while seen and not seen[-1]:
            seen.pop()
        return seen


def _moving(step: int) -> str:
    pixels = np.full((40, 60, 3), 255, dtype=np.uint8)
    pixels[20:30, 5 + step : 15 + step] = (200, 30, 30)
    picture = ansi_picture(pixels, 60, 20)
    return f"{picture}\nstep {step * 7}{' — over' if step == 4 else ''}"


def test_a_changed_picture_is_what_a_whole_one_would_be() -> None:
    """Also when a line gets shorter or the window another size; at a tenth of the characters."""
    stream, terminal = io.StringIO(), Terminal()
    screen = Screen(stream)
    whole = changed = 0
    for step in range(6):
        text = _moving(step) if step != 5 else "small\nagain"
        begin = stream.tell()
        assert screen.show(text)
        sent = stream.getvalue()[begin:]
        terminal.feed(sent)
        assert terminal.lines() == [cells_of(line) for line in text.split("\n")]
        if 0 < step < 5:
            whole, changed = whole + len(text), changed + len(sent)
    assert changed < whole / 10


def test_the_same_picture_again_sends_nothing() -> None:
    """A game that stands still costs nothing."""
    stream = io.StringIO()
    screen = Screen(stream)
    screen.show("one\ntwo")
    before = stream.tell()
    screen.show("one\ntwo")
    assert stream.tell() == before


def test_a_terminal_that_does_not_keep_up_loses_pictures_not_keys() -> None:
    """While nothing is read at the other end pictures are dropped; then the newest one is shown."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    with open(writing, "w") as stream, open(reading, "rb", buffering=0) as other:
        with suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 65536)
        screen = Screen(stream)
        assert not screen.show("lost")
        while other.read(65536):
            pass
        assert screen.show("seen")
        assert b"seen" in (other.read(65536) or b"")
