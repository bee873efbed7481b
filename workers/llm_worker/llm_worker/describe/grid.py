"""MiniGrid and BabyAI in words: the goal, what was seen and where it is now, and what is unknown.

A grid world shows the agent a small window ahead. The describer remembers what the windows
showed and says where each thing is *now*, seen from the agent: `red ball 3 forward 2 left`. It
knows nothing that the agent has not seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

ACTIONS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle", "done")
REMEMBERED_ACTIONS = 3
# A large maze has dozens of things; the nearest ones matter, and a prompt must stay short.
MOST_THINGS = 16

# The numbers of MiniGrid's observations.
KINDS = ("unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent")
COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
DOOR_STATES = ("open", "closed", "locked")
_UNSEEN, _WALL, _DOOR, _OPEN = 0, 2, 4, 0
_PASSABLE = frozenset({1, 3, 8})
_THINGS = frozenset({4, 5, 6, 7, 8, 9})
# Direction 0 looks along x; each further one is a quarter turn clockwise (y points down).
VECTORS = ((1, 0), (0, 1), (-1, 0), (0, -1))

Place = tuple[int, int]
Cell = tuple[int, int, int]


@dataclass(frozen=True)
class GridView:
    """What a grid world tells the agent after a step.

    Attributes:
        mission: The goal in the environment's own words.
        image: The window: `image[column][row]` is (kind, color, state). The agent is in the
            middle of the last row and looks towards the first.
        place: Where it is, on a map whose origin means nothing.
        direction: Where it looks, 0 to 3 clockwise.
        last_actions: What it did so far, newest last.
    """

    mission: str
    image: Sequence[Sequence[Sequence[int]]]
    place: Place
    direction: int
    last_actions: Sequence[str] = ()


@dataclass
class GridDescriber:
    """Turns the views of one episode into text.

    Attributes:
        mirrored: Swap left and right everywhere; used to double the examples of the small model.
    """

    mirrored: bool = False
    _cells: dict[Place, Cell] = field(default_factory=dict)
    _start: tuple[Place, int] | None = None
    _here: Place = (0, 0)
    _facing: int = 0

    def describe(self, view: GridView) -> str:
        """The text for this moment; views of one episode come in their order."""
        if self._start is None:
            self._start = (view.place, view.direction)
        self._here, self._facing = view.place, view.direction
        held = self._look(view)
        relative_to_start = "your" in view.mission or "you" in view.mission.split()
        things = [self._thing(place, relative_to_start) for place in self._things()]
        unknown = self._nearest_unknown()
        last = list(view.last_actions)[-REMEMBERED_ACTIONS:]
        lines = [
            f"Goal: {self.swapped(view.mission)}",
            f"Holding: {held}",
            f"Seen: {'; '.join(things) or 'nothing'}",
            f"Free: {self._free()}",
            f"Unknown: {self.offset(unknown) if unknown else 'nothing'}",
            f"Last: {', '.join(map(self.swapped, last)) or 'nothing'}",
        ]
        return "\n".join(lines)

    def offset(self, place: Place) -> str:
        """Where a place is, seen from the agent: `3 forward 2 left`."""
        ahead, right = self._relative(place, self._here, self._facing)
        words = []
        if ahead:
            words.append(f"{abs(ahead)} {'forward' if ahead > 0 else 'back'}")
        if right:
            words.append(f"{abs(right)} {'right' if right > 0 else 'left'}")
        return " ".join(words) or "here"

    def name(self, place: Place) -> str:
        """What is known to be at a place, such as `red ball`; empty where nothing is."""
        kind, color, state = self._cells.get(place, (_UNSEEN, 0, 0))
        if kind not in _THINGS:
            return ""
        if kind == _DOOR:
            return f"{DOOR_STATES[state]} {COLORS[color]} door"
        return f"{COLORS[color]} {KINDS[kind]}"

    def unknown(self) -> Place | None:
        """The nearest place that was not seen yet and can be walked to."""
        return self._nearest_unknown()

    def swapped(self, text: str) -> str:
        """A text as this describer writes it: left and right exchanged if it is mirrored."""
        if not self.mirrored:
            return text
        swap = {"left": "right", "right": "left"}
        return " ".join(swap.get(word, word) for word in text.split(" "))

    def _look(self, view: GridView) -> str:
        """Add the window to the map; returns what the agent holds."""
        depth, middle = len(view.image[0]), len(view.image) // 2
        (fx, fy), (rx, ry) = VECTORS[view.direction], VECTORS[(view.direction + 1) % 4]
        x, y = view.place
        for column, cells in enumerate(view.image):
            for row, cell in enumerate(cells):
                kind = int(cell[0])
                if kind == _UNSEEN:
                    continue
                ahead, right = depth - 1 - row, column - middle
                place = (x + ahead * fx + right * rx, y + ahead * fy + right * ry)
                self._cells[place] = (kind, int(cell[1]), int(cell[2]))
        # MiniGrid shows what is carried in the agent's own cell, which is empty otherwise.
        kind, color, _ = self._cells.get(view.place, (1, 0, 0))
        held = f"{COLORS[color]} {KINDS[kind]}" if kind in (5, 6, 7) else "nothing"
        if held != "nothing":
            self._cells[view.place] = (1, 0, 0)
        return held

    def _things(self) -> list[Place]:
        places = [p for p, (kind, _, _) in self._cells.items() if kind in _THINGS]

        def nearness(place: Place) -> tuple[int, int, int]:
            ahead, right = self._relative(place, self._here, self._facing)
            return abs(ahead) + abs(right), -ahead, right

        return sorted(places, key=nearness)[:MOST_THINGS]

    def _thing(self, place: Place, relative_to_start: bool) -> str:
        text = f"{self.name(place)} {self.offset(place)}"
        return f"{text} ({self._from_start(place)})" if relative_to_start else text

    def _from_start(self, place: Place) -> str:
        """On which side a place was when the episode began: a goal may speak of it."""
        assert self._start is not None
        ahead, right = self._relative(place, *self._start)
        sides = ["in front" if ahead > 0 else "behind"] if ahead else []
        if right:
            sides.append("right" if right > 0 else "left")
        return "start: " + " ".join(sides or ["here"])

    def _relative(self, place: Place, origin: Place, direction: int) -> tuple[int, int]:
        """(steps ahead, steps to the right) from an origin in a direction."""
        dx, dy = place[0] - origin[0], place[1] - origin[1]
        (fx, fy), (rx, ry) = VECTORS[direction], VECTORS[(direction + 1) % 4]
        right = dx * rx + dy * ry
        return dx * fx + dy * fy, -right if self.mirrored else right

    def _passable(self, place: Place) -> bool:
        kind, _, state = self._cells.get(place, (_UNSEEN, 0, 0))
        return kind in _PASSABLE or (kind == _DOOR and state == _OPEN) or place == self._here

    def _free(self) -> str:
        """How many steps are free in each direction."""
        order = ("forward", 0), ("left", 1 if self.mirrored else 3), ("back", 2)
        turns = (*order[:2], ("right", 3 if self.mirrored else 1), order[2])
        return " ".join(f"{self._steps_free(turn)} {word}" for word, turn in turns)

    def _steps_free(self, turn: int) -> int:
        dx, dy = VECTORS[(self._facing + turn) % 4]
        steps, (x, y) = 0, self._here
        while self._passable((x + dx, y + dy)):
            steps, x, y = steps + 1, x + dx, y + dy
        return steps

    def _nearest_unknown(self) -> Place | None:
        turns = (0, 3, 1, 2) if self.mirrored else (0, 1, 3, 2)
        queue = deque([(self._here, self._facing)])
        known = {self._here}
        while queue:
            (x, y), facing = queue.popleft()
            if (x, y) not in self._cells:
                return (x, y)
            if not self._passable((x, y)):
                continue
            # Straight on first: of two places equally near, the one that needs no turn counts.
            for turn in turns:
                direction = (facing + turn) % 4
                dx, dy = VECTORS[direction]
                place = (x + dx, y + dy)
                if place not in known:
                    known.add(place)
                    queue.append((place, direction))
        return None
