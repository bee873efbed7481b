"""When an action makes sense: rules that actions share."""

from collections.abc import Callable

from gym_gui.actions.action import Context
from gym_gui.models import run_status
from gym_gui.models.run_status import Record

Rule = Callable[[Context], bool]


def connected(context: Context) -> bool:
    """The daemon answers."""
    return context.connected


def any_run(fits: Callable[[Record], bool]) -> Rule:
    """At least one selected run fits."""
    return lambda context: context.connected and any(map(fits, context.selected))


def one_run(fits: Callable[[Record], bool]) -> Rule:
    """Exactly one run is selected, and it fits."""
    return lambda context: context.connected and context.one is not None and fits(context.one)


def has_full_checkpoint(run: Record) -> bool:
    """Training can continue from the run."""
    return run_status.newest_checkpoint(run, "full") is not None


def has_policy(run: Record) -> bool:
    """The run has a checkpoint that can act."""
    return run_status.newest_checkpoint(run) is not None


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
