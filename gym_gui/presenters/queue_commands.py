"""What is changed about work that waits or is still to come: priority, and seeds to add."""

from functools import partial

from gym_gui.actions import rules
from gym_gui.actions.action import Action, Context
from gym_gui.panels.dialogs import Dialogs
from gym_gui.services import Services
from mosaic.client import TrainerClient
from mosaic.client.experiments import add_seeds
from mosaic.experiments.summary import experiment_of
from mosaic.presenting import run_status
from mosaic.records import RunRecord

_LARGEST_PRIORITY = 1_000_000
_MOST_SEEDS = 1000


class QueueCommands:
    """Acts on the selected runs, and on the experiment that they belong to.

    Args:
        services: The window's shared parts, the selection among them.
        dialogs: Asks for numbers.
    """

    def __init__(self, services: Services, dialogs: Dialogs) -> None:
        self._services = services
        self._dialogs = dialogs

    def actions(self) -> tuple[Action, ...]:
        """The two of them, in the Run menu."""
        return (
            Action(
                id="run.priority",
                title="Priority …",
                do=self._ask_priority,
                menu="Run",
                icon="clock",
                enabled=rules.any_run(run_status.can_cancel),
            ),
            Action(
                id="run.add_seeds",
                title="Add seeds to the experiment …",
                do=self._ask_seeds,
                menu="Run",
                icon="plus",
                enabled=_one_experiment,
            ),
        )

    def _ask_priority(self) -> None:
        runs = [run for run in self._services.selected_runs() if run_status.can_cancel(run)]
        self._dialogs.ask_number(
            "Priority",
            "Waiting runs with a higher number start first.",
            (-_LARGEST_PRIORITY, 0, _LARGEST_PRIORITY),
            lambda priority: self._set_priority(runs, priority),
        )

    def _set_priority(self, runs: list[RunRecord], priority: int) -> None:
        for run in runs:
            self._services.link_of(run.run_id).ask(
                partial(_with_priority, run_id=run.run_id, priority=priority),
                self._services.store.put,
                lambda error: self._services.notices.error("The priority was not changed", error),
            )

    def _ask_seeds(self) -> None:
        run = self._services.selected_runs()[0]
        _, name = experiment_of(run.tags) or ("", "")
        self._dialogs.ask_number(
            "Add seeds",
            f"Train every configuration of {name} with so many seeds more:",
            (1, 5, _MOST_SEEDS),
            lambda count: self._add_seeds(run, name, count),
        )

    def _add_seeds(self, run: RunRecord, name: str, count: int) -> None:
        notices = self._services.notices
        self._services.link_of(run.run_id).ask(
            lambda client: add_seeds(client, name, count),
            lambda added: notices.info(f"{name}: {len(added)} runs submitted"),
            lambda error: notices.error("No seeds were added", error),
        )


def _one_experiment(context: Context) -> bool:
    """Everything that is selected belongs to one experiment, whose daemon answers."""
    found = {experiment_of(run.tags) for run in context.selected}
    mark = found.pop() if len(found) == 1 else None
    return mark is not None and mark[0] == "experiment" and context.reaches(context.selected[0])


def _with_priority(client: TrainerClient, run_id: str, priority: int) -> RunRecord:
    return client.update(run_id, priority=priority)
