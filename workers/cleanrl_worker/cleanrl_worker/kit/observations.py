"""How an environment's observations become one array of fixed shape.

| space | becomes |
|---|---|
| Box, one axis or an image | itself |
| Box, other shapes | flat |
| Discrete (toy text) | one-hot |
| MiniGrid and BabyAI dictionaries | the `image` grid; the mission text is dropped |
| other dictionaries and tuples | flattened and joined, discrete parts one-hot |
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import cast

import numpy as np
from gymnasium import spaces

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.types import Array, Space

# One observation of the environment's own kind, as an array.
Encoder = Callable[[object], Array]


def encoder(space: Space) -> tuple[spaces.Box, Encoder | None]:
    """The array space an algorithm sees, and how to get there.

    Args:
        space: The environment's own observation space.

    Returns:
        The encoded space, and the function that encodes one observation (None when
        observations already fit).
    """
    if isinstance(space, spaces.Box):
        if len(space.shape) == 1 or is_image(space):
            if space.dtype == np.float64:
                low, high = space.low.astype(np.float32), space.high.astype(np.float32)
                return spaces.Box(low, high, dtype=np.float32), None
            return space, None
        low, high = (edge.ravel().astype(np.float32) for edge in (space.low, space.high))
        return spaces.Box(low, high, dtype=np.float32), cast(Encoder, np.ravel)
    if isinstance(space, spaces.Discrete):
        rows = np.eye(int(space.n), dtype=np.float32)
        start = int(space.start)
        return spaces.Box(0.0, 1.0, (int(space.n),)), lambda number: rows[int(number) - start]
    if isinstance(space, spaces.Dict) and is_image(space.spaces.get("image")):
        return cast(spaces.Box, space.spaces["image"]), lambda parts: parts["image"]
    flat: Space | None = None
    with contextlib.suppress(NotImplementedError):
        flat = spaces.flatten_space(space)
    if not isinstance(flat, spaces.Box):
        raise UsageError(
            f"Observations of type {type(space).__name__} cannot be turned into an array; "
            "choose an environment with Box, Discrete, Dict or Tuple observations."
        )
    box = spaces.Box(flat.low.astype(np.float32), flat.high.astype(np.float32), dtype=np.float32)
    return box, lambda parts: cast(Array, spaces.flatten(space, parts))


def is_image(space: Space | None) -> bool:
    """Whether a space holds pictures or grids: three axes of bytes."""
    return isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8


def kind(space: spaces.Box) -> str:
    """`vector`, `grid` (small) or `image`."""
    if not is_image(space):
        return "vector"
    return "grid" if max(space.shape) < 32 else "image"
