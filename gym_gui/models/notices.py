"""Notices: said once, kept in a list, never modal."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from qtpy.QtCore import QObject, Signal

# A window may stay open for weeks.
_KEEP = 500


@dataclass(frozen=True)
class Notice:
    """Something the user should know.

    Attributes:
        tone: info, success, warning or danger.
        text: One sentence.
        detail: More, for those who open it.
        action: What can be pressed, with `pressed` behind it.
        run_id: The run it is about.
    """

    tone: str
    text: str
    detail: str = ""
    action: str = ""
    pressed: Callable[[], object] | None = None
    run_id: str = ""
    at: float = field(default_factory=time.time)


class Notices(QObject):
    """Every notice of this session, newest last.

    Signals:
        said: A new one.
    """

    said = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.history: list[Notice] = []

    def say(self, notice: Notice) -> None:
        """Tell the user."""
        self.history = [*self.history[-_KEEP + 1 :], notice]
        self.said.emit(notice)

    def info(self, text: str, detail: str = "") -> None:
        """Something happened."""
        self.say(Notice("info", text, detail))

    def problem(self, text: str, detail: str = "") -> None:
        """Something did not work."""
        self.say(Notice("danger", text, detail))

    def error(self, doing: str, error: Exception) -> None:
        """An error while doing something."""
        lines = str(error).splitlines() or [type(error).__name__]
        self.say(Notice("danger", f"{doing}: {lines[0]}", "\n".join(lines[1:])))
