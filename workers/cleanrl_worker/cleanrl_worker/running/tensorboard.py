"""Writes TensorBoard event files, without importing TensorBoard.

The format is a list of records: length, checksum of the length, content, checksum of the
content. The content is a small protobuf message (wall time, step, tag, value). Scalars are
kept in memory and encoded in batches, which makes a scalar cost about a microsecond.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path

import numpy as np

from mosaic.runs.disk import refuses

SWITCH = "CLEANRL_TENSORBOARD"
# What may wait in memory for a full disk: hours of scalars.
_MOST_UNWRITTEN = 1 << 26


def _crc_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    return table


_TABLE = _crc_table()
_MASK_DELTA = np.uint32(0xA282EAD8)


def masked_crc32c(records: np.ndarray) -> np.ndarray:
    """TFRecord's masked CRC-32C of each row.

    Args:
        records: Bytes, one record a row, all of the same length.

    Returns:
        One checksum for each row.
    """
    crc = np.full(len(records), 0xFFFFFFFF, np.uint32)
    # One pass over the bytes of a record, for all records at once: Python's part of the work does
    # not grow with their number.
    for column in records.T:
        crc = (crc >> np.uint32(8)) ^ _TABLE[(crc ^ column) & np.uint32(0xFF)]
    crc = ~crc
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + _MASK_DELTA


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append((number & 127) | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, content: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _varint(len(content)) + content


_FLOAT = struct.Struct("<f")
_TIME_AND_STEP = struct.Struct("<cdc")


def _before_value(tag: str) -> bytes:
    """What stands between the step and the value of a scalar event; the same for all of a tag."""
    entry = _field(1, tag.encode()) + b"\x15"
    inner = b"\x0a" + _varint(len(entry) + _FLOAT.size) + entry
    return b"\x2a" + _varint(len(inner) + _FLOAT.size) + inner


def _text_event(wall_time: float, tag: str, text: str) -> bytes:
    plugin = _field(1, _field(1, b"text"))
    # TensorProto: dtype string (7), one element, the text as its string value.
    tensor = b"\x08\x07" + _field(2, _field(2, b"\x08\x01")) + _field(8, text.encode())
    value = _field(1, tag.encode()) + _field(9, plugin) + _field(8, tensor)
    return b"\x09" + struct.pack("<d", wall_time) + b"\x10\x00" + _field(5, _field(1, value))


def _framed(records: list[bytes]) -> bytes:
    framed: list[bytes] = [b""] * len(records)
    by_length: dict[int, list[int]] = {}
    for position, record in enumerate(records):
        by_length.setdefault(len(record), []).append(position)
    for length, positions in by_length.items():
        header = struct.pack("<Q", length)
        header_crc = masked_crc32c(np.frombuffer(header, np.uint8)[None])[0]
        start = header + struct.pack("<I", int(header_crc))
        rows = np.frombuffer(b"".join(records[p] for p in positions), np.uint8)
        crcs = masked_crc32c(rows.reshape(len(positions), length))
        for position, crc in zip(positions, crcs.tolist(), strict=True):
            framed[position] = start + records[position] + struct.pack("<I", crc)
    return b"".join(framed)


class EventWriter:
    """One TensorBoard event file.

    Attributes:
        trouble: Why the disk refuses events right now; empty when it takes them.
        lost: How many events were given up because too many were waiting.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}.0"
        self.trouble = ""
        self.lost = 0
        # Unbuffered: what a full disk did not take must stay ours, not in a buffer of the file.
        self._file = (folder / name).open("ab", buffering=0)
        self._unwritten = b""
        self._tags: dict[str, bytes] = {}
        self._step, self._varint = 0, _varint(0)
        self._waiting: list[bytes] = [
            b"\x09" + struct.pack("<d", now) + _field(3, b"brain.Event:2")
        ]
        self.flush()

    def add_scalar(self, tag: str, value: float, step: int, wall_time: float) -> None:
        """Note one value; it reaches the file with the next flush."""
        before = self._tags.get(tag)
        if before is None:
            before = self._tags[tag] = _before_value(tag)
        if step != self._step:
            # Most events share their step with the one before.
            self._step, self._varint = step, _varint(step)
        start = _TIME_AND_STEP.pack(b"\x09", wall_time, b"\x10")
        self._waiting.append(start + self._varint + before + _FLOAT.pack(value))

    def add_text(self, tag: str, text: str) -> None:
        """Note a text, shown in TensorBoard's text tab."""
        self._waiting.append(_text_event(time.time(), tag, text))

    def flush(self) -> None:
        """Write what was noted; what the disk refuses waits for the next time."""
        if self._waiting and len(self._unwritten) < _MOST_UNWRITTEN:
            self._unwritten += _framed(self._waiting)
        elif self._waiting:
            self.lost += len(self._waiting)
        self._waiting, self.trouble = [], ""
        try:
            while self._unwritten:
                self._unwritten = self._unwritten[self._file.write(self._unwritten) :]
        except OSError as error:
            if not refuses(error):
                raise
            self.trouble = error.strerror or str(error)

    def close(self) -> None:
        """Flush and close."""
        self.flush()
        self._file.close()


class NoEvents:
    """Takes the place of an event file where none is wanted."""

    trouble = ""
    lost = 0

    def add_scalar(self, tag: str, value: float, step: int, wall_time: float) -> None:
        """Ignore a value."""

    def add_text(self, tag: str, text: str) -> None:
        """Ignore a text."""

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


def event_writer(folder: Path) -> EventWriter | NoEvents:
    """An event file in a folder, unless `CLEANRL_TENSORBOARD` is `off`."""
    return NoEvents() if os.environ.get(SWITCH) == "off" else EventWriter(folder)
