"""Signals for a worker on another machine: a list in a file of the run, which only grows.

The supervisor there obeys what it has not obeyed yet. So a signal reaches it over a shared folder
or through an agent, and is neither lost nor doubled when either of them was away for a while.
"""

import logging
from pathlib import Path

from mosaic.runs.opening import read_document
from mosaic.system import atomic

_SIGKILL = 9

log = logging.getLogger(__name__)


def add(control: Path, number: int) -> None:
    """Write down one more signal."""
    known = (read_document(control) or {}).get("signals")
    # The folder is the worker's too: what makes no sense there is replaced.
    orders = known if isinstance(known, list) else []
    # Asked for every turn until the end is seen; the supervisor needs it once.
    if number == _SIGKILL and orders[-1:] == [_SIGKILL]:
        return
    try:
        atomic.write_json(control, {"signals": [*orders, number]})
    except OSError as error:
        log.error("run %s could not be signalled: %s", control.parent.name, error)
