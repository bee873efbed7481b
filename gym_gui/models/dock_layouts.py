"""Named layouts: which docks are shown, where, and how wide. And the window's stored state."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from gym_gui.models.stored import fields
from gym_gui.models.table_look import TableLook

# Raised when docks are renamed: Qt restores by name and would leave holes in the window.
STATE_VERSION = 2
LAUNCH, RUN, COMPARE, PLAY, NOTICES = "launch", "run", "compare", "play", "notices"
ARENA, MACHINES = "arena", "machines"
LEFT, RIGHT, BOTTOM = "left", "right", "bottom"


@dataclass(frozen=True)
class Layout:
    """One arrangement.

    Attributes:
        name: As the user knows it.
        docks: Dock, side, and its share of the window in that direction.
        show_runs: Whether the run table is there.
    """

    name: str
    docks: tuple[tuple[str, str, float], ...]
    show_runs: bool = True


LAYOUTS: dict[str, Layout] = {
    "train": Layout("Train", ((LAUNCH, LEFT, 0.54), (RUN, BOTTOM, 0.52))),
    "watch": Layout("Watch", ((RUN, RIGHT, 0.62),)),
    "analyse": Layout("Analyse", ((COMPARE, RIGHT, 0.62),)),
    "play": Layout("Play", ((PLAY, RIGHT, 0.62),)),
    "arena": Layout("Arena", ((ARENA, RIGHT, 0.7),)),
    "machines": Layout("Machines", ((MACHINES, RIGHT, 0.5),)),
}


@dataclass(frozen=True)
class WindowState:
    """What the window looked like."""

    layout: str = "train"
    geometry: bytes = b""
    docks: Mapping[str, bytes] | None = None
    table: TableLook = field(default_factory=TableLook)


def encode_state(state: WindowState) -> dict[str, object]:
    """For storing."""
    return {
        "version": STATE_VERSION,
        "layout": state.layout,
        "geometry": base64.b64encode(state.geometry).decode(),
        "table": state.table.to_json(),
        "docks": {
            name: base64.b64encode(data).decode() for name, data in (state.docks or {}).items()
        },
    }


def decode_state(document: object) -> tuple[WindowState, str]:
    """What was stored, and a notice when it could not be used."""
    if document is None:
        return WindowState(), ""
    try:
        stored = fields(document)
        if stored["version"] != STATE_VERSION:
            return WindowState(), "The saved layout is from another version; using the default"
        layout = str(stored["layout"])
        layout = layout if layout in LAYOUTS else "train"
        geometry = _bytes(stored["geometry"])
        docks = {name: _bytes(data) for name, data in fields(stored["docks"]).items()}
        table = TableLook.from_json(stored["table"])
        return WindowState(layout, geometry, docks, table), ""
    except (KeyError, ValueError):
        return WindowState(), "The saved layout could not be read; using the default"


def _bytes(stored: object) -> bytes:
    """What was written as text; raises `ValueError` for anything else."""
    return base64.b64decode(str(stored), validate=True)
