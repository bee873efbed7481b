"""The failure page: one sentence, the command, the last words, and what to do about it."""

from qtpy.QtGui import QFontDatabase, QGuiApplication
from qtpy.QtWidgets import QPlainTextEdit

from gym_gui.background.run_reading import read_failure
from gym_gui.models.failure import Failure
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label, selectable
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.messages import Banner
from gym_gui.widgets.qt_types import sure
from mosaic.presenting import formatting
from mosaic.presenting.run_status import one_line, status_of, title_of
from mosaic.records import RunRecord


class FailureTab(RunTab):
    """Why the run ended badly."""

    title = "What went wrong"
    icon = "warning"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._full_command = self._exit_text = ""
        self.reason = Banner("danger")
        self.cause = selectable(label("", "headline", wrap=True))
        self.cause.hide()
        self._hint = label("", "muted", wrap=True)
        self.command = selectable(label("", "code", wrap=True))
        self.lines = QPlainTextEdit()
        self.lines.setReadOnly(True)
        self.lines.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.lines.setAccessibleName("Last lines of the log")
        self.lines.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._changes = selectable(label("", wrap=True))
        self._changes_title = label("Changed since the last run that worked", "section")
        actions = row(
            button("Retry", lambda: self.action_wanted.emit("run.retry"), "primary"),
            button("Edit and run again", lambda: self.action_wanted.emit("run.clone")),
            button("All logs", lambda: self.action_wanted.emit("analyse.logs")),
            button("Open folder", lambda: self.action_wanted.emit("run.open_folder")),
            button("Support bundle …", lambda: self.action_wanted.emit("run.bundle")),
            1,
        )
        self.setLayout(
            column(
                self.reason,
                self.cause,
                self._hint,
                actions,
                row(label("Command", "section"), 1, button("Copy", self._copy)),
                self.command,
                label("Last lines", "section"),
                self.lines,
                self._changes_title,
                self._changes,
                margin=12,
                stretch={7: 1},
            )
        )

    def on_other_run(self) -> None:
        self._exit_text = ""
        self.cause.hide()
        self.command.clear()
        self.lines.clear()

    def on_open(self) -> None:
        run = self.run
        if run is None:
            return
        run_id, good = self.run_id, self._last_good(run)

        def show(failure: Failure) -> None:
            if run_id == self.run_id:
                self._show(failure)

        self.link.ask(
            lambda client: read_failure(client, run_id, good),
            show,
            lambda error: self.lines.setPlainText(f"The run's files could not be read: {error}"),
        )

    def on_news(self) -> None:
        if self.run is not None:
            words = formatting.tilde(one_line(self.run)) or "No reason was recorded."
            self.reason.say("danger", f"{status_of(self.run).label}: {words}")
            self._say_hint()

    def _say_hint(self) -> None:
        """What the worker advises; without that, how the process ended."""
        reason = (self.run.reason or "") if self.run else ""
        hint = "\n".join(reason.splitlines()[1:])
        if not hint and self._exit_text and "exit code" not in reason:
            hint = f"The process ended with {self._exit_text}."
        self._hint.setText(formatting.tilde(hint))
        self._hint.setVisible(bool(hint))

    def _last_good(self, failed: RunRecord) -> str:
        """The newest run that completed and did the same; empty when none did.

        The same algorithm at least: compared with any other run, everything has changed.
        """
        known = self.services.store.runs.values()
        kind = (failed.worker, failed.algo, failed.mode)
        same = [run for run in known if run.completed and (run.worker, run.algo, run.mode) == kind]
        # The packages of another machine are others whether that matters or not.
        same = [run for run in same if self.services.link_of(run.run_id) is self.link]
        newest = max(
            same, key=lambda run: (run.env_id == failed.env_id, run.created_at), default=None
        )
        name = f" ({title_of(newest)})" if newest else ""
        self._changes_title.setText(f"Changed since the last such run that worked{name}")
        return newest.run_id if newest else ""

    def _show(self, failure: Failure) -> None:
        self.cause.setText(formatting.tilde(failure.cause))
        self.cause.setVisible(bool(failure.cause))
        self._full_command = failure.command
        self.command.setText(formatting.tilde(failure.command) or "The worker was never started.")
        words = formatting.tilde(failure.last_lines)
        self.lines.setPlainText(words or "The run wrote nothing to its logs.")
        bar = sure(self.lines.verticalScrollBar())
        bar.setValue(bar.maximum())
        self._exit_text = failure.exit_text
        self._say_hint()
        self._changes.setText("\n".join(failure.changes[:12]))
        self._changes.setVisible(bool(failure.changes))
        self._changes_title.setVisible(bool(failure.changes))

    def _copy(self) -> None:
        sure(QGuiApplication.clipboard()).setText(self._full_command)
        self.services.notices.info("Command copied")
