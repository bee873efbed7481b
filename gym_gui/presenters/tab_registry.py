"""Which tabs a run gets: decided by its worker's capabilities, never by its name."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gym_gui.models.actors import Actor
from gym_gui.tabs.base import RunTab
from gym_gui.tabs.charts_tab import ChartsTab
from gym_gui.tabs.details_tab import DetailsTab
from gym_gui.tabs.evaluation_tab import EvaluationTab
from gym_gui.tabs.failure_tab import FailureTab
from gym_gui.tabs.lineage_tab import LineageTab
from gym_gui.tabs.live_tab import LiveTab
from gym_gui.tabs.logs_tab import LogsTab
from gym_gui.tabs.optuna_tab import OptunaTab
from gym_gui.tabs.overview_tab import OverviewTab
from gym_gui.tabs.replay_tab import ReplayTab
from gym_gui.tabs.telemetry_tab import TelemetryTab
from gym_gui.tabs.tensorboard_tab import TensorBoardTab
from gym_gui.tabs.wandb_tab import WandbTab
from mosaic.experiments.summary import experiment_of
from mosaic.presenting.run_status import has_failed
from mosaic.records import RunRecord

OVERVIEW, LIVE, TELEMETRY, CHARTS, LOGS = "overview", "live", "telemetry", "charts", "logs"
TENSORBOARD, WANDB, OPTUNA = "tensorboard", "wandb", "optuna"
LINEAGE = "lineage"
REPLAY, DETAILS, FAILURE, EVALUATION = "replay", "details", "failure", "evaluation"


@dataclass(frozen=True)
class TabKind:
    """One kind of tab: how to make it, and for which runs, with which files, it makes sense."""

    make: type[RunTab]
    fits: Callable[[RunRecord, Collection[str]], bool] = lambda run, files: True


# Tabs of files appear with the files: an empty W&B tab would only raise questions.
def _has_wandb(run: RunRecord, files: Collection[str]) -> bool:
    return "wandb" in files


def _has_study(run: RunRecord, files: Collection[str]) -> bool:
    # The study of a sweep is about all of its runs, and has a page of its own beside their curves.
    mark = experiment_of(run.tags)
    return "optuna.db" in files and not (mark and mark[0] == "sweep")


def _was_judged(run: RunRecord, files: Collection[str]) -> bool:
    return "evaluations" in files or "eval_summary.json" in files


def _needs_explaining(run: RunRecord, files: Collection[str]) -> bool:
    return has_failed(run)


def _can_branch(run: RunRecord, files: Collection[str]) -> bool:
    return run.newest_checkpoint("full") is not None or bool(run.parent_run_id)


TABS: dict[str, TabKind] = {
    OVERVIEW: TabKind(OverviewTab),
    LIVE: TabKind(LiveTab),
    CHARTS: TabKind(ChartsTab),
    EVALUATION: TabKind(EvaluationTab, _was_judged),
    LOGS: TabKind(LogsTab),
    TELEMETRY: TabKind(TelemetryTab),
    TENSORBOARD: TabKind(TensorBoardTab),
    WANDB: TabKind(WandbTab, _has_wandb),
    OPTUNA: TabKind(OptunaTab, _has_study),
    LINEAGE: TabKind(LineageTab, _can_branch),
    REPLAY: TabKind(ReplayTab),
    DETAILS: TabKind(DetailsTab),
    FAILURE: TabKind(FailureTab, _needs_explaining),
}


class WorkerPresenter:
    """Chooses the tabs for the runs of one actor."""

    def __init__(self, actor: Actor | None) -> None:
        self.actor = actor

    def bootstrap_live_tabs(self) -> list[str]:
        """The tabs of the telemetry lane: every step can be seen and replayed."""
        return [TELEMETRY, REPLAY]

    def bootstrap_analytics_tabs(self) -> list[str]:
        """The tabs of the analytics lane: curves, TensorBoard and its kind."""
        return [LIVE, CHARTS, LINEAGE, EVALUATION, TENSORBOARD, WANDB, OPTUNA, REPLAY]

    @property
    def analytics(self) -> bool:
        """Whether the runs live in the analytics lane alone."""
        return bool(
            self.actor
            and self.actor.provides_fast_analytics
            and not self.actor.requires_live_telemetry
        )

    def tabs(self, run: RunRecord, files: Collection[str]) -> list[str]:
        """The tabs for a run that has these files, in order."""
        actor = self.actor
        lane: list[str] = [CHARTS]
        if actor and actor.requires_live_telemetry:
            lane = [*self.bootstrap_live_tabs(), CHARTS]
        elif actor and actor.provides_fast_analytics:
            lane = self.bootstrap_analytics_tabs()
        names = [FAILURE, OVERVIEW, *lane, LOGS, DETAILS]
        return [name for name in dict.fromkeys(names) if TABS[name].fits(run, files)]


class PresenterRegistry:
    """The presenter of each worker type."""

    def __init__(self) -> None:
        self._presenters: dict[str, WorkerPresenter] = {}

    def set_actors(self, actors: list[Actor]) -> None:
        """The roster is known."""
        self._presenters = {actor.worker_type: WorkerPresenter(actor) for actor in actors}

    def get(self, worker_type: str) -> WorkerPresenter:
        """The presenter for runs of a worker, known or not."""
        return self._presenters.get(worker_type) or WorkerPresenter(None)
