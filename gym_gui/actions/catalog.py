"""Every action of the window."""

from __future__ import annotations

from collections.abc import Callable

from gym_gui.actions.action import Action, Context
from gym_gui.models import run_status
from gym_gui.models.run_status import Record


def _connected(context: Context) -> bool:
    return context.connected


def _any_run(rule: Callable[[Record], bool]) -> Callable[[Context], bool]:
    return lambda context: context.connected and any(map(rule, context.selected))


def _one_run(rule: Callable[[Record], bool]) -> Callable[[Context], bool]:
    return lambda context: context.connected and context.one is not None and rule(context.one)


def _has_full_checkpoint(run: Record) -> bool:
    return run_status.newest_checkpoint(run, "full") is not None


def _has_policy(run: Record) -> bool:
    return run_status.newest_checkpoint(run) is not None


def _has_selection(context: Context) -> bool:
    return bool(context.selected)


def _several(context: Context) -> bool:
    return len(context.selected) >= 2


def _has_view(context: Context) -> bool:
    return bool(context.view)


def _can_undo(context: Context) -> bool:
    return context.connected and context.can_undo


_real = run_status.is_real

ACTIONS: tuple[Action, ...] = (
    Action("run.new", "New run", "Run", "Ctrl+N", "plus"),
    Action("run.train_cartpole", "Train CartPole now", "Run", "", "play", _connected),
    Action("run.submit", "Submit the form", "Run", "Ctrl+Return", "play", _connected),
    Action("run.dry_run", "Dry run of the form", "Run", "Ctrl+Shift+D", "check"),
    Action("run.presets", "Use a preset …", "Run", "Ctrl+Shift+L", "book"),
    Action("run.save_preset", "Save the form as preset …", "Run", "", "save"),
    Action("run.copy_command", "Copy the form as command", "Run", "Ctrl+Alt+C", "clone"),
    Action("run.copy_python", "Copy the form as Python", "Run", "", "clone"),
    Action("run.copy_json", "Copy the form as JSON", "Run", "", "clone"),
    Action("run.open_config", "Open a config …", "Run", "Ctrl+O", "folder"),
    Action(
        "run.pause",
        "Pause",
        "Run",
        "Ctrl+Shift+U",
        "pause",
        _any_run(run_status.can_pause),
        False,
        True,
    ),
    Action("run.resume", "Resume", "Run", "Ctrl+U", "play", _any_run(run_status.can_resume)),
    Action("run.cancel", "Cancel …", "Run", "Ctrl+K", "stop", _any_run(run_status.can_cancel)),
    Action(
        "run.clone", "Clone into the form", "Run", "Ctrl+D", "clone", _one_run(_real), False, True
    ),
    Action("run.retry", "Run again", "Run", "Ctrl+R", "retry", _any_run(run_status.can_delete)),
    Action(
        "run.continue",
        "Continue training …",
        "Run",
        "Ctrl+Shift+R",
        "forward",
        _one_run(_has_full_checkpoint),
    ),
    Action("run.evaluate", "Evaluate …", "Run", "Ctrl+E", "flag", _one_run(_has_policy)),
    Action("run.tags", "Edit tags and notes …", "Run", "F2", "tag", _one_run(_real), False, True),
    Action("run.pin", "Pin as baseline", "Run", "Ctrl+B", "pin", _one_run(_real)),
    Action("run.copy_id", "Copy run id", "Run", "Ctrl+Shift+C", "clone", _has_selection),
    Action("run.open_folder", "Open folder", "Run", "Ctrl+Shift+F", "folder", _one_run(_real)),
    Action(
        "run.export", "Export …", "Run", "Ctrl+Shift+X", "save", _any_run(run_status.can_delete)
    ),
    Action("run.import", "Import runs …", "Run", "Ctrl+Shift+O", "folder", _connected),
    Action("run.bundle", "Save support bundle …", "Run", "", "save", _one_run(_real)),
    Action("run.delete", "Move to trash", "Run", "Del", "trash", _any_run(run_status.can_delete)),
    Action("run.undo_delete", "Undo delete", "Run", "Ctrl+Z", "undo", _can_undo),
    Action("view.train", "Layout: Train", "View", "Ctrl+1", "layout", checkable=True),
    Action("view.watch", "Layout: Watch", "View", "Ctrl+2", "eye", checkable=True),
    Action("view.analyse", "Layout: Analyse", "View", "Ctrl+3", "chart", checkable=True),
    Action("view.play", "Layout: Play", "View", "Ctrl+4", "gamepad", checkable=True),
    Action("view.lock", "Lock panels", "View", "", "lock", checkable=True, separated=True),
    Action("view.reset", "Reset this layout", "View", "", "layout"),
    Action("view.theme", "Switch light / dark", "View", "Ctrl+Shift+T", "sun"),
    Action("view.larger", "Larger text", "View", "Ctrl++", "plus"),
    Action("view.smaller", "Smaller text", "View", "Ctrl+-", ""),
    Action("view.notices", "Show notifications", "View", "Ctrl+Shift+N", "bell", separated=True),
    Action(
        "analyse.compare", "Compare selected runs", "Analyse", "Ctrl+M", "compare", _has_selection
    ),
    Action(
        "analyse.diff", "Difference of two configs", "Analyse", "Ctrl+Shift+M", "clone", _several
    ),
    Action("analyse.logs", "Logs of the run", "Analyse", "Ctrl+L", "log", _one_run(_real)),
    Action(
        "analyse.tensorboard",
        "TensorBoard of the run",
        "Analyse",
        "Ctrl+T",
        "chart",
        _one_run(_real),
    ),
    Action("runs.filter", "Filter runs", "Analyse", "Ctrl+F", "search", separated=True),
    Action("runs.group", "Group by seed", "Analyse", "Ctrl+G", "layout", checkable=True),
    Action("runs.columns", "Choose columns …", "Analyse", "Ctrl+Shift+K", "layout"),
    Action("runs.views", "Saved views …", "Analyse", "Ctrl+Shift+V", "eye"),
    Action("runs.save_view", "Save this view …", "Analyse", "Ctrl+Shift+S", "save"),
    Action("runs.delete_view", "Delete the view in use", "Analyse", "", "trash", _has_view),
    Action("runs.export_csv", "Export the table as CSV …", "Analyse", "Ctrl+Shift+E", "save"),
    Action("play.start", "Play an environment", "Play", "Ctrl+Shift+G", "gamepad"),
    Action("daemon.start", "Start the trainer daemon", "Daemon", "", "play"),
    Action("daemon.stop", "Stop the daemon, leave runs alone", "Daemon", "", "stop", _connected),
    Action("app.palette", "Command palette", "Help", "Ctrl+Shift+P", "search"),
    Action("app.find", "Go to a run or environment", "Help", "Ctrl+P", "search"),
    Action("app.shortcuts", "Keyboard shortcuts", "Help", "?", "info"),
    Action("app.welcome", "First steps", "Help", "", "book"),
    Action("app.settings", "Settings …", "Help", "Ctrl+,", "gear", separated=True),
    Action("app.quit", "Close the window", "Help", "Ctrl+Q", "cross"),
)
MENUS = ("Run", "View", "Analyse", "Play", "Daemon", "Help")
BY_ID = {action.id: action for action in ACTIONS}
