"""A run at a glance: state, headline numbers, and the curve of its return as it grows."""

import time
from collections.abc import Mapping

from qtpy.QtWidgets import QGridLayout

from gym_gui.background.daemon_link import DaemonLink
from gym_gui.models.evaluation import evaluation_text
from gym_gui.models.health import marks
from gym_gui.resources import icons
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.chart import Chart
from gym_gui.widgets.chart_lines import Line, Look
from gym_gui.widgets.controls import button
from gym_gui.widgets.hand_over import HandOverButton
from gym_gui.widgets.labels import ElidedLabel, NumberTile, label, selectable
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.messages import Banner, EmptyState
from mosaic.client import TrainerClient
from mosaic.config import build
from mosaic.curves.names import (
    EPISODES,
    EVALUATION_TAGS,
    LAST_EPISODES,
    LENGTH,
    RETURN,
    tag_order,
)
from mosaic.presenting import formatting
from mosaic.presenting.alarms import Change, alarm_text, proposed_change, way_back
from mosaic.presenting.run_status import one_line, status_of, title_of
from mosaic.records import Outcome, RunRecord

# What a run is to its parent; one of the same mode as any other repeats it.
_KINSHIP = {
    "resume_training": "continues",
    "policy_eval": "evaluates",
    "verify": "verifies",
    "take_over": "plays with",
}
_TILES = ("Return", "Episode length", "Steps per second", "Progress", "Time left", "Checkpoint")


