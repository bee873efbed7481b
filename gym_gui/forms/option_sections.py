"""The train form's options beside hyperparameters: machine, live view, trackers, ids."""

import os

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QComboBox, QGroupBox, QLineEdit, QWidget

from gym_gui.forms.base import NumberLine, form_layout
from gym_gui.models.train_draft import TrainDraft
from gym_gui.models.wandb_proxy import from_environment
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column
from mosaic.config import keeping, sites

_NO_GPU = "No GPU on the trainer's machine"


class KeepLine(QLineEdit):
    """Which checkpoints to keep, checked while typing."""

    def __init__(self) -> None:
        super().__init__(keeping.DEFAULT)
        self.setAccessibleName("Checkpoints to keep")
        self.setToolTip(
            "last:K keeps the newest, every:N one for every N steps, best the one with the "
            "highest return; commas between. Kept checkpoints can be forked from."
        )
        self.error = label("", "error", wrap=True)
        self.error.hide()
        self.textChanged.connect(self._check)

    @property
    def problem(self) -> str:
        """What is wrong with it; empty when nothing is."""
        try:
            keeping.check(self.text().strip())
        except ValueError as error:
            return f"Checkpoints to keep: {error}"
        return ""

    def policy(self) -> str:
        """What was typed; the default while it is wrong."""
        return keeping.DEFAULT if self.problem else self.text().strip()

    def _check(self) -> None:
        self.error.setText(self.problem)
        self.error.setVisible(bool(self.problem))


class Section(QGroupBox):
    """A titled group of options that reads and writes part of a draft.

    Signals:
        edited: Something changed.
    """

    edited = Signal()

    def __init__(self, title: str) -> None:
        super().__init__(title)

    @property
    def problems(self) -> list[str]:
        """What is wrong, one sentence a field."""
        numbers = [line.problem for line in self.findChildren(NumberLine)]
        kept = [line.problem for line in self.findChildren(KeepLine)]
        return [problem for problem in (*numbers, *kept) if problem]

    def write(self, draft: TrainDraft) -> None:
        """Put the options into a draft."""
        raise NotImplementedError

    def read(self, draft: TrainDraft) -> None:
        """Show the options of a draft."""
        raise NotImplementedError

    def _watch(self, *widgets: QWidget) -> None:
        for widget in widgets:
            if isinstance(widget, QCheckBox):
                widget.toggled.connect(lambda _on: self.edited.emit())
            elif isinstance(widget, QComboBox):
                widget.currentTextChanged.connect(lambda _text: self.edited.emit())
            elif isinstance(widget, QLineEdit):
                widget.textChanged.connect(lambda _text: self.edited.emit())


class MachineSection(Section):
    """What the scheduler reserves, and when the daemon ends the run."""

    def __init__(self) -> None:
        super().__init__("Machine")
        self.cpus = NumberLine("CPU slots", 1, 1, 1024)
        self.gpu = QCheckBox("Train on a GPU")
        self.gpu_note = label("", "muted", wrap=True)
        self.wall = NumberLine(
            "Wall-clock limit", None, 0.01, 1e6, whole=False, optional=True, placeholder="no limit"
        )
        self.site = QLineEdit()
        self.site.setAccessibleName("Run on")
        self.site.setPlaceholderText("as set; local, slurm:PARTITION, ssh://USER@HOST")
        self.site.setToolTip(f"{sites.KNOWN}; left empty, as the settings say")
        form = form_layout()
        form.addRow("Run on", self.site)
        form.addRow("CPU slots", column(self.cpus, self.cpus.error, spacing=2))
        form.addRow(column(self.gpu, self.gpu_note, spacing=2))
        form.addRow("Time limit (min)", column(self.wall, self.wall.error, spacing=2))
        self.setLayout(column(form, margin=10))
        self._watch(self.cpus, self.gpu, self.wall, self.site)
        self._gpus = 0
        self.site.textChanged.connect(lambda _text: self.set_gpus(self._gpus))
        self.set_gpus(0)

    def set_gpus(self, count: int) -> None:
        """How many GPUs the trainer has; those of a cluster only its engine counts."""
        self._gpus = count
        elsewhere = self.site.text().strip().startswith(sites.SLURM)
        self.gpu.setEnabled(count > 0 or elsewhere)
        if not self.gpu.isEnabled():
            self.gpu.setChecked(False)
        here = _NO_GPU if not count else f"{count} on the trainer's machine"
        self.gpu_note.setText("SLURM finds a node that has one" if elsewhere else here)

    def write(self, draft: TrainDraft) -> None:
        draft.cpus = self.cpus.whole(1)
        draft.gpu = self.gpu.isChecked()
        draft.wall_minutes = self.wall.valid()
        draft.site = self.site.text().strip()

    def read(self, draft: TrainDraft) -> None:
        # First: whether there can be a GPU depends on it.
        self.site.setText(draft.site)
        self.cpus.set_value(draft.cpus)
        self.gpu.setChecked(draft.gpu and self.gpu.isEnabled())
        self.wall.set_value(draft.wall_minutes)


