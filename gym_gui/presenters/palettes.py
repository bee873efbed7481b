"""What the command palette offers: actions, runs, environments, saved views, presets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtGui import QKeySequence

from gym_gui.actions.catalog import ACTIONS
from gym_gui.forms.registry import TRAIN
from gym_gui.models.palette_items import PaletteItem
from gym_gui.models.run_status import status_of, title_of
from gym_gui.widgets.palette import CommandPalette

if TYPE_CHECKING:
    from gym_gui.main_window import MainWindow

_MOST_RUNS = 2000


class Palettes:
    """Opens the palette of one window with one list or another."""

    def __init__(self, window: MainWindow) -> None:
        self._window = window
        self.box = CommandPalette(window, window.services.themes)

    def actions(self) -> None:
        """Everything that can be done."""
        binder = self._window.binder
        items = []
        for action in ACTIONS:
            made = binder.actions[action.id]
            keys = made.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            title = f"{action.menu}: {action.title}" if action.menu else action.title
            items.append(PaletteItem(action.id, title, keys, action.icon, made.isEnabled()))
        self.box.ask("What do you want to do?", items, binder.recent, binder.trigger)

    def places(self) -> None:
        """Every run by name, and every environment."""
        window = self._window
        newest = sorted(
            window.services.store.runs.values(), key=lambda run: run["created_at"], reverse=True
        )
        items = [
            PaletteItem(
                f"run:{run['run_id']}",
                f"{title_of(run)} · {run['run_id'][-6:]}",
                status_of(run).label,
                status_of(run).icon,
            )
            for run in newest[:_MOST_RUNS]
        ]
        environments = sorted(window.launch.form(TRAIN).env.names)
        items += [PaletteItem(f"env:{name}", name, "environment", "robot") for name in environments]
        self.box.ask("Go to a run or an environment", items, (), self._go)

    def views(self) -> None:
        """Every saved view of the run table."""
        views = self._window.runs_panel.views
        items = [PaletteItem("", "Default view", "as it came", "layout")]
        for name, look in sorted(views.views.items()):
            hint = look.filter or f"{len(look.columns)} columns"
            items.append(PaletteItem(name, name, hint, "layout"))
        self.box.ask("Look at the runs through a saved view", items, (), views.use)

    def presets(self) -> None:
        """Every preset of the algorithm in the train form."""
        form = self._window.commands.train_form()
        found = {preset.name: preset for preset in form.bar.presets()}
        items = [
            PaletteItem(name, name, preset.hint, "book" if preset.shipped else "person")
            for name, preset in found.items()
        ]
        self.box.ask(
            f"Fill in a preset of {form.algo.text}",
            items,
            (),
            lambda name: form.use_preset(found[name]),
        )

    def _go(self, key: str) -> None:
        kind, _, rest = key.partition(":")
        if kind == "run":
            self._window.runs_panel.show_run(rest)
        else:
            self._window.commands.new_run()
            self._window.launch.form(TRAIN).env.set_text(rest)