class OverviewTab(RunTab):
    """The first thing to look at."""

    title = "Overview"
    icon = "info"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._icon = label("")
        self._title = ElidedLabel("", "title")
        self._state = label("", "muted")
        self._reason = Banner()
        self.health = Banner()
        self.health.setAccessibleName("Health")
        self.apply = button("", self._apply)
        self.apply.setToolTip("Train from the beginning with this one setting changed")
        self.apply.hide()
        self.tiles = {name: NumberTile(name) for name in _TILES}
        self.tiles["Return"].setToolTip(f"Mean over the last {LAST_EPISODES} finished episodes.")
        grid = QGridLayout()
        grid.setSpacing(6)
        for place, tile in enumerate(self.tiles.values()):
            grid.addWidget(tile, place // 3, place % 3)
        self.chart = Chart(services.themes, services.clock, "Return")
        self.chart.setMinimumHeight(90)
        self._chart_title = label("Return", "section", wrap=True)
        self._no_curve = EmptyState(
            "No numbers yet", "The curve of the return appears with the run's first report."
        )
        self._facts = selectable(label("", "muted", wrap=True))
        self._facts.setMinimumHeight(2 * self._facts.fontMetrics().lineSpacing() + 6)
        self.hand_over = HandOverButton(self.action_wanted.emit)
        head = row(self._icon, self._title, self._state, self.hand_over)
        head.setStretch(1, 1)
        self.setLayout(
            column(
                head,
                self._reason,
                self.health,
                row(self.apply, 1),
                grid,
                self._chart_title,
                self.chart,
                self._no_curve,
                self._facts,
                margin=10,
                stretch={6: 1, 7: 1},
            )
        )
        services.feeds.grown.connect(self._on_grown)
        services.phases.known.connect(lambda run_id: self._on_grown(run_id, set()))
        services.run_settings.arrived.connect(self._show_advice)

    def on_open(self) -> None:
        self.services.feeds.take(self.run_id)
        self._show_curve()

    def on_close(self) -> None:
        self.services.feeds.give_back(self.run_id)

    def on_other_run(self) -> None:
        self.chart.set_lines({}, Look())

    def on_news(self) -> None:
        run = self.run
        if run is None:
            return
        status = status_of(run)
        theme = self.services.themes.theme
        self._icon.setPixmap(icons.pixmap(status.icon, theme.tone(status.tone), 20))
        self._title.set_full(title_of(run))
        self._state.setText(status.label)
        tone = (
            "danger" if run.outcome in (Outcome.FAILED, Outcome.LOST, Outcome.DAMAGED) else "info"
        )
        self._reason.say(tone, one_line(run))
        self.hand_over.set_run(run)
        self._show_health(run)
        self._show_numbers()
        self._facts.setText(_facts(run, self.services.store.get(run.parent_run_id or "")))

    def _show_health(self, run: RunRecord) -> None:
        step = way_back(run)
        offer = "" if step is None else f"Fork from step {step:,}"
        self.health.say("warning", alarm_text(run), offer, lambda: self._fork(run.run_id, step))
        if run.alarms:
            self.services.run_settings.want([run])
        self._show_advice()

    def _show_advice(self) -> None:
        """Offer the change that the alarm advises, once the run's settings are known."""
        change = self._change()
        self.apply.setVisible(change is not None)
        self.apply.setText(f"Apply and run again: {change}")

    def _change(self) -> Change | None:
        run, settings = self.run, self.services.run_settings
        if run is None or not run.alarms or settings.given(run) is None:
            return None
        return proposed_change(run, lambda name: settings.value(run, name))

    def _apply(self) -> None:
        run_id, change = self.run_id, self._change()
        if change is None:
            return

        def again(client: TrainerClient) -> RunRecord:
            before = build.read_config(client.config(run_id))
            config = build.with_parameters(before, {change.name: change.after})
            return client.submit(config, parent_run_id=run_id)

        link = self.link
        link.ask(
            again,
            lambda run: self._started(run, link),
            lambda error: self.services.notices.error("The run was not started", error),
        )

    def _started(self, run: RunRecord, link: DaemonLink) -> None:
        self.services.store.put(run, link.name)
        self.services.selection.select((run.run_id,))

    def _fork(self, run_id: str, step: int | None) -> None:
        """Continue from before the alarm, as a run of its own."""
        if step is None:
            return
        link = self.link
        link.ask(
            lambda client: client.fork(run_id, step),
            lambda run: self._started(run, link),
            lambda error: self.services.notices.error("The run was not forked", error),
        )

    def _show_numbers(self) -> None:
        run = self.run
        if run is None:
            return
        progress, metrics = run.progress, run.metrics
        newest = run.newest_checkpoint()
        texts = {
            "Return": _return(metrics),
            "Episode length": formatting.number(metrics.get(LENGTH)),
            "Steps per second": formatting.number(round(progress.sps)) if progress.sps else "—",
            "Progress": f"{progress.fraction * 100:.0f} %",
            "Time left": formatting.duration(progress.eta_s)
            if run.is_running and progress.eta_s > 0
            else "—",
            "Checkpoint": formatting.ago(newest.saved_at)
            if newest
            else ("none yet" if run.live else "none"),
        }
        for name, text in texts.items():
            self.tiles[name].show_number(text)

    def _on_grown(self, run_id: str, _tags: set[str]) -> None:
        if self.active and run_id == self.run_id:
            self._show_curve()

    def _show_curve(self) -> None:
        curves = self.services.feeds.curves(self.run_id)
        for widget in (self._chart_title, self.chart):
            widget.setVisible(bool(curves))
        self._no_curve.setVisible(not curves)
        if not curves:
            self.chart.set_lines({}, Look())
            return
        tag = min(curves, key=tag_order)
        judged = tag == EVALUATION_TAGS[RETURN]
        title = evaluation_text(curves[tag].values) if judged else tag
        self._chart_title.setText(title)
        colour = self.services.themes.theme.series[0]
        began = () if judged or self.run is None else marks(self.run)
        phases = self.services.phases.of(self.run_id)
        line = Line(curves[tag], tag, colour, strong=True, dots=judged, marks=began, phases=phases)
        self.chart.set_lines({self.run_id: line}, Look(self.services.settings.smoothing))


def _return(metrics: Mapping[str, float]) -> str:
    """The return, with the number of episodes while it is a mean of fewer than it will be."""
    text = formatting.number(metrics.get(RETURN))
    finished = metrics.get(EPISODES, LAST_EPISODES)
    return f"{text} ({formatting.number(finished)} ep.)" if finished < LAST_EPISODES else text


def _facts(run: RunRecord, parent: RunRecord | None) -> str:
    started, finished = run.started_at, run.finished_at
    parts = [
        f"{run.algo or run.worker} in {run.env_id}" if run.env_id else run.worker,
        f"seed {run.seed}" if run.seed is not None else "",
        f"created {formatting.moment(run.created_at)}",
    ]
    if started:
        spent = (finished or time.time()) - started
        parts.append(f"{'took' if finished else 'running for'} {formatting.duration(spent)}")
    if run.slots:
        parts.append("on " + ", ".join(run.slots))
    if run.parent_run_id:
        step = "" if run.parent_step is None else f" from step {run.parent_step:,}"
        name = title_of(parent) if parent is not None else run.parent_run_id
        parts.append(f"{_KINSHIP.get(run.mode, 'repeats')} {name}{step}")
    if run.notes:
        parts.append(f"notes: {run.notes}")
    parts.append(str(run.run_id))
    return "  ·  ".join(str(part) for part in parts if part)
