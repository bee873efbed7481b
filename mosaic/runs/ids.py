"""Run ids are ULIDs and nothing else: sortable by creation time, safe as a file name."""

import os
import re
import threading
import time

from mosaic.errors import InvalidRunIdError

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}\Z")
_PREFIX = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{0,25}\Z")

_DAY_MS = 24 * 3600 * 1000
_FORESEEABLE_MS = 30 * _DAY_MS

_lock = threading.Lock()
_last = 0


def new_run_id() -> str:
    """A fresh ULID, strictly greater than every other made by this process."""
    global _last
    with _lock:
        fresh = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
        # Two ids of one millisecond, or of a clock that was set back, still sort in their order.
        _last = max(fresh, _last + 1)
        number = _last
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def continue_after(run_id: str) -> None:
    """Make new ids greater than `run_id` even when the clock was set back.

    An id from the far future was chosen by hand and is not followed.
    """
    global _last
    number = sum(_ALPHABET.index(letter) << 5 * at for at, letter in enumerate(reversed(run_id)))
    horizon = (time.time_ns() // 1_000_000 + _FORESEEABLE_MS) << 80
    with _lock:
        if number < horizon:
            _last = max(_last, number)


def created_at(run_id: str) -> float:
    """When an id was made, by the clock of the machine that made it; 0 for one from the future."""
    milliseconds = sum(_ALPHABET.index(letter) << 5 * at for at, letter in enumerate(run_id[9::-1]))
    return milliseconds / 1000 if milliseconds < time.time_ns() // 1_000_000 + _DAY_MS else 0.0


def is_run_id(text: str) -> bool:
    """Whether `text` is a complete run id."""
    return bool(_ULID.match(text))


def is_run_id_prefix(text: str) -> bool:
    """Whether `text` could be the beginning of a run id."""
    return bool(_PREFIX.match(text))


def check_run_id(text: str) -> str:
    """Return `text` if it is a run id.

    Raises:
        InvalidRunIdError: It is anything else.
    """
    if not is_run_id(text):
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise InvalidRunIdError(
            f"{shown!r} is not a run id: 26 characters of 0-9 and A-Z without I, L, O, U; "
            "`mosaic runs` lists them, and `last` is the newest"
        )
    return text