class ViewSection(Section):
    """What can be seen while it trains, and what is kept."""

    def __init__(self) -> None:
        super().__init__("Live view and files")
        self.mode = QComboBox()
        self.mode.addItems(["single", "grid", "off"])
        self.mode.setAccessibleName("FastLane live view")
        self.mode.setToolTip(
            "single: the first environment; grid: several side by side. "
            "Nothing is rendered while the view is closed."
        )
        self.limit = NumberLine("Grid size", 4, 1, 64)
        self.slot = NumberLine("Environment to show", 0, 0, 100_000)
        self.slot.setToolTip("Which of a run's environments the single view shows; 0 is the first")
        self.tensorboard = QCheckBox("Write TensorBoard files")
        self.minimal = QCheckBox("Minimal telemetry")
        self.minimal.setToolTip("Send the daemon summaries of episodes, and no single steps")
        self.video = QCheckBox("Capture videos")
        self.video.setToolTip("Of the first environment, now and then")
        self.keep = KeepLine()
        form = form_layout()
        form.addRow("Live view", self.mode)
        form.addRow("Grid size", column(self.limit, self.limit.error, spacing=2))
        form.addRow("Environment", column(self.slot, self.slot.error, spacing=2))
        form.addRow(self.minimal)
        form.addRow(self.tensorboard)
        form.addRow(self.video)
        form.addRow("Checkpoints", column(self.keep, self.keep.error, spacing=2))
        self.setLayout(column(form, margin=10))
        self.mode.currentTextChanged.connect(self._enable_numbers)
        self._enable_numbers("single")
        self.tensorboard.setChecked(True)
        self._watch(self.mode, self.limit, self.slot, self.minimal)
        self._watch(self.tensorboard, self.video, self.keep)

    def write(self, draft: TrainDraft) -> None:
        draft.fastlane_video_mode = self.mode.currentText()
        draft.fastlane_grid_limit = self.limit.whole(4)
        draft.fastlane_slot = self.slot.whole(0)
        draft.minimal_telemetry = self.minimal.isChecked()
        draft.tensorboard = self.tensorboard.isChecked()
        draft.capture_video = self.video.isChecked()
        draft.keep_checkpoints = self.keep.policy()

    def read(self, draft: TrainDraft) -> None:
        self.mode.setCurrentText(draft.fastlane_video_mode)
        self.limit.set_value(draft.fastlane_grid_limit)
        self.slot.set_value(draft.fastlane_slot)
        self.minimal.setChecked(draft.minimal_telemetry)
        self.tensorboard.setChecked(draft.tensorboard)
        self.video.setChecked(draft.capture_video)
        self.keep.setText(str(draft.keep_checkpoints))

    def _enable_numbers(self, mode: str) -> None:
        self.limit.setEnabled(mode == "grid")
        self.slot.setEnabled(mode == "single")


