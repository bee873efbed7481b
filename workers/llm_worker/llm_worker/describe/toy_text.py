"""Gymnasium's toy text worlds in words."""

from __future__ import annotations

from collections.abc import Sequence

LAKE_ACTIONS = ("left", "down", "right", "up")
CLIFF_ACTIONS = ("up", "right", "down", "left")
TAXI_ACTIONS = ("south", "north", "east", "west", "pick up", "drop off")
BLACKJACK_ACTIONS = ("stick", "hit")
_TAXI_STANDS = (
    "red (row 0, column 0)",
    "green (row 0, column 4)",
    "yellow (row 4, column 0)",
    "blue (row 4, column 3)",
)
_TAXI_COLUMNS = 5
_CLIFF_COLUMNS = 12
_DEALER_ACE = 1


def frozen_lake(state: int, rows: Sequence[str]) -> str:
    """The map with the agent on it, and what is next to it."""
    columns = len(rows[0])
    row, column = divmod(state, columns)
    drawn = [
        " ".join("A" if (r, c) == (row, column) else cell for c, cell in enumerate(line))
        for r, line in enumerate(rows)
    ]
    around = [
        f"{name}: {_lake_cell(rows, row + dr, column + dc)}"
        for name, dr, dc in (("left", 0, -1), ("down", 1, 0), ("right", 0, 1), ("up", -1, 0))
    ]
    place = f"You (A) are at row {row}, column {column}."
    return "\n".join([*drawn, place, "Next to you: " + ", ".join(around)])


def _lake_cell(rows: Sequence[str], row: int, column: int) -> str:
    if not (0 <= row < len(rows) and 0 <= column < len(rows[0])):
        return "edge"
    return {"H": "hole", "G": "goal"}.get(rows[row][column], "ice")


def cliff_walking(state: int) -> str:
    """Where the agent is on the cliff."""
    row, column = divmod(state, _CLIFF_COLUMNS)
    return (
        f"You are at row {row}, column {column} of a map with rows 0 to 3 and columns 0 to 11.\n"
        "The goal is at row 3, column 11. The cliff is row 3, columns 1 to 10."
    )


def taxi(state: int) -> str:
    """Where taxi, passenger and destination are."""
    rest, destination = divmod(state, 4)
    rest, passenger = divmod(rest, 5)
    row, column = divmod(rest, _TAXI_COLUMNS)
    where = "in the taxi" if passenger == 4 else f"at {_TAXI_STANDS[passenger]}"
    return (
        f"The taxi is at row {row}, column {column} of a map with rows and columns 0 to 4.\n"
        f"The passenger is {where}.\nThe destination is {_TAXI_STANDS[destination]}."
    )


def blackjack(hand: Sequence[int]) -> str:
    """The player's sum and the dealer's card."""
    total, dealer, usable_ace = hand
    card = "an ace" if dealer == _DEALER_ACE else str(dealer)
    ace = " with a usable ace" if usable_ace else ""
    return f"Your cards add up to {total}{ace}. The dealer shows {card}."
