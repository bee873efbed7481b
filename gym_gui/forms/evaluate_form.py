"""Evaluate: let a trained policy act, and report its returns."""

from collections.abc import Mapping, Sequence

from qtpy.QtWidgets import QCheckBox, QLineEdit

from gym_gui.forms.base import (
    NumberLine,
    WorkerForm,
    form_layout,
    refusal,
    texts_of,
    type_texts,
)
from gym_gui.forms.run_source import RunSource
from gym_gui.models.actors import Actor
from gym_gui.models.evaluation import evaluation_name
from gym_gui.models.launch import Launch
from gym_gui.models.stored import items
from gym_gui.services import Services
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.messages import Banner
from mosaic.config import build
from mosaic.config.model import TrainRunConfig
from mosaic.errors import InvalidConfigError, Problem
from mosaic.experiments.summary import EVALUATION_TAG
from mosaic.records import RunRecord


class EvaluateForm(WorkerForm):
    """Plays the newest, or a chosen, policy of a run."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._worker = "cleanrl"
        self.source = RunSource(services, "policy", "Policies (*.cleanrl_model)")
        self.env = QLineEdit()
        self.env.setPlaceholderText("the one it was trained in")
        self.env.setAccessibleName("Environment")
        self.algo = QLineEdit()
        self.algo.setPlaceholderText("needed for a file of your own")
        self.algo.setAccessibleName("Algorithm")
        self.episodes = NumberLine("Episodes", 20, 1, 100_000)
        self.seed = NumberLine("Seed", 1, 0, 2**32 - 1)
        self.gamma = NumberLine(
            "Gamma", None, 0, 1, whole=False, optional=True, placeholder="as trained"
        )
        self.video = QCheckBox("Record every episode")
        self.video.setChecked(True)
        self.repeat = QCheckBox("Repeat until cancelled")
        self._several: tuple[str, ...] = ()
        self.several = QCheckBox()
        self.several.hide()
        self.banner = Banner()
        form = form_layout()
        form.addRow("Environment", self.env)
        form.addRow("Algorithm", self.algo)
        form.addRow("Episodes", column(self.episodes, self.episodes.error, spacing=2))
        form.addRow("Seed", column(self.seed, self.seed.error, spacing=2))
        form.addRow("Discount", column(self.gamma, self.gamma.error, spacing=2))
        form.addRow("", self.video)
        form.addRow("", self.repeat)
        self.start = button("Evaluate", self.submit, "primary")
        self.setLayout(
            column(
                label("Policy of", "section"),
                self.several,
                self.source,
                label("How", "section"),
                form,
                self.banner,
                1,
                row(1, self.start),
                margin=10,
                spacing=10,
            )
        )
        self.source.changed.connect(self._on_source)
        self.several.toggled.connect(self._on_several)
        self._lines = (self.env, self.algo, self.episodes, self.seed, self.gamma)
        for line in self._lines:
            line.textChanged.connect(lambda _text: self.edited.emit())
        for box in (self.video, self.repeat):
            box.toggled.connect(lambda _on: self.edited.emit())

    def set_actor(self, actor: Actor) -> None:
        self._worker = actor.worker_type
        # What the worker would ignore is not offered; the daemon would refuse it.
        films = actor.capabilities is not None and "video" in actor.capabilities.options
        self.video.setVisible(films)
        if not films:
            self.video.setChecked(False)
        self.source.set_worker(actor.worker_type)
        self._on_source()

    def restore(self, content: Mapping[str, object]) -> None:
        self._offer_several(tuple(map(str, items(content.get("run_ids") or []))))
        if content.get("run_id"):
            self.source.choose(str(content["run_id"]))
        self.source.file.setText(str(content.get("file") or ""))
        type_texts(content.get("typed"), *self._lines)
        for name, box in (("video", self.video), ("repeat", self.repeat)):
            if name in content:
                box.setChecked(bool(content[name]))

    def content(self) -> dict[str, object]:
        return {
            "run_id": self.source.run_id,
            "file": self.source.file.text(),
            "typed": texts_of(*self._lines),
            "video": self.video.isChecked(),
            "repeat": self.repeat.isChecked(),
        }

    def problems(self) -> list[str]:
        """What is wrong with the form."""
        found = [line.problem for line in (self.episodes, self.seed, self.gamma) if line.problem]
        if self.several.isChecked():
            return found
        if not self.source.path():
            found.append("choose a run, or a policy file")
        if (
            self.source.own_file
            and self.source.run is None
            and not (self.algo.text() and self.env.text())
        ):
            found.append("a file of your own needs its algorithm and environment")
        return found

    def submit(self) -> None:
        problems = self.problems()
        if problems:
            self.banner.say("danger", "Not sent: " + "; ".join(problems))
            return
        try:
            launches = self._launches()
        except InvalidConfigError as error:
            self.show_refusal(list(error.problems))
            return
        self.banner.say("info", "")
        self.submitted.emit(launches)

    def show_refusal(self, problems: list[Problem]) -> None:
        self.banner.say("danger", refusal(problems))

    def _offer_several(self, run_ids: tuple[str, ...]) -> None:
        """Offer to evaluate all of the runs that were selected together."""
        self._several = run_ids
        self.several.setVisible(len(run_ids) > 1)
        self.several.setText(f"Each of the {len(run_ids)} selected runs, by its newest policy")
        self.several.setChecked(len(run_ids) > 1)
        # Drawing hundreds of episodes takes longer than playing them.
        self.video.setChecked(self.video.isVisibleTo(self) and len(run_ids) <= 1)
        self._on_several()

    def _on_several(self) -> None:
        together = self.several.isChecked()
        self.source.setVisible(not together)
        self.start.setText(f"Evaluate {len(self._several)} runs" if together else "Evaluate")
        self._on_source()

    def _launches(self) -> list[Launch]:
        if not self.several.isChecked():
            # An evaluation of a file has no parent, even if a run is still chosen above it.
            parent = "" if self.source.own_file else self.source.run_id
            return [Launch(self._config(self.source.run, self.source.path()), parent)]
        known = [self._services.store.get(run_id) for run_id in self._several]
        runs = [run for run in known if run is not None]
        tags = [EVALUATION_TAG + evaluation_name(runs)]
        return [Launch(self._config(run, "", tags), run.run_id) for run in runs]

    def _config(
        self, run: RunRecord | None, policy: str, tags: Sequence[str] = ()
    ) -> TrainRunConfig:
        gamma = self.gamma.value()
        return build.evaluate(
            run,
            worker=self._worker,
            policy=policy,
            tags=tags,
            algo=self.algo.text().strip(),
            env_id=self.env.text().strip(),
            episodes=int(self.episodes.value() or 1),
            seed=int(self.seed.value() or 0),
            gamma=None if gamma is None else float(gamma),
            video=self.video.isChecked(),
            repeat=self.repeat.isChecked(),
        )

    def _on_source(self) -> None:
        run = None if self.several.isChecked() else self.source.run
        self.env.setPlaceholderText(run.env_id if run else "the one it was trained in")
        unknown = "as trained" if self.several.isChecked() else "needed for a file of your own"
        self.algo.setPlaceholderText(run.algo if run else unknown)
        self.edited.emit()
