"""PNG pictures of array frames and of text grids, with nothing but NumPy and zlib."""

import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

CELL = 32
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOURS = {
    "S": (120, 160, 220),
    "F": (225, 235, 245),
    "H": (40, 60, 95),
    "G": (90, 180, 100),
    "C": (60, 50, 50),
    "#": (90, 90, 90),
    ".": (225, 235, 245),
}
_AGENT = (225, 120, 40)
_UNKNOWN = (200, 200, 200)


def encode_png(pixels: NDArray[np.generic]) -> bytes:
    """A height x width x 3 uint8 array as a PNG file, without loss."""
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
        raise ValueError(
            f"a frame must be a uint8 array of shape (height, width, 3), "
            f"not {pixels.dtype} {pixels.shape}"
        )
    height, width, _ = pixels.shape
    # PNG wants a filter byte before each row; zero means none.
    rows = np.zeros((height, 1 + width * 3), np.uint8)
    rows[:, 1:] = pixels.reshape(height, width * 3)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"".join(
        (
            _SIGNATURE,
            _chunk(b"IHDR", head),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)),
            _chunk(b"IEND", b""),
        )
    )


def draw_grid(rows: Sequence[str], agent: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    """A text map as pixels: one coloured cell a letter, the agent as a disc."""
    if not rows or len({len(row) for row in rows}) != 1:
        raise ValueError("a grid needs at least one row, all of the same length")
    picture = np.zeros((len(rows) * CELL, len(rows[0]) * CELL, 3), np.uint8)
    for y, row in enumerate(rows):
        for x, letter in enumerate(row):
            cell = picture[y * CELL : (y + 1) * CELL, x * CELL : (x + 1) * CELL]
            cell[1:, 1:] = _COLOURS.get(letter, _UNKNOWN)
    if agent is not None:
        _draw_disc(picture, *agent)
    return picture


def _draw_disc(picture: NDArray[np.uint8], row: int, column: int) -> None:
    cell = picture[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
    if cell.shape[:2] != (CELL, CELL):
        raise ValueError(f"the agent at row {row}, column {column} is outside the grid")
    y, x = np.ogrid[:CELL, :CELL]
    middle = (CELL - 1) / 2
    cell[(y - middle) ** 2 + (x - middle) ** 2 <= (CELL / 3) ** 2] = _AGENT


def _chunk(name: bytes, data: bytes) -> bytes:
    body = name + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
