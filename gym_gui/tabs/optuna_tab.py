"""The study that a script of its own wrote; the study of a sweep has a page for all its runs."""

from gym_gui.background.calls import Call
from gym_gui.background.run_reading import read_artifacts
from gym_gui.background.study_pictures import draw_pictures
from gym_gui.models.optuna_study import Study, read_study
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.messages import EmptyState
from gym_gui.widgets.study_view import StudyView, as_cell
from mosaic.client import TrainerClient


class OptunaTab(RunTab):
    """A read-only trial browser."""

    title = "Optuna"
    icon = "search"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._drawing: Call | None = None
        self._headline = label("", "section")
        self.view = StudyView(services.themes)
        self.table = self.view.table
        self._empty = EmptyState("No study yet", "The script has not written its study.")
        top = row(self._headline, 1, button("Refresh", self.read))
        self.setLayout(column(top, self._empty, self.view, margin=10))
        self.view.hide()
        services.themes.changed.connect(self._on_theme)

    def _on_theme(self) -> None:
        if self.active:
            self.read()

    def on_open(self) -> None:
        self.read()

    def on_close(self) -> None:
        self._stop_drawing()

    def on_other_run(self) -> None:
        self.view.hide()
        self.view.show_pictures([])
        self._empty.show()

    def _stop_drawing(self) -> None:
        if self._drawing is not None:
            self._drawing.cancel()
            self._drawing = None

    def read(self) -> None:
        """Read the study from its file."""
        if self.run is None:
            return
        run_id, cache = self.run_id, self.services.cache

        def fetch(client: TrainerClient) -> Study:
            path = read_artifacts(client, run_id).optuna
            if not path:
                raise ValueError("the study's file is not available yet")
            return read_study(cache.fetch(client, run_id, path))

        def show(study: Study) -> None:
            if run_id == self.run_id and self.active:
                self._show(study)

        self.link.ask(fetch, show, lambda error: self._empty.say("No study yet", str(error)))

    def _show(self, study: Study) -> None:
        self._empty.hide()
        self.view.show()
        better = "highest" if study.maximise else "lowest"
        shown = len(study.trials)
        text = f"{study.name}: {study.total:,} trials, the {better} value is best"
        if shown < study.total:
            text += f" (showing {shown:,})"
        self._headline.setText(text)
        names = study.parameters
        rows = [
            [trial.number, trial.state, trial.value, *(as_cell(trial.params.get(n)) for n in names)]
            for trial in study.trials
        ]
        self.view.show_trials(names, rows, study.maximise)
        # Pictures of the study as it was are of no use any more.
        self._stop_drawing()
        self._drawing = draw_pictures(
            self.services.calls,
            "study",
            study.rows(),
            self.view.show_pictures,
            lambda error: self.view.say(str(error)),
        )
