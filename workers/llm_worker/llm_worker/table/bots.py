"""Players by search: what a patient person without a plan does at the board or in the grid."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_worker.table.games import seen_places
from llm_worker.table.world import TableWorld

_WIN = 1000
Stones = tuple[int, ...]
Line = tuple[int, ...]


@dataclass(frozen=True)
class Rules:
    """A board game as far as a search needs it: squares in rows, lines that win.

    Attributes:
        lines: Those that win, by each of their squares.
        falls: Whether a stone falls to the lowest free square of its column.
        depth: How many moves the search looks ahead.
    """

    rows: int
    columns: int
    lines: Mapping[int, Sequence[Line]]
    falls: bool
    depth: int

    def moves(self, stones: Stones) -> list[tuple[int, int]]:
        """Each legal action and the square that it fills."""
        if not self.falls:
            return [(square, square) for square, stone in enumerate(stones) if not stone]
        found = []
        for column in range(self.columns):
            free = [r for r in range(self.rows) if not stones[r * self.columns + column]]
            if free:
                found.append((column, max(free) * self.columns + column))
        return found


def _lines(rows: int, columns: int, length: int) -> dict[int, list[Line]]:
    found: dict[int, list[Line]] = {}
    for row in range(rows):
        for column in range(columns):
            for down, across in ((0, 1), (1, 0), (1, 1), (1, -1)):
                last_row, last_column = row + down * (length - 1), column + across * (length - 1)
                if 0 <= last_row < rows and 0 <= last_column < columns:
                    steps = range(length)
                    line = tuple((row + down * n) * columns + column + across * n for n in steps)
                    for square in line:
                        found.setdefault(square, []).append(line)
    return found


RULES = {
    "connect_four_v3": Rules(6, 7, _lines(6, 7, 4), falls=True, depth=4),
    "tictactoe_v3": Rules(3, 3, _lines(3, 3, 3), falls=False, depth=9),
}


def best_moves(rules: Rules, stones: Stones) -> list[int]:
    """The actions that the search finds equally good; 1 are one's own stones, -1 the other's."""
    scored = []
    for action, square in rules.moves(stones):
        after = _with(stones, square, 1)
        won = _wins(rules, after, square, 1)
        worth = _WIN if won else -_search(rules, after, rules.depth - 1, -_WIN, _WIN, -1)
        scored.append((worth, action))
    best = max(score for score, _ in scored)
    return [action for score, action in scored if score == best]


def _search(rules: Rules, stones: Stones, depth: int, low: int, high: int, side: int) -> int:
    """How good a position is for the side to move; a win is worth more the sooner it comes."""
    moves = rules.moves(stones)
    if not moves or depth == 0:
        return 0
    best = -_WIN
    for _, square in moves:
        after = _with(stones, square, side)
        if _wins(rules, after, square, side):
            return _WIN - (rules.depth - depth)
        best = max(best, -_search(rules, after, depth - 1, -high, -low, -side))
        low = max(low, best)
        # The other side has a better choice earlier and will not come here.
        if low >= high:
            break
    return best


def _with(stones: Stones, square: int, side: int) -> Stones:
    return (*stones[:square], side, *stones[square + 1 :])


def _wins(rules: Rules, stones: Stones, square: int, side: int) -> bool:
    return any(all(stones[place] == side for place in line) for line in rules.lines[square])


class BoardBot:
    """Looks some moves ahead; equally good moves are drawn by the seed."""

    def __init__(self, world: TableWorld, seed: int, seat: int) -> None:
        self._rules = RULES[world.env_id]
        self._chance = random.Random(f"bot {seat} {seed}")

    def choose(self, world: TableWorld) -> tuple[int, str]:
        """An action and the reason for it."""
        board = world.board.astype(int)
        stones = tuple(int(n) for n in (board[..., 0] - board[..., 1]).reshape(-1))
        return self._chance.choice(best_moves(self._rules, stones)), "the bot's search"


class HuntBot:
    """Walks to the prey that both can reach soonest, and wanders while it sees none."""

    def __init__(self, world: TableWorld, seed: int, seat: int) -> None:
        self._chance = random.Random(f"bot {seat} {seed}")

    def choose(self, world: TableWorld) -> tuple[int, str]:
        """An action and the reason for it."""
        board = world.board
        prey = seen_places(board, 2)
        partner = [place for place in seen_places(board, 1) if place != (0, 0)]
        goal = min(prey, key=lambda place: _both(place, partner)) if prey else None
        if goal is None and partner:
            goal = partner[0]
        walls = set(seen_places(board, 0))
        steps = {0: (-1, 0), 1: (1, 0), 2: (0, 1), 3: (0, -1)}
        free = [action for action, place in steps.items() if place not in walls]
        if goal == (0, 0) or not free:
            return 4, "waits at the prey"
        if goal is None:
            return self._chance.choice(free), "looks for prey"
        return min(free, key=lambda action: _distance(steps[action], goal)), "walks to the prey"


def _both(place: tuple[int, int], partner: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    others = [_distance(place, other) for other in partner]
    return (_distance(place, (0, 0)) + sum(others), *place)


def _distance(one: tuple[int, int], other: tuple[int, int]) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def bot_for(world: TableWorld, seed: int, seat: int) -> BoardBot | HuntBot:
    """The bot of a game."""
    return HuntBot(world, seed, seat) if world.game.cooperative else BoardBot(world, seed, seat)
