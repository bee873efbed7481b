"""Orders for a supervisor on another machine, in a file of the run: signals, and a wish to watch.

The supervisor obeys the signals that it has not obeyed yet: their list only grows. So a signal
reaches it over a shared folder or through an agent, and is neither lost nor doubled when either of
them was away for a while. The wish has a number; each new one makes the sender start again.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from mosaic.config.json_types import JsonValue
from mosaic.runs.opening import read_document
from mosaic.system import atomic
from mosaic.trainer.sites.relay import Wish

_SIGKILL = 9

log = logging.getLogger(__name__)


def add(control: Path, number: int) -> None:
    """Write down one more signal."""
    known = read_document(control) or {}
    orders = known.get("signals")
    # The folder is the worker's too: what makes no sense there is replaced.
    orders = orders if isinstance(orders, list) else []
    # Asked for every turn until the end is seen; the supervisor needs it once.
    if number == _SIGKILL and orders[-1:] == [_SIGKILL]:
        return
    _write(control, {**known, "signals": [*orders, number]}, "signalled")


def want_frames(control: Path, wish: Wish | None, number: int) -> None:
    """Write down what viewers want to see; None when no one watches any more."""
    known = read_document(control) or {}
    frames: JsonValue = None
    if wish is not None:
        frames = {
            "number": number,
            "max_fps": wish.max_fps,
            "max_dim": wish.max_dim,
            "quality": wish.quality,
        }
    _write(control, {**known, "frames": frames}, "asked for pictures")


def _write(control: Path, orders: Mapping[str, JsonValue], what: str) -> None:
    try:
        atomic.write_json(control, orders)
    except OSError as error:
        log.error("run %s could not be %s: %s", control.parent.name, what, error)
