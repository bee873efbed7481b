"""The buttons under the train form: reset, presets, copy as, dry run, train."""

from collections.abc import Callable

from qtpy.QtCore import Signal
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QMenu, QPushButton, QWidget

from gym_gui.background.storage import read_json, window_folder, write_json
from gym_gui.models import draft_export
from gym_gui.models.notices import Notice
from gym_gui.models.presets import Preset, PresetBook
from gym_gui.models.train_draft import TrainDraft
from gym_gui.services import Services
from gym_gui.widgets.controls import ask_name, button
from gym_gui.widgets.qt_types import sure
from gym_gui.widgets.wrapping import WrappingRow
from mosaic.config.paths import Home


class TrainBar(QWidget):
    """What can be done with the form above it.

    Signals:
        reset_wanted: Everything back to the defaults.
        preset_chosen: Fill in what a `Preset` says.
        dry_run_wanted: Check, start nothing.
        train_wanted: Send it.
    """

    reset_wanted = Signal()
    preset_chosen = Signal(object)
    dry_run_wanted = Signal()
    train_wanted = Signal()

    def __init__(
        self,
        services: Services,
        draft: Callable[[], TrainDraft],
        shipped: Callable[[], list[Preset]],
    ) -> None:
        super().__init__()
        self._services = services
        self._draft, self._shipped = draft, shipped
        self.book = self._load()
        self.train = button("Train", self.train_wanted.emit, "primary", "Submit (Ctrl+Return)")
        tip = "Check everything, start nothing (Ctrl+Shift+D)"
        self.dry = button("Dry run", self.dry_run_wanted.emit, tip=tip)
        tip = "Everything back to the algorithm's defaults"
        reset = button("Reset", self.reset_wanted.emit, tip=tip)
        presets = self._menu_button("Presets", self._fill_presets)
        copy = self._menu_button("Copy as", self._fill_copy)
        self._stops = (reset, presets, copy, self.dry, self.train)
        self.setLayout(WrappingRow(reset, presets, copy, self.dry, self.train, spacing=8))

    def tab_stops(self) -> tuple[QWidget, ...]:
        """Where the Tab key stops, from left to right."""
        return self._stops

    # ------------------------------------------------------------ presets

    def presets(self) -> list[Preset]:
        """The presets of the algorithm in the form: shipped ones first."""
        draft = self._draft()
        return [*self._shipped(), *self.book.of(draft.worker, draft.algo)]

    def ask_preset_name(self) -> None:
        """Ask under which name to keep what is in the form."""
        algo = self._draft().algo
        text = f"Keep these settings of {algo} under the name:"
        ask_name(self, "Save as preset", text, "", self.save_preset)

    def save_preset(self, name: str) -> None:
        """Keep what is in the form under a name."""
        if any(one.name == name for one in self._shipped()):
            self._services.notices.problem(f"{name!r} is a shipped preset; choose another name")
            return
        self.book.save(self._draft(), name)
        self._store(f"Preset {name!r} saved")

    def delete_preset(self, name: str) -> None:
        """Forget a saved preset."""
        draft = self._draft()
        self.book.delete(draft.worker, draft.algo, name)
        self._store(f"Preset {name!r} deleted")

    def _fill_presets(self, menu: QMenu) -> None:
        menu.setToolTipsVisible(True)
        own = []
        for preset in self.presets():
            entry = sure(menu.addAction(preset.name.replace("&", "&&")))
            entry.setToolTip(preset.hint)
            entry.triggered.connect(lambda _on=False, one=preset: self.preset_chosen.emit(one))
            if not preset.shipped:
                own.append(preset.name)
        menu.addSeparator()
        sure(menu.addAction("Save as preset …")).triggered.connect(lambda: self.ask_preset_name())
        if own:
            less = sure(menu.addMenu("Delete"))
            for name in own:
                entry = sure(less.addAction(name.replace("&", "&&")))
                entry.triggered.connect(lambda _on=False, one=name: self.delete_preset(one))

    def _load(self) -> PresetBook:
        try:
            book, notice = PresetBook.from_json(
                read_json(window_folder(self._services.link.home) / "presets.json")
            )
        except (ValueError, OSError):
            book, notice = PresetBook(), "The saved presets could not be read"
        if notice:
            self._services.notices.say(Notice("warning", notice))
        return book

    def _store(self, said: str) -> None:
        path = window_folder(self._services.link.home) / "presets.json"
        document, notices = self.book.to_json(), self._services.notices
        self._services.calls.run(
            lambda: write_json(path, document),
            lambda _none: notices.info(said),
            lambda error: notices.error("The preset was not stored", error),
        )

    # ------------------------------------------------------------ copying

    def copy(self, what: str) -> None:
        """Put the form on the clipboard as a command, as Python or as JSON."""
        draft, home = self._draft(), self._services.link.home
        if what not in _ways_to_copy(draft):
            self._services.notices.problem(
                "An experiment with a curriculum can be started here only"
                if draft.curriculum_schedule
                else "An experiment can be copied as a command or as an experiment file"
            )
            return
        place = "" if Home.locate(None).root == home.root else str(home.root)
        texts = {
            "command": lambda: draft_export.as_command(draft, place),
            "Python": lambda: draft_export.as_python(draft, place),
            "JSON": lambda: draft_export.as_json(draft),
            "experiment file": lambda: draft_export.as_experiment_file(draft),
        }
        sure(QGuiApplication.clipboard()).setText(texts[what]())
        self._services.notices.info(f"Copied as {what}")

    def _fill_copy(self, menu: QMenu) -> None:
        for what in _ways_to_copy(self._draft()):
            title = what[0].upper() + what[1:]
            sure(menu.addAction(title)).triggered.connect(
                lambda _on=False, one=what: self.copy(one)
            )

    def _menu_button(self, text: str, fill: Callable[[QMenu], None]) -> QPushButton:
        made = QPushButton(f"{text}  ▾")
        made.setAccessibleName(text)
        menu = QMenu(made)

        def refill() -> None:
            menu.clear()
            fill(menu)

        menu.aboutToShow.connect(refill)
        made.setMenu(menu)
        return made


def _ways_to_copy(draft: TrainDraft) -> tuple[str, ...]:
    """A program or a config says one run; an experiment has a file of its own."""
    if draft.several and draft.curriculum_schedule:
        return ()  # neither the command nor the file has a word for it
    return ("command", "experiment file") if draft.several else ("command", "Python", "JSON")
