"""The games for several players, as PettingZoo has them: how they are made and told in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

# What a player sees, from its own side.
Board = NDArray[Any]
Describe = Callable[[Board, Sequence[str]], str]


@dataclass(frozen=True)
class TableGame:
    """One game.

    Attributes:
        module: Where PettingZoo has it.
        rules: What a player should know before it begins.
        names: Of the actions.
        describe: From what the player to move sees, and the moves so far, to text.
        openings: Moves at the beginning that are drawn by the seed. Without them two players
            that leave nothing to chance would play the same game on every seed.
        cooperative: Whether the players want the same.
        defaults: Arguments for the environment that a run can change.
        trained_in: An environment for one agent with the same board and moves; empty: none.
        keys: What a person presses for each action.
        sides: What the pieces of each seat look like in pictures; empty where they look alike.
    """

    module: str
    rules: str
    names: Sequence[str]
    keys: Sequence[str]
    describe: Describe
    openings: int = 0
    cooperative: bool = False
    defaults: Mapping[str, JsonValue] = field(default_factory=dict)
    seats: int = 2
    trained_in: str = ""
    sides: Sequence[str] = ()


def _rows(board: Board) -> list[str]:
    """A board as lines: X are one's own stones, O the other's."""
    signs = np.full(board.shape[:2], ".")
    signs[board[..., 0] == 1] = "X"
    signs[board[..., 1] == 1] = "O"
    return [" ".join(row) for row in signs]


def _last(moves: Sequence[str]) -> str:
    return f"The other player's last move: {moves[-1]}" if moves else "The board is empty."


def connect_four(board: Board, moves: Sequence[str]) -> str:
    """The board from above, with the numbers of the columns."""
    return "\n".join([_last(moves), *_rows(board), " ".join(str(n) for n in range(1, 8))])


def tic_tac_toe(board: Board, moves: Sequence[str]) -> str:
    """The board row by row; PettingZoo counts its squares column by column."""
    return "\n".join([_last(moves), *_rows(board.swapaxes(0, 1))])


def _steps(across: int, down: int) -> str:
    parts = [
        f"{abs(count)} {less if count < 0 else more}"
        for count, less, more in ((across, "left", "right"), (down, "up", "down"))
        if count
    ]
    return " ".join(parts) or "here"


def seen_places(board: Board, layer: int) -> list[tuple[int, int]]:
    """Where something is, as steps to the right and down from the one who looks."""
    middle = board.shape[0] // 2
    places = [(int(x) - middle, int(y) - middle) for y, x in np.argwhere(board[..., layer] > 0)]
    return sorted(places, key=lambda place: (abs(place[0]) + abs(place[1]), place))


def pursuit(board: Board, moves: Sequence[str]) -> str:
    """Prey, partner and walls from where the pursuer stands."""
    prey = [_steps(*place) for place in seen_places(board, 2)]
    # The pursuer itself is in the layer too, in the middle.
    others = seen_places(board, 1)
    alone = board[board.shape[0] // 2, board.shape[1] // 2, 1] <= 1
    partner = [_steps(*place) for place in others if place != (0, 0) or not alone]
    near = [
        name
        for name, place in (
            ("left", (-1, 0)),
            ("right", (1, 0)),
            ("up", (0, -1)),
            ("down", (0, 1)),
        )
        if place in seen_places(board, 0)
    ]
    return "\n".join(
        [
            f"Prey: {', '.join(prey) or 'not in sight'}",
            f"Partner: {', '.join(partner) or 'not in sight'}",
            f"Walls: {', '.join(near) or 'none beside you'}",
            f"Last move: {moves[-1] if moves else 'none'}",
        ]
    )


GAMES: dict[str, TableGame] = {
    "connect_four_v3": TableGame(
        "pettingzoo.classic.connect_four_v3",
        "Drop stones into columns; four of your own in a line, across, down or diagonal, win. "
        "X are your stones, O the other player's.",
        [f"column {number}" for number in range(1, 8)],
        [str(number) for number in range(1, 8)],
        connect_four,
        openings=2,
        trained_in="pgx/connect_four",
        sides=("red", "black"),
    ),
    "tictactoe_v3": TableGame(
        "pettingzoo.classic.tictactoe_v3",
        "Three of your own marks in a line win. X are your marks, O the other player's.",
        [f"row {n % 3 + 1} column {n // 3 + 1}" for n in range(9)],
        # Counted as one reads: 1 to 3 is the first row.
        [str(n % 3 * 3 + n // 3 + 1) for n in range(9)],
        tic_tac_toe,
        openings=1,
        trained_in="pgx/tic_tac_toe",
        sides=("the crosses", "the circles"),
    ),
    "pursuit_v5": TableGame(
        "pettingzoo.sisl.pursuit_v5",
        "You and your partner hunt together. Prey is caught when both of you stand where it is.",
        ["left", "right", "down", "up", "stay"],
        ["left", "right", "down", "up", "space"],
        pursuit,
        cooperative=True,
        defaults={
            "x_size": 8,
            "y_size": 8,
            "n_pursuers": 2,
            "n_evaders": 2,
            "n_catch": 2,
            "surround": False,
            "freeze_evaders": True,
            "max_cycles": 40,
        },
    ),
}
