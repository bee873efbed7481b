"""Named views of the run table: saved, chosen, deleted, and back in the next window."""

from pathlib import Path

from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QMenu

from gym_gui.actions.binding import ActionBinder
from gym_gui.background.storage import read_json, window_folder, write_json
from gym_gui.models.notices import Notice
from gym_gui.models.table_look import TableLook, decode_views, encode_views
from gym_gui.services import Services
from gym_gui.widgets.qt_types import sure

_ACTIONS = (
    "runs.columns", "runs.group", "runs.experiments", "", "runs.save_view",
    "runs.delete_view", "", "runs.export_csv",
)  # fmt: skip


class SavedViews(QObject):
    """The views by name.

    Signals:
        chosen: A look that the table should take on.
        changed: Another view is in use, or the list is another one.
    """

    chosen = Signal(object)
    changed = Signal()

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self.current = ""
        self.views: dict[str, TableLook] = {}
        try:
            self.views, notice = decode_views(read_json(self._path))
        except (ValueError, OSError):
            notice = "The saved views of the run table could not be read"
        if notice:
            services.notices.say(Notice("warning", notice))

    def use(self, name: str) -> None:
        """Look at the table through a view; the empty name is the one it came with."""
        self.current = name if name in self.views else ""
        self.chosen.emit(self.views.get(name, TableLook()))
        self.changed.emit()

    def recognise(self, look: TableLook) -> None:
        """The table came up with this look; it may be a view's."""
        self.current = next((name for name, view in self.views.items() if view == look), "")
        self.changed.emit()

    def save(self, name: str, look: TableLook) -> None:
        """Keep a look under a name, in place of one that has it already."""
        self.views[name] = look
        self.current = name
        self._store()

    def delete(self, name: str) -> None:
        """Forget a view; the table stays as it is."""
        if self.views.pop(name, None) is not None:
            self.current = "" if self.current == name else self.current
            self._store()

    def fill(self, menu: QMenu, actions: ActionBinder) -> None:
        """Put the views, and what can be done with them, into a menu."""
        menu.clear()
        for name in ("", *sorted(self.views)):
            entry = sure(menu.addAction((name or "Default view").replace("&", "&&")))
            entry.setCheckable(True)
            entry.setChecked(name == self.current)
            entry.triggered.connect(lambda _on=False, chosen=name: self.use(chosen))
        menu.addSeparator()
        for name in _ACTIONS:
            if name:
                menu.addAction(actions.actions[name])
            else:
                menu.addSeparator()

    @property
    def _path(self) -> Path:
        return window_folder(self._services.link.home) / "views.json"

    def _store(self) -> None:
        path, document = self._path, encode_views(self.views)
        failed = self._services.notices.error
        self._services.calls.run(
            lambda: write_json(path, document), None, lambda e: failed("The view was not stored", e)
        )
        self.changed.emit()
