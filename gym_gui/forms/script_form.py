"""Shell scripts for training in several phases, with what they say about themselves."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qtpy.QtCore import Qt
from qtpy.QtGui import QFontDatabase
from qtpy.QtWidgets import QFileDialog, QLineEdit, QListWidget, QPlainTextEdit

from gym_gui.forms.base import (
    NumberLine,
    WorkerForm,
    form_layout,
    refusal,
    texts_of,
    type_texts,
)
from gym_gui.models.actors import Actor
from gym_gui.models.launch import Launch
from gym_gui.services import Services
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.messages import Banner
from gym_gui.widgets.qt_types import sure
from mosaic.config import build
from mosaic.config.paths import project_root
from mosaic.config.pipeline import PipelineHeader, described_scripts, read_header
from mosaic.errors import Problem

_SHOWN_CHARACTERS = 40_000


class ScriptForm(WorkerForm):
    """Runs a `*.sh` as one run."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._worker = "cleanrl"
        self._header = PipelineHeader()
        self.list = QListWidget()
        self.list.setAccessibleName("Scripts")
        self.list.setMaximumHeight(130)
        self.list.currentTextChanged.connect(self._on_listed)
        self.path = QLineEdit()
        self.path.setPlaceholderText("Path of a *.sh file")
        self.path.setAccessibleName("Script")
        self.path.textChanged.connect(lambda _text: self._look())
        self.name = QLineEdit()
        self.name.setPlaceholderText("named after the script")
        self.name.setAccessibleName("Run name")
        self.seed = NumberLine("Seed", 1, 0, 2**32 - 1)
        for line in (self.name, self.seed):
            line.textChanged.connect(lambda _text: self.edited.emit())
        self.facts = label("", "muted", wrap=True)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName("The script")
        self.text.setPlaceholderText(
            "# @description: what it does\n# @phases: warmup, main\n# @total_timesteps: 200000"
        )
        self.banner = Banner()
        form = form_layout()
        form.addRow("Script", row(self.path, button("Choose …", self._choose)))
        form.addRow("Run name", self.name)
        form.addRow("Seed", column(self.seed, self.seed.error, spacing=2))
        self.start = button("Run the script", self.submit, "primary")
        self.setLayout(
            column(
                label("Scripts found", "section"),
                self.list,
                form,
                self.facts,
                self.text,
                self.banner,
                row(1, self.start),
                margin=10,
                spacing=9,
            )
        )
        self._look()

    def set_actor(self, actor: Actor) -> None:
        self._worker = actor.worker_type
        root = self._services.link.home.root
        folders = [root / "scripts", project_root() / "scripts", project_root() / "examples"]
        self._services.link.calls.run(lambda: described_scripts(folders), self._fill)

    def restore(self, content: Mapping[str, Any]) -> None:
        type_texts(content.get("typed"), self.path, self.name, self.seed)

    def content(self) -> dict[str, object]:
        return {"typed": texts_of(self.path, self.name, self.seed)}

    def submit(self) -> None:
        path = Path(self.path.text().strip()).expanduser()
        if not self.start.isEnabled():
            self.banner.say("danger", "Choose a script that can be read.")
            return
        config = build.script(
            self._worker,
            path,
            seed=int(self.seed.value() or 0),
            header=self._header,
            wishes=build.Wishes(name=self.name.text().strip()),
        )
        self.banner.say("info", "")
        self.submitted.emit([Launch(config)])

    def show_refusal(self, problems: list[Problem]) -> None:
        self.banner.say("danger", refusal(problems))

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
        text = self.path.text().strip()
        self.start.setEnabled(False)
        self.facts.setText("")
        self.edited.emit()
        if not text:
            return
        path = Path(text).expanduser()

        def work() -> tuple[PipelineHeader, str]:
            return read_header(path), path.read_text(errors="replace")[:_SHOWN_CHARACTERS]

        # Typing is quicker than reading: an answer about an older path is dropped.
        def failed(error: Exception) -> None:
            if text == self.path.text().strip():
                self.facts.setText(f"Cannot be read: {getattr(error, 'strerror', '') or error}")

        def show(found: tuple[PipelineHeader, str]) -> None:
            if text == self.path.text().strip():
                self._show(*found)

        self._services.link.calls.run(work, show, failed)

    def _show(self, header: PipelineHeader, text: str) -> None:
        self._header = header
        self.start.setEnabled(True)
        self.text.setPlainText(text)
        parts = [header.description]
        if header.phases:
            parts.append(f"phases: {', '.join(header.phases)}")
        if header.total_timesteps:
            parts.append(f"{header.total_timesteps:,} steps")
        self.facts.setText(" · ".join(part for part in parts if part))

    def _choose(self) -> None:
        dialog = QFileDialog(self, "Choose a script", "", "Shell scripts (*.sh)")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self.path.setText)
        dialog.open()
