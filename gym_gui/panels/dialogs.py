"""Dialogs: few, never waiting, each about one thing."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from qtpy.QtCore import Qt
from qtpy.QtGui import QKeySequence
from qtpy.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QGridLayout,
    QLineEdit,
    QMessageBox,
    QPlainTextEdit,
    QWidget,
)

from gym_gui.actions.action import Action
from gym_gui.actions.binding import MENUS
from gym_gui.background.support_bundle import write_bundle
from gym_gui.forms.base import form_layout
from gym_gui.models.window_settings import WindowSettings
from gym_gui.panels.column_dialog import ColumnDialog
from gym_gui.panels.settings_dialog import SettingsDialog
from gym_gui.panels.trash_dialog import TrashDialog
from gym_gui.presenters.run_archives import ENDING, RunArchives, proposed_name
from gym_gui.services import Services
from gym_gui.widgets.controls import ask_name, ask_number
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row, scrolled
from gym_gui.widgets.run_table_view import RunTableView
from mosaic import __version__
from mosaic.config.paths import project_root
from mosaic.config.settings import Settings, load_settings
from mosaic.presenting import formatting
from mosaic.presenting.formatting import split_tags
from mosaic.presenting.run_status import can_cancel, can_delete, title_of
from mosaic.records import RunRecord

Cancel = Callable[[Iterable[RunRecord]], None]
Update = Callable[..., None]
_PAGE, _WITH_PDF = "Page (*.html)", "Page and PDF (*.html)"


class Dialogs:
    """Opens the window's dialogs; each lives until it is closed."""

    def __init__(self, window: QWidget, services: Services) -> None:
        self._window = window
        self._services = services

    def confirm_cancel(self, runs: Iterable[RunRecord], cancel: Cancel) -> None:
        """Ask before work is thrown away, and say how much."""
        chosen = [run for run in runs if can_cancel(run)]
        started = [run for run in chosen if run.started_at]
        if not started:
            cancel(chosen)
            return
        longest = max(time.time() - (run.started_at or 0.0) for run in started)
        what = title_of(started[0]) if len(started) == 1 else f"{len(started)} runs"
        box = QMessageBox(
            QMessageBox.Icon.Question,
            "Cancel",
            f"Stop {what} after {formatting.duration(longest)} of training?",
            QMessageBox.StandardButton.NoButton,
            self._window,
        )
        box.setInformativeText(
            "Workers that support it save a checkpoint first, so that you can continue later."
        )
        stop = box.addButton("Stop", QMessageBox.ButtonRole.DestructiveRole)
        keep = box.addButton("Keep running", QMessageBox.ButtonRole.RejectRole)
        # Said, not left to the platform: a careless Return or Escape throws nothing away.
        box.setDefaultButton(keep)
        box.setEscapeButton(keep)
        box.buttonClicked.connect(lambda pressed: cancel(chosen) if pressed is stop else None)
        _open(box)

    def choose_config(self, load: Callable[[Path], None]) -> None:
        """Pick a config file to load into the form."""
        dialog = QFileDialog(self._window, "Open a config", "", "Configs (*.json);;All files (*)")
        dialog.fileSelected.connect(lambda path: load(Path(path)))
        _open(dialog)

    def edit_run(self, run: RunRecord, update: Update) -> None:
        """Change name, tags and notes."""
        dialog = QDialog(self._window)
        dialog.setWindowTitle("Name, tags and notes")
        name = QLineEdit(run.run_name)
        tags = QLineEdit(", ".join(run.tags))
        tags.setPlaceholderText("baseline, paper")
        notes = QPlainTextEdit(run.notes or "")
        # In a form the Tab key moves on; a tab character in a note helps no one.
        notes.setTabChangesFocus(True)
        form = form_layout()
        form.addRow("Name", name)
        form.addRow("Tags", tags)
        form.addRow("Notes", notes)

        def store() -> None:
            update(
                run.run_id,
                run_name=name.text().strip(),
                notes=notes.toPlainText().strip(),
                tags=split_tags(tags.text()),
            )
            dialog.accept()

        buttons = _ok_cancel(dialog, store)
        dialog.setLayout(column(form, buttons, margin=16))
        dialog.resize(460, 320)
        _open(dialog)

    def choose_columns(self, table: RunTableView) -> None:
        """Which columns the run table has."""
        _open(ColumnDialog(self._window, self._services, table))

    def export_table(self, csv_text: Callable[[], Callable[[], str]]) -> None:
        """Write the runs that are shown, with the columns that are shown, into a file.

        Args:
            csv_text: Asked on this thread for what makes the text, which may take a while.
        """
        services = self._services
        dialog = QFileDialog(self._window, "Export the table", "runs.csv", "Tables (*.csv)")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)

        def write(chosen: str) -> None:
            path, make = Path(chosen), csv_text()
            services.calls.run(
                lambda: path.write_text(make(), encoding="utf-8", newline=""),
                lambda _size: services.notices.info(f"Table written to {path.name}"),
                lambda error: services.notices.error("The table was not written", error),
            )

        dialog.fileSelected.connect(write)
        _open(dialog)

    def export_runs(self, runs: Iterable[RunRecord], archives: RunArchives) -> None:
        """Write ended runs into one file that another home can import."""
        chosen = [run for run in runs if can_delete(run)]
        dialog = QFileDialog(
            self._window, "Export runs", proposed_name(chosen), f"Runs (*{ENDING})"
        )
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.fileSelected.connect(lambda path: archives.export(chosen, Path(path)))
        _open(dialog)

    def import_runs(self, archives: RunArchives) -> None:
        """Import a file of runs."""
        dialog = QFileDialog(self._window, "Import runs", "", f"Runs (*{ENDING});;All files (*)")
        dialog.fileSelected.connect(lambda path: archives.take_in(Path(path)))
        _open(dialog)

    def save_report(self, proposed: str, write: Callable[[Path, bool], None]) -> None:
        """Ask for the page of a report, and whether it is wanted as PDF too."""
        dialog = QFileDialog(self._window, "Write a report", proposed, f"{_PAGE};;{_WITH_PDF}")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("html")
        dialog.fileSelected.connect(
            lambda path: write(Path(path), dialog.selectedNameFilter() == _WITH_PDF)
        )
        _open(dialog)

    def save_as(self, title: str, proposed: str, kind: str, then: Callable[[Path], None]) -> None:
        """Ask where something is written.

        Args:
            title: The dialog's title.
            proposed: The name it could have.
            kind: The filter, such as `Pages (*.html)`.
            then: Gets the path; an existing file has been asked about.
        """
        dialog = QFileDialog(self._window, title, proposed, kind)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(Path(proposed).suffix.removeprefix("."))
        dialog.fileSelected.connect(lambda path: then(Path(path)))
        _open(dialog)

    def ask_text(self, title: str, text: str, proposed: str, then: Callable[[str], None]) -> None:
        """Ask for a name."""
        ask_name(self._window, title, text, proposed, then)

    def ask_number(
        self, title: str, text: str, numbers: tuple[int, int, int], then: Callable[[int], None]
    ) -> None:
        """Ask for a whole number: the smallest, the proposed and the largest are given."""
        ask_number(self._window, title, text, numbers, then)

    def show_trash(self) -> None:
        """Deleted runs, to be restored."""
        _open(TrashDialog(self._window, self._services))

    def save_bundle(self, run: RunRecord | None) -> None:
        """Write what a maintainer needs to help, without secrets."""
        if run is None:
            return
        services = self._services
        dialog = QFileDialog(
            self._window, "Save support bundle", f"mosaic-{run.run_id}.zip", "*.zip"
        )
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.fileSelected.connect(
            lambda path: services.link_of(run.run_id).ask(
                lambda client: write_bundle(client, run.run_id, Path(path)),
                lambda count: services.notices.info(f"Support bundle with {count} files written"),
                lambda error: services.notices.error("The bundle was not written", error),
            )
        )
        _open(dialog)

    def show_shortcuts(self, actions: Iterable[Action]) -> None:
        """The shortcut sheet."""
        dialog = QDialog(self._window)
        dialog.setWindowTitle("Keyboard shortcuts")
        columns, lengths, every = [], [], tuple(actions)
        for menu in MENUS:
            keyed = [action for action in every if action.menu == menu and action.shortcut]
            if keyed:
                columns.append(_shortcut_group(menu, [(a.title, a.shortcut) for a in keyed]))
                lengths.append(len(keyed) + 1)
        columns.append(
            _shortcut_group(
                "In the run table",
                [("Open the run", "Return"), ("Edit the cell", "F2"), ("Sort", "click a header")],
            )
        )
        total = sum(lengths)
        half = min(range(len(lengths)), key=lambda n: abs(total - 2 * sum(lengths[:n])))
        host = QWidget()
        host.setLayout(
            row(column(*columns[:half], 1), column(*columns[half:], 1), margin=16, spacing=28)
        )
        sheet = scrolled(host)
        # It has nothing to press; with the focus it scrolls by key, and Escape has somewhere to go.
        sheet.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        dialog.setLayout(column(sheet))
        dialog.resize(760, 700)
        _open(dialog)
        sheet.setFocus()

    def show_about(self) -> None:
        """The version, and where everything is."""
        link = self._services.link
        where = str(link.home.root) if link.local else f"the home of {link.title}"
        box = QMessageBox(
            QMessageBox.Icon.Information,
            "About MOSAIC",
            f"MOSAIC {__version__}",
            QMessageBox.StandardButton.Close,
            self._window,
        )
        box.setInformativeText(
            f"Runs are stored in {formatting.tilde(where)}.\n"
            f"The guides are in {formatting.tilde(str(project_root() / 'docs'))}."
        )
        _open(box)

    def show_settings(self, apply: Callable[[WindowSettings], None]) -> None:
        """Settings of the window and of the daemon."""

        def show(daemon: Settings | None, problem: str = "") -> None:
            dialog = SettingsDialog(self._window, self._services, daemon, problem)
            dialog.window_changed.connect(apply)
            _open(dialog)

        link = self._services.link
        if link.local:
            self._services.calls.run(
                lambda: load_settings(link.home), show, lambda error: show(None, str(error))
            )
        else:
            show(None, "The settings of a daemon elsewhere are changed where it runs.")


def _open(dialog: QDialog) -> None:
    # Opened and not executed: an event loop of its own would stop everything around it.
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.open()


def _ok_cancel(dialog: QDialog, accept: Callable[[], None]) -> QDialogButtonBox:
    standard = QDialogButtonBox.StandardButton
    buttons = QDialogButtonBox(standard.Ok | standard.Cancel)
    buttons.accepted.connect(accept)
    buttons.rejected.connect(dialog.reject)
    return buttons


def _shortcut_group(title: str, items: list[tuple[str, str]]) -> QWidget:
    grid = QGridLayout()
    grid.setHorizontalSpacing(24)
    grid.setColumnStretch(0, 1)
    for place, (text, key) in enumerate(items):
        shown = QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText) or key
        grid.addWidget(label(text), place, 0)
        grid.addWidget(label(shown, "muted"), place, 1)
    host = QWidget()
    host.setLayout(column(label(title, "section"), grid, spacing=6))
    return host
