"""When an action makes sense: rules that actions share."""

from collections.abc import Callable

from gym_gui.actions.action import Context
from mosaic.records import RunRecord

Rule = Callable[[Context], bool]


def connected(context: Context) -> bool:
    """The daemon answers."""
    return context.connected


def any_run(fits: Callable[[RunRecord], bool]) -> Rule:
    """At least one selected run fits."""
    return lambda context: any(fits(run) and context.reaches(run) for run in context.selected)


def one_run(fits: Callable[[RunRecord], bool]) -> Rule:
    """Exactly one run is selected, and it fits."""

    def rule(context: Context) -> bool:
        run = context.one
        return run is not None and context.reaches(run) and fits(run)

    return rule


def has_full_checkpoint(run: RunRecord) -> bool:
    """Training can continue from the run."""
    return run.newest_checkpoint("full") is not None


def has_policy(run: RunRecord) -> bool:
    """The run has a checkpoint that can act."""
    return run.newest_checkpoint() is not None


def has_selection(context: Context) -> bool:
    """At least one run is selected."""
    return bool(context.selected)


def several(context: Context) -> bool:
    """At least two runs are selected."""
    return len(context.selected) >= 2


def has_view(context: Context) -> bool:
    """The table shows a saved view."""
    return bool(context.view)


def can_undo(context: Context) -> bool:
    """A run was deleted that can come back."""
    return context.connected and context.can_undo
