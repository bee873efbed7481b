"""What an action is, and what it may depend on."""

from collections.abc import Callable
from dataclasses import dataclass

from mosaic.records import RunRecord


@dataclass(frozen=True)
class Context:
    """What the user is looking at, as far as actions care.

    Attributes:
        connected: The daemon in front answers.
        reached: The selected runs whose own daemon answers; None when that is the one in front.
    """

    connected: bool = False
    selected: tuple[RunRecord, ...] = ()
    can_undo: bool = False
    view: str = ""
    reached: frozenset[str] | None = None

    def reaches(self, run: RunRecord) -> bool:
        """Whether the daemon of a selected run answers."""
        return self.connected if self.reached is None else run.run_id in self.reached

    @property
    def one(self) -> RunRecord | None:
        """The only selected run, if there is exactly one."""
        return self.selected[0] if len(self.selected) == 1 else None


def always(context: Context) -> bool:
    """The action needs nothing."""
    return True


@dataclass(frozen=True, kw_only=True)
class Action:
    """One thing a person can do, wherever it is shown.

    Attributes:
        id: `area.verb`.
        title: What menus and the palette say.
        do: What happens.
        menu: The menu it is in; empty for the palette alone.
        shortcut: The key, in Qt's spelling.
        icon: Name of the icon.
        enabled: Whether it makes sense now.
        checkable: It is a switch.
        separated: A line goes before it in the menu.
    """

    id: str
    title: str
    do: Callable[[], object]
    menu: str = ""
    shortcut: str = ""
    icon: str = ""
    enabled: Callable[[Context], bool] = always
    checkable: bool = False
    separated: bool = False
