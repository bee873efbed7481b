"""Whether settings can be trained side by side, and on how many devices.

Needs no JAX, so that the daemon can ask too.
"""

from __future__ import annotations

from collections.abc import Collection

from mosaic.config.suggest import did_you_mean
from mosaic.curves.members import read_points


def sweep_problem(text: str, able: Collection[str]) -> str:
    """Why a `--vmap-sweep` cannot be carried out; empty when it can.

    Args:
        text: What followed the flag.
        able: The arguments that are inputs of the compiled program.
    """
    try:
        points = read_points(text)
    except ValueError as error:
        return f"--vmap-sweep {text!r} cannot be used: {error}."
    for name in points[0]:
        if name not in able:
            return (
                f"--vmap-sweep cannot vary {name!r}{did_you_mean(name, able)}: in one program only "
                f"numbers can differ that it takes as inputs ({', '.join(sorted(able))}). "
                "Other settings need a run each: mosaic sweep without --vmap-sweep."
            )
    return ""


def device_count(members: int, devices: int) -> int:
    """As many of the devices as share the members evenly: each then ends at the same time."""
    most = min(members, devices)
    return next(count for count in range(most, 0, -1) if members % count == 0)
