"""Training in several phases: built here, or from a shell script of the user's."""

from collections.abc import Mapping
from pathlib import Path

from qtpy.QtCore import Qt
from qtpy.QtGui import QFontDatabase, QGuiApplication
from qtpy.QtWidgets import (
    QButtonGroup,
    QFileDialog,
    QLineEdit,
    QListWidget,
    QPlainTextEdit,
    QRadioButton,
    QWidget,
)

from gym_gui.forms.base import (
    NumberLine,
    WorkerForm,
    form_layout,
    refusal,
    texts_of,
    type_texts,
)
from gym_gui.forms.phase_list import PhaseList, texts_of_phase
from gym_gui.models.actors import Actor
from gym_gui.models.launch import Launch
from gym_gui.models.stored import items, texts
from gym_gui.services import Services
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row, scrolled, tab_chain
from gym_gui.widgets.messages import Banner
from gym_gui.widgets.qt_types import sure
from mosaic.config import build
from mosaic.config.model import TrainRunConfig
from mosaic.config.paths import project_root
from mosaic.config.phases import header_of, script_text
from mosaic.config.pipeline import PipelineHeader, described_scripts, read_header
from mosaic.errors import InvalidConfigError, Problem

_SHOWN_CHARACTERS = 40_000
_BUILT, _FILE = "phases", "file"