class IdsSection(Section):
    """Names of one's own for the worker and the agent, which its records carry."""

    def __init__(self) -> None:
        super().__init__("Ids for your records")
        self.worker_id, self.agent_id = QLineEdit(), QLineEdit()
        form = form_layout()
        for line, title in ((self.worker_id, "Worker id"), (self.agent_id, "Agent id")):
            line.setPlaceholderText("none")
            line.setAccessibleName(title)
            line.setMaxLength(200)
            form.addRow(title, line)
        self.setLayout(column(form, margin=10))
        self._watch(self.worker_id, self.agent_id)

    def write(self, draft: TrainDraft) -> None:
        draft.worker_id = self.worker_id.text().strip()
        draft.agent_id = self.agent_id.text().strip()

    def read(self, draft: TrainDraft) -> None:
        self.worker_id.setText(draft.worker_id)
        self.agent_id.setText(draft.agent_id)


class WandbSection(Section):
    """Weights and Biases, with the proxy some networks need.

    Signals:
        probe_wanted: Try whether W&B can be reached, through this proxy ("" for none).
    """

    probe_wanted = Signal(str)
    _TEXTS = (
        ("wandb_project_name", "Project", "cleanRL"),
        ("wandb_entity", "Entity (team)", "your default"),
        ("wandb_run_name", "Run name", "the run's own"),
        ("wandb_email", "E-mail", "your account's"),
        ("wandb_api_key", "API key", "from WANDB_API_KEY or wandb login"),
    )

    def __init__(self) -> None:
        super().__init__("Weights and Biases")
        self.track = QCheckBox("Track this run with W&&B")
        self._lines: dict[str, QLineEdit] = {}
        self._host = QWidget()
        form = form_layout()
        for name, title, placeholder in self._TEXTS:
            form.addRow(title, self._line(name, title, placeholder))
        self._lines["wandb_api_key"].setEchoMode(QLineEdit.EchoMode.Password)
        self.proxy = QCheckBox("Reach W&&B through a proxy")
        form.addRow(self.proxy)
        for name, title, variable in (
            ("wandb_http_proxy", "HTTP proxy", "WANDB_VPN_HTTP_PROXY"),
            ("wandb_https_proxy", "HTTPS proxy", "WANDB_VPN_HTTPS_PROXY"),
        ):
            form.addRow(
                title, self._line(name, title, os.environ.get(variable) or f"{variable} (.env)")
            )
        self.probe_result = label("", "muted", wrap=True)
        probe = button("Check the connection", self._probe)
        form.addRow(column(probe, self.probe_result))
        self._host.setLayout(form)
        self.setLayout(column(self.track, self._host, margin=10))
        self._watch(self.track, self.proxy, *self._lines.values())
        self.track.toggled.connect(self._host.setVisible)
        self.proxy.toggled.connect(self._enable_proxies)
        self._host.hide()
        self._enable_proxies(False)

    def write(self, draft: TrainDraft) -> None:
        draft.track_wandb = self.track.isChecked()
        draft.wandb_use_vpn_proxy = self.proxy.isChecked()
        draft.wandb = {k: line.text().strip() for k, line in self._lines.items() if line.text()}

    def read(self, draft: TrainDraft) -> None:
        self.track.setChecked(draft.track_wandb)
        self.proxy.setChecked(draft.wandb_use_vpn_proxy)
        for name, line in self._lines.items():
            # A stored draft never holds the key, and must not clear one that was just typed.
            if name != "wandb_api_key" or draft.wandb.get(name):
                line.setText(draft.wandb.get(name, ""))

    def _line(self, name: str, title: str, placeholder: str) -> QLineEdit:
        line = QLineEdit()
        line.setPlaceholderText(placeholder)
        line.setAccessibleName(title)
        self._lines[name] = line
        return line

    def _enable_proxies(self, on: bool) -> None:
        for name in ("wandb_http_proxy", "wandb_https_proxy"):
            self._lines[name].setEnabled(on)

    def _probe(self) -> None:
        self.probe_result.setText("Checking …")
        proxy = ""
        if self.proxy.isChecked():
            proxy = self._lines["wandb_https_proxy"].text().strip()
            proxy = proxy or from_environment("WANDB_VPN_HTTPS_PROXY")
        self.probe_wanted.emit(proxy)
