"""The requirement sets of a run: which it needs, which are missing, and a button that installs."""

from qtpy.QtWidgets import QCheckBox, QGridLayout

from gym_gui.background.extras_install import install_sets
from gym_gui.forms.option_sections import Section
from gym_gui.models.requirement_sets import RequirementSet, all_sets
from gym_gui.models.train_draft import TrainDraft
from gym_gui.services import Services
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column


class ExtrasSection(Section):
    """Which requirement sets the run needs, and which of them are missing."""

    def __init__(self, services: Services) -> None:
        super().__init__("Requirement sets")
        self._services = services
        self._boxes: dict[str, QCheckBox] = {}
        self._sets: dict[str, RequirementSet] = {}
        self._busy = False
        self._grid = QGridLayout()
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._missing = label("", "error", wrap=True)
        self.progress = label("", "muted", wrap=True)
        self.install = button("Install what is missing", self._on_install)
        self.install.setToolTip("Into a bundle of its own, as `mosaic extras` does")
        parts = (self._grid, self._missing, self.install, self.progress)
        self.setLayout(column(*parts, margin=10))
        for part in (self._missing, self.install, self.progress):
            part.hide()
        self._look()

    def set_sets(self, sets: list[RequirementSet]) -> None:
        """Show the sets there are, and again after something was installed."""
        for item in sets:
            self._sets[item.name] = item
            box = self._boxes.get(item.name)
            if box is None:
                box = self._boxes[item.name] = QCheckBox()
                box.toggled.connect(self._on_toggle)
                place = len(self._boxes) - 1
                self._grid.addWidget(box, place // 2, place % 2)
            box.setText(item.name if item.installed else f"{item.name} (missing)")
            box.setToolTip(item.hint)
        if not self._ticked():
            self.require(["base"])
        self._on_toggle()

    def require(self, names: list[str]) -> None:
        """Tick exactly the sets that the algorithm and the environment need."""
        for name, box in self._boxes.items():
            box.blockSignals(True)
            box.setChecked(name in names)
            box.blockSignals(False)
        self._on_toggle()

    def write(self, draft: TrainDraft) -> None:
        draft.requirements = self._ticked() or ["base"]

    def read(self, draft: TrainDraft) -> None:
        if draft.requirements:
            self.require(draft.requirements)

    def _ticked(self) -> list[str]:
        return [name for name, box in self._boxes.items() if box.isChecked()]

    def _absent(self) -> list[RequirementSet]:
        return [self._sets[name] for name in self._ticked() if not self._sets[name].installed]

    def _on_toggle(self) -> None:
        missing = self._absent()
        self._missing.setText("\n".join(f"{item.name}: {item.hint}" for item in missing))
        self._missing.setVisible(bool(missing))
        self.install.setVisible(bool(missing))
        self.install.setEnabled(not self._busy)
        self.edited.emit()

    def _on_install(self) -> None:
        names = [item.name for item in self._absent()]
        self.progress.show()
        if not self._services.link.local:
            words = " ".join(names)
            self.progress.setText(f"On the daemon's machine, run: mosaic extras {words}")
            return
        self._busy = True
        self.install.setEnabled(False)
        self.progress.setText(f"Installing {', '.join(names)} …")
        home = self._services.daemons.home
        self._services.calls.run(
            lambda: install_sets(home, names), self._settle, lambda error: self._settle(str(error))
        )

    def _settle(self, text: str) -> None:
        """Say how an installation ended, and look again at what there is."""
        self._busy = False
        self.progress.setText(text)
        self._look()

    def _look(self) -> None:
        home = self._services.daemons.home
        self._services.calls.run(lambda: all_sets(home), self.set_sets)
