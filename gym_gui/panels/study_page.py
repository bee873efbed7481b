"""The one place of a sweep: its trials, Optuna's figures, and what to do with the best."""

from collections.abc import Sequence

from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QPushButton, QWidget

from gym_gui.background import sweep_driver
from gym_gui.background.daemon_link import DaemonLink
from gym_gui.background.study_pictures import draw_pictures
from gym_gui.models.notices import Notice
from gym_gui.services import Services
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label, selectable
from gym_gui.widgets.layouts import column
from gym_gui.widgets.messages import EmptyState
from gym_gui.widgets.study_view import Picture, StudyView, as_cell
from gym_gui.widgets.wrapping import WrappingRow
from mosaic.client import sweeps
from mosaic.client.sweeps import Search, Submitted
from mosaic.experiments.summary import experiment_of
from mosaic.records import RunRecord
from mosaic.statistics import tables

# Trials end in bursts; Optuna takes seconds to draw.
_COALESCE_MS = 1000
_SEEDS, _TOP = 5, 3
_NOTHING = ("No sweep", "Select a run of a sweep, or its row, in the table.")


class StudyPage(QWidget):
    """Follows the sweep that the selected runs belong to."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self.sweep_id = ""
        self.search: Search | None = None
        self._drawn: tuple[str, int] = ("", 0)
        self._drawing = False
        self._headline = label("", "section")
        self.verdict = selectable(label("", "muted", wrap=True))
        self.view = StudyView(services.themes)
        self.train_best = button(f"Train the best with {_SEEDS} seeds", self._train_best, "primary")
        self.confirm = button(f"Confirm the best {_TOP}", self._confirm)
        self.confirm.setToolTip("Train them again with seeds that the search has not seen")
        self.stop = button("Stop", self._stop, tip="Start no more trials; running ones continue")
        self.resume = button("Continue", self._continue)
        self.report = QPushButton("Report …")
        self._bar = QWidget()
        self._bar.setLayout(
            WrappingRow(self.train_best, self.confirm, self.stop, self.resume, self.report)
        )
        self._empty = EmptyState(*_NOTHING)
        parts = (self._headline, self._bar, self.verdict, self.view, self._empty)
        self.setLayout(column(*parts, margin=8, stretch={3: 1}))
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(_COALESCE_MS)
        self._later.timeout.connect(self.read)
        services.store.changed.connect(self._on_store)
        self._say(*_NOTHING)

    def show_runs(self, ids: Sequence[str]) -> None:
        """Show the sweep of these runs."""
        known = [run for run in map(self._services.store.get, ids) if run is not None]
        marks = [experiment_of(run.tags) for run in known]
        sweep_id = next((mark[1] for mark in marks if mark and mark[0] == "sweep"), "")
        if sweep_id == self.sweep_id and self.search is not None:
            return
        self.sweep_id, self.search = sweep_id, None
        self._say(*(("Reading the study", sweep_id) if sweep_id else _NOTHING))
        self.view.show_pictures([])
        self._drawn = ("", 0)
        self.read()

    def read(self) -> None:
        """Read the study again."""
        sweep_id = self.sweep_id
        if not sweep_id:
            return

        def take(search: Search) -> None:
            if sweep_id == self.sweep_id:
                self._show(search)

        self._link().ask(
            lambda client: sweeps.read_sweep(client, sweep_id),
            take,
            lambda error: None if self.search else self._say("No study yet", str(error)),
        )

    def _on_store(self, ids: set[str]) -> None:
        if self.isVisible() and self.sweep_id and not self._later.isActive():
            runs = [run for run in map(self._services.store.get, ids) if run is not None]
            if any(self.sweep_id in tag for run in runs for tag in run.tags):
                self._later.start()

    def _say(self, title: str, text: str) -> None:
        self._empty.say(title, text)
        self._empty.show()
        for part in (self._headline, self._bar, self.verdict, self.view):
            part.hide()

    def _show(self, search: Search) -> None:
        self.search = search
        self._empty.hide()
        for part in (self._headline, self._bar, self.verdict, self.view):
            part.show()
        plan, best = search.plan, search.best
        begun = f"{len(search.complete)} of {plan.trials} trials complete"
        value = f", the best is trial {best.number}: {tables.score(best.value)}" if best else ""
        self._headline.setText(f"{plan.subject} · {begun}{value}")
        self.verdict.setText(verdict_of(search))
        self.verdict.setVisible(bool(self.verdict.text()))
        names = list(plan.space)
        rows = [
            [trial.number, trial.state, trial.value, *(as_cell(trial.params.get(n)) for n in names)]
            for trial in search.trials
        ]
        self.view.show_trials(names, rows, plan.maximise)
        live = any(run.live for run in self._runs())
        self.stop.setEnabled(live and not search.halted)
        self.resume.setEnabled(not live and len(search.trials) < plan.trials)
        for one in (self.train_best, self.confirm):
            one.setEnabled(best is not None)
        self._draw(search)

    def _runs(self) -> list[RunRecord]:
        tag = f"sweep={self.sweep_id}"
        return [run for run in self._services.store.runs.values() if tag in run.tags]

    def _link(self) -> DaemonLink:
        """The daemon that the sweep's runs are on."""
        return self._services.link_of(next((run.run_id for run in self._runs()), ""))

    def _draw(self, search: Search) -> None:
        wanted = (search.sweep_id, len(search.complete))
        # One at a time: when it is done, the next one is drawn with all that has ended since.
        if wanted == self._drawn or self._drawing or not search.complete:
            return
        self._drawing = True

        def take(pictures: list[Picture]) -> None:
            self._drawing = False
            self._drawn = wanted
            if wanted[0] == self.sweep_id:
                self.view.show_pictures(pictures)
            if self.search is not None:
                self._draw(self.search)

        def failed(error: Exception) -> None:
            self._drawing, self._drawn = False, wanted
            self.view.say(str(error))

        draw_pictures(self._services.calls, "sweep", search.rows(), take, failed)

    # ------------------------------------------------------------ doing

    def _train_best(self) -> None:
        sweep_id, notices = self.sweep_id, self._services.notices

        def done(made: Submitted) -> None:
            notices.say(
                Notice("success", f"best-{sweep_id}: {len(made.added)} runs with fresh seeds", "")
            )

        self._link().ask(
            lambda client: sweeps.train_best(client, sweep_id, _SEEDS),
            done,
            lambda error: notices.error("Not trained", error),
        )

    def _confirm(self) -> None:
        self._drive("confirm", self.sweep_id, "--confirm", str(_TOP), "--fresh", str(_SEEDS))

    def _stop(self) -> None:
        self._drive("stop", self.sweep_id)

    def _continue(self) -> None:
        self._drive("--continue", self.sweep_id)

    def _drive(self, *words: str) -> None:
        """Let the command do it, in a process that outlives the window."""
        link, notices = self._link(), self._services.notices
        if not link.local:
            notices.info(f"On the daemon's machine, run: mosaic sweep {' '.join(words)}")
            return
        self._services.calls.run(
            lambda: sweep_driver.run_on(link.home, ["sweep", *words]),
            lambda _nothing: notices.info("Asked for; the study shows what becomes of it"),
            lambda error: notices.error("Not done", error),
        )


def verdict_of(search: Search) -> str:
    """What is known about the best beyond the search, and why the search ended early."""
    lines = [f"No more trials: {search.halted}."] if search.halted else []
    for one in search.confirmed:
        promised = tables.score(one.optimism(search.plan.maximise))
        lines.append(
            f"Trial {one.trial} with {len(one.scores)} fresh seeds: {tables.score(one.mean)} "
            f"({tables.between(one.interval)}); the search promised {tables.score(one.searched)}, "
            f"{promised} too much."
        )
    return "\n".join(lines)
