"""How a script that the worker starts gets its arguments: as values, not as flags.

The worker writes one JSON object to a file without a name and lets the training process inherit
its descriptor, whose number is in `CLEANRL_ARGUMENTS_FD`. Nothing has to be written as text and
parsed again, and nothing shows in the process list.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mosaic.config.json_types import JsonValue

VARIABLE = "CLEANRL_ARGUMENTS_FD"


@contextmanager
def offer(values: Mapping[str, JsonValue]) -> Iterator[int]:
    """The descriptor of a file that holds the values, for a child that is started meanwhile."""
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(values).encode())
        # Parent and child share the position: the child must find it at the beginning.
        file.seek(0)
        yield file.fileno()


def accept() -> dict[str, JsonValue] | None:
    """The values this process was started with; None if it was started with flags."""
    # Taken out of the environment: processes that the script starts must not read it as theirs.
    descriptor = os.environ.pop(VARIABLE, "")
    if not descriptor:
        return None
    with os.fdopen(int(descriptor), "rb") as file:
        values: dict[str, JsonValue] = json.load(file)
    return values
