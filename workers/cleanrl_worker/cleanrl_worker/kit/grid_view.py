"""What an agent sees in MiniGrid and BabyAI, found quickly.

Four fifths of a MiniGrid step go into the observation: the view is cut out of the grid, turned,
searched for what walls hide, and encoded, one cell and one Python call at a time. `GridView`
gives the same observation, byte for byte. It fetches the cells in view at once, traces what is
visible with one number a row, and remembers what a view looked like for as long as the same
objects, in the same state, are in it. Everything else, rendering too, stays MiniGrid's own.
"""

from __future__ import annotations

import functools
from operator import itemgetter
from typing import TypeAlias

import numpy as np
from minigrid.core.constants import OBJECT_TO_IDX
from minigrid.core.grid import Grid
from minigrid.core.world_object import Floor, Goal, Lava, Wall, WorldObj
from minigrid.minigrid_env import MiniGridEnv

from cleanrl_worker.kit.types import Array, Env

# A view is known by the objects in it and by their states, whatever those are made of.
Key: TypeAlias = tuple[object, ...]
# Nothing that happens in an episode changes these; all others are looked at again each time.
_LASTING = (Wall, Floor, Goal, Lava)
_VIEW = ("gen_obs", "gen_obs_grid", "get_view_exts")
# Right, down, left and up, as agent_dir counts them.
_AHEAD = ((1, 0), (0, 1), (-1, 0), (0, -1))
_EMPTY = OBJECT_TO_IDX["empty"]


def quicken(env: Env) -> None:
    """Let an environment find its observations quickly, unless it has a view of its own."""
    base = env.unwrapped
    if isinstance(base, MiniGridEnv) and all(
        getattr(type(base), name) is getattr(MiniGridEnv, name) for name in _VIEW
    ):
        # On this object alone; its class stays as it is.
        setattr(base, "gen_obs", GridView(base))  # noqa: B010


class GridView:
    """Takes the place of one environment's `gen_obs`."""

    def __init__(self, env: MiniGridEnv) -> None:
        self._env = env
        self._grid: Grid | None = None
        self._windows: dict[tuple[int, int, int], _Window] = {}
        self._sights: dict[Key, _Sight] = {}

    def __call__(self) -> dict[str, object]:
        env = self._env
        return {"image": self._image(), "direction": env.agent_dir, "mission": env.mission}

    def _image(self) -> Array:
        env = self._env
        grid = env.grid
        if grid is not self._grid:
            self._begin(grid)
        x, y = env.agent_pos
        place = (x, y, env.agent_dir)
        window = self._windows.get(place)
        if window is None:
            shape = (grid.width, grid.height, env.agent_view_size)
            window = self._windows[place] = _Window(*shape, int(x), int(y), int(env.agent_dir))
        cells = window.cells(grid.grid)
        key = (place, cells, env.carrying, env.see_through_walls)
        sight = self._sights.get(key)
        if sight is None:
            sight = self._sights[key] = _Sight((*cells, env.carrying))
        state = sight.state()
        image = sight.images.get(state)
        if image is None:
            image = window.picture(cells, env.carrying, env.see_through_walls)
            sight.images[state] = image
        return image.copy()

    def _begin(self, grid: Grid) -> None:
        """A new episode has new objects; its windows are the old ones if the shape is."""
        old = self._grid
        if old is None or (old.width, old.height) != (grid.width, grid.height):
            self._windows = {}
        self._grid, self._sights = grid, {}


class _Sight:
    """The objects in one window, and what they looked like in each state they were in."""

    def __init__(self, objects: tuple[WorldObj | None, ...]) -> None:
        self._changing = [item for item in objects if item and type(item) not in _LASTING]
        self.images: dict[Key, Array] = {}

    def state(self) -> Key:
        """Everything about the objects that may have changed."""
        return tuple([(item.encode(), item.see_behind()) for item in self._changing])


class _Window:
    """The part of a grid that an agent faces, in the agent's own coordinates.

    Cells are numbered `column * size + row`, as in the image. The agent is in
    the middle of the last row and looks towards the first.
    """

    def __init__(self, width: int, height: int, size: int, x: int, y: int, direction: int) -> None:
        ahead_x, ahead_y = _AHEAD[direction]
        inside, outside = [], []
        for column in range(size):
            for row in range(size):
                forward, right = size - 1 - row, column - size // 2
                cell_x = x + ahead_x * forward - ahead_y * right
                cell_y = y + ahead_y * forward + ahead_x * right
                if 0 <= cell_x < width and 0 <= cell_y < height:
                    inside.append((column, row, cell_y * width + cell_x))
                else:
                    outside.append((column, row))
        self.cells = itemgetter(*(index for _, _, index in inside))
        self._size = size
        self._inside = [(column * size + row, column, row) for column, row, _ in inside]
        self._codes = [_EMPTY] * size**2
        self._opaque = [0] * size
        for column, row in outside:
            self._codes[column * size + row] = _WALL
            self._opaque[row] |= 1 << column

    def picture(
        self, cells: tuple[WorldObj | None, ...], carried: WorldObj | None, see_through: bool
    ) -> Array:
        """The image of what is in the window."""
        size, codes, opaque = self._size, self._codes.copy(), self._opaque.copy()
        for (number, column, row), item in zip(self._inside, cells, strict=True):
            if item:
                codes[number] = _code(item)
                if not item.see_behind():
                    opaque[row] |= 1 << column
        # The agent sees what it carries where it stands.
        codes[size // 2 * size + size - 1] = _code(carried) if carried else _EMPTY
        image = np.array(codes, "<u4").view(np.uint8).reshape(size, size, 4)[:, :, :3]
        if not see_through:
            rows = np.array(_visible(opaque, size))
            image = image * (rows >> np.arange(size)[:, None] & 1)[:, :, None].astype(np.uint8)
        return np.ascontiguousarray(image)


def _code(item: WorldObj) -> int:
    kind, colour, state = item.encode()
    return kind | colour << 8 | state << 16


_WALL = _code(Wall())


def _visible(opaque: list[int], size: int) -> list[int]:
    """Which cells the agent sees: for each row a number with one bit for each column."""
    rows = [0] * size
    seen = 1 << size // 2
    for row in range(size - 1, -1, -1):
        rows[row], seen = _spread(seen, opaque[row], size)
    return rows


@functools.lru_cache(1 << 15)
def _spread(seen: int, opaque: int, size: int) -> tuple[int, int]:
    """Let sight spread along a row, to the right and then to the left, past clear cells.

    Returns:
        What is seen in the row, and what of the row ahead can be seen from it.
    """
    ahead = 0
    for column in range(size - 1):
        if (seen & ~opaque) >> column & 1:
            seen |= 2 << column
            ahead |= 3 << column
    for column in range(size - 1, 0, -1):
        if (seen & ~opaque) >> column & 1:
            seen |= 1 << column - 1
            ahead |= 3 << column - 1
    return seen, ahead