class ScriptForm(WorkerForm):
    """Runs phases, or a `*.sh`, as one run."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._worker, self._module = "cleanrl", ""
        self._header = PipelineHeader()
        self._readable = False
        self.from_phases = QRadioButton("Phases built here")
        self.from_file = QRadioButton("A script of mine")
        self._ways = QButtonGroup(self)
        for way in (self.from_phases, self.from_file):
            self._ways.addButton(way)
        self.phases = PhaseList(services)
        self.phases.append()
        self._make_fields()
        self._file = self._file_page()
        self._arrange()
        self.from_phases.setChecked(True)
        self._connect()
        self._chain()
        self._show_way()

    def _chain(self) -> None:
        """The Tab key goes as the eye does, also through phases that were added or moved."""
        ways = (self.from_phases, self.from_file)
        rest = (self.list, self.path, self.name, self.seed, self.copy, self.text, self.start)
        tab_chain(*ways, *self.phases.tab_stops(), *rest)

    def _make_fields(self) -> None:
        self.list = QListWidget()
        self.list.setAccessibleName("Scripts")
        self.list.setMaximumHeight(130)
        self.path = QLineEdit()
        self.path.setPlaceholderText("Path of a *.sh file")
        self.path.setAccessibleName("Script")
        self.name = QLineEdit()
        self.name.setPlaceholderText("named after the phases or the script")
        self.name.setAccessibleName("Run name")
        self.seed = NumberLine("Seed", 1, 0, 2**32 - 1)
        self.facts = label("", "muted", wrap=True)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName("The script")
        self.text.setMinimumHeight(150)
        self.copy = button("Copy the script", self._copy)
        self.banner = Banner()
        self.start = button("Run the phases", self.submit, "primary")

    def _file_page(self) -> QWidget:
        page = QWidget()
        chosen = row(self.path, button("Choose …", self._choose))
        page.setLayout(column(label("Scripts found", "section"), self.list, chosen))
        return page

    def _arrange(self) -> None:
        form = form_layout()
        form.addRow("Run name", self.name)
        form.addRow("Seed", column(self.seed, self.seed.error, spacing=2))
        host = QWidget()
        ways = row(self.from_phases, self.from_file, 1)
        preview = row(label("The script", "section"), 1, self.copy)
        parts = (ways, self.phases, self._file, form, preview, self.facts, self.text)
        host.setLayout(column(*parts, margin=6, spacing=9, stretch={6: 1}))
        bar = row(1, self.start)
        layout = column(self.banner, scrolled(host), bar, margin=8, stretch={1: 1})
        self.setLayout(layout)

    def _connect(self) -> None:
        self.list.currentTextChanged.connect(self._on_listed)
        self.path.textChanged.connect(lambda _text: self._look())
        self.from_phases.toggled.connect(lambda _on: self._show_way())
        self.phases.edited.connect(self._on_phases)
        self.phases.rearranged.connect(self._chain)
        self.name.textChanged.connect(lambda _text: self.edited.emit())
        self.seed.textChanged.connect(lambda _text: self._on_seed())

    # ------------------------------------------------------------ what is in it

    def set_actor(self, actor: Actor) -> None:
        self._worker = actor.worker_type
        self._module = actor.capabilities.module if actor.capabilities else ""
        self.phases.set_actor(actor)
        root = self._services.link.home.root
        folders = [root / "scripts", project_root() / "scripts", project_root() / "examples"]
        self._services.calls.run(lambda: described_scripts(folders), self._fill)

    @property
    def built(self) -> bool:
        """Whether the phases are built here, and not read from a file."""
        return bool(self.from_phases.isChecked())

    def restore(self, content: Mapping[str, object]) -> None:
        type_texts(content.get("typed"), self.path, self.name, self.seed)
        if content.get("phases"):
            self.phases.type_texts([texts(phase) for phase in items(content["phases"])])
        way = content.get("way") or (_FILE if self.path.text() else _BUILT)
        (self.from_file if way == _FILE else self.from_phases).setChecked(True)
        self._show_way()

    def content(self) -> dict[str, object]:
        return {
            "way": _BUILT if self.built else _FILE,
            "phases": self.phases.texts(),
            "typed": texts_of(self.path, self.name, self.seed),
        }

    def problems(self) -> list[str]:
        """Everything that is wrong with the form now."""
        found = list(self.phases.problems) if self.built else []
        if not self.built and not self._readable:
            found.append("choose a script that can be read")
        return [problem for problem in (*found, self.seed.problem) if problem]

    def submit(self) -> None:
        problems = self.problems()
        if problems:
            self.banner.say("danger", "Not sent: " + "; ".join(problems))
            return
        try:
            config = self._config()
        except InvalidConfigError as error:
            self.show_refusal(list(error.problems))
            return
        self.banner.say("info", "")
        self.submitted.emit([Launch(config)])

    def _config(self) -> TrainRunConfig:
        seed = int(self.seed.value() or 0)
        wishes = build.Wishes(name=self.name.text().strip())
        if self.built:
            return build.phases(self._worker, self.phases.phases(), seed=seed, wishes=wishes)
        path = Path(self.path.text().strip()).expanduser()
        return build.script(self._worker, path, seed=seed, header=self._header, wishes=wishes)

    def show_refusal(self, problems: list[Problem]) -> None:
        self.banner.say("danger", refusal(problems))

    # ------------------------------------------------------------ showing it

    def _show_way(self) -> None:
        self.phases.setVisible(self.built)
        self._file.setVisible(not self.built)
        self.start.setText("Run the phases" if self.built else "Run the script")
        if self.built:
            self._on_phases()
        else:
            self._look()

    def _on_seed(self) -> None:
        self._enable()
        self.edited.emit()

    def _on_phases(self) -> None:
        if not self.built:
            return
        problems = self.phases.problems
        phases = [] if problems else self.phases.phases()
        self._header = header_of(phases)
        # Half a script would look like one that can be run.
        self.text.setPlainText(script_text(phases, self._module) if phases else "")
        self.text.setPlaceholderText("It is shown here once every phase is complete.")
        self.facts.setText("; ".join(problems[:1]) or _facts(self._header))
        self._enable()
        self.edited.emit()

    def _enable(self) -> None:
        self.start.setEnabled(not self.problems())
        self.copy.setEnabled(bool(self.text.toPlainText()))

    def _copy(self) -> None:
        sure(QGuiApplication.clipboard()).setText(self.text.toPlainText())
        self._services.notices.info("The script is copied")

    # ------------------------------------------------------------ a script of the user's

    def _fill(self, paths: list[Path]) -> None:
        self.list.clear()
        self.list.addItems([str(path) for path in paths])
        if not paths:
            self.list.addItem("None found; put *.sh files into the home's scripts folder")
            sure(self.list.item(0)).setFlags(Qt.ItemFlag.NoItemFlags)

    def _on_listed(self, text: str) -> None:
        if text.endswith(".sh"):
            self.path.setText(text)

    def _look(self) -> None:
        if self.built:
            return
        text = self.path.text().strip()
        self._readable = False
        self.facts.setText("")
        self.text.clear()
        self.text.setPlaceholderText(
            "# @description: what it does\n# @phases: warmup, main\n# @total_timesteps: 200000"
        )
        self._enable()
        self.edited.emit()
        if not text:
            return
        path = Path(text).expanduser()

        def work() -> tuple[PipelineHeader, str]:
            return read_header(path), path.read_text(errors="replace")[:_SHOWN_CHARACTERS]

        # Typing is quicker than reading: an answer about an older path is dropped.
        def awaited() -> bool:
            return not self.built and text == self.path.text().strip()

        def failed(error: Exception) -> None:
            if awaited():
                self.facts.setText(f"Cannot be read: {getattr(error, 'strerror', '') or error}")

        def show(found: tuple[PipelineHeader, str]) -> None:
            if awaited():
                self._show(*found)

        self._services.calls.run(work, show, failed)

    def _show(self, header: PipelineHeader, text: str) -> None:
        self._header, self._readable = header, True
        self.text.setPlainText(text)
        self.facts.setText(_facts(header))
        self._enable()

    def _choose(self) -> None:
        dialog = QFileDialog(self, "Choose a script", "", "Shell scripts (*.sh)")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self.path.setText)
        dialog.open()


def content_of(config: TrainRunConfig) -> dict[str, object]:
    """What to put into the form for a run that it, or a command, has made."""
    extras = config.worker.extras
    typed = {"Run name": config.run_name, "Seed": str(config.worker.seed)}
    if extras.script_phases:
        phases = [texts_of_phase(phase) for phase in extras.script_phases]
        return {"way": _BUILT, "phases": phases, "typed": typed}
    return {"way": _FILE, "typed": {**typed, "Script": extras.script_path or ""}}


def _facts(header: PipelineHeader) -> str:
    parts = [header.description]
    if header.phases:
        parts.append(f"phases: {', '.join(header.phases)}")
    if header.total_timesteps:
        parts.append(f"{header.total_timesteps:,} steps")
    return " · ".join(part for part in parts if part)
