"""Names that moved; the forms still import them from here."""

from gym_gui.widgets.controls import NoWheel, ask_name, button, modest, plain_table, restyle
from gym_gui.widgets.labels import ElidedLabel, NumberTile, label, selectable
from gym_gui.widgets.layouts import (
    VerticalScroll,
    as_panel,
    clear,
    column,
    framed,
    row,
    scrolled,
    tab_chain,
)
from gym_gui.widgets.messages import Banner, EmptyState

__all__ = [
    "Banner",
    "ElidedLabel",
    "EmptyState",
    "NoWheel",
    "NumberTile",
    "VerticalScroll",
    "as_panel",
    "ask_name",
    "button",
    "clear",
    "column",
    "framed",
    "label",
    "modest",
    "plain_table",
    "restyle",
    "row",
    "scrolled",
    "selectable",
    "tab_chain",
]
