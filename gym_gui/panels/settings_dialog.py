"""Settings, made from their declarations: the window's own, and the daemon's."""

from typing import Generic, TypeVar

from qtpy.QtCore import Signal
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QLineEdit,
    QTabWidget,
    QWidget,
)

from gym_gui.forms.base import form_layout
from gym_gui.models.window_settings import WindowSettings, save_window_settings
from gym_gui.services import Services
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, scrolled
from gym_gui.widgets.messages import Banner
from mosaic.config.declaring import SettingField, fit, settings_of
from mosaic.config.settings import Settings, save_settings

_S = TypeVar("_S", Settings, WindowSettings)


class SettingsPage(QWidget, Generic[_S]):
    """One settings class as a form."""

    def __init__(self, current: _S) -> None:
        super().__init__()
        self._kind: type[_S] = type(current)
        self._editors: dict[str, QWidget] = {}
        form = form_layout()
        for name, known in settings_of(self._kind).items():
            if name == "schema_version":
                continue
            editor = _editor(known, getattr(current, name))
            editor.setAccessibleName(known.shown.title)
            self._editors[name] = editor
            text = known.shown.description
            below = column(editor, label(text, "muted", wrap=True), spacing=2) if text else editor
            form.addRow(known.shown.title, below)
        host = QWidget()
        host.setLayout(column(form, 1, margin=14))
        self.setLayout(column(scrolled(host)))

    def read(self) -> tuple[_S, list[str]]:
        """The settings as edited, and what is wrong with them."""
        texts = {name: _read(editor) for name, editor in self._editors.items()}
        values, wrong = fit(self._kind, texts)
        titles = settings_of(self._kind)
        problems = [f"{titles[item.name].shown.title}: {item.why}" for item in wrong]
        return self._kind(**values), problems


class SettingsDialog(QDialog):
    """The window's page, and the daemon's where its home is at hand.

    Args:
        parent: The window.
        services: Its shared parts.
        daemon: The daemon's settings as stored.
        problem: Why there are none.

    Signals:
        window_changed: The window's settings are others.
    """

    window_changed = Signal(object)

    def __init__(
        self, parent: QWidget, services: Services, daemon: Settings | None, problem: str
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Settings")
        self._services = services
        self._window_page = SettingsPage(services.settings)
        self._banner = Banner()
        self._tabs = QTabWidget()
        self._tabs.addTab(self._window_page, "Window")
        self._daemon_page: SettingsPage[Settings] | None = None
        if daemon is not None:
            self._daemon_page = SettingsPage(daemon)
            self._tabs.addTab(self._daemon_page, "Trainer daemon")
        else:
            self._banner.say("info" if not services.link.local else "danger", problem)
        standard = QDialogButtonBox.StandardButton
        buttons = QDialogButtonBox(standard.Save | standard.Cancel)
        buttons.accepted.connect(self._save)
        buttons.rejected.connect(self.reject)
        note = label("Settings of the daemon take effect when it is started again.", "muted")
        self.setLayout(column(self._banner, self._tabs, note, buttons, margin=12))
        self.resize(620, 620)

    def _save(self) -> None:
        home = self._services.link.home
        settings, problems = self._window_page.read()
        daemon: Settings | None = None
        if self._daemon_page is not None:
            daemon, more = self._daemon_page.read()
            problems += more
        if problems:
            self._banner.say("danger", "\n".join(problems))
            return

        def store() -> None:
            save_window_settings(home, settings)
            if daemon is not None:
                save_settings(home, daemon)

        failed = self._services.notices.error
        self._services.calls.run(store, None, lambda e: failed("Settings not stored", e))
        self.window_changed.emit(settings)
        self.accept()


def _editor(known: SettingField, value: object) -> QWidget:
    if known.shown.choices:
        combo = QComboBox()
        combo.addItems(known.shown.choices)
        combo.setCurrentText(str(value))
        return combo
    if known.kind == "bool":
        box = QCheckBox()
        box.setChecked(bool(value))
        return box
    line = QLineEdit(
        "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    )
    line.setPlaceholderText("none" if known.optional else "")
    return line


def _read(editor: QWidget) -> object:
    if isinstance(editor, QCheckBox):
        return editor.isChecked()
    if isinstance(editor, QComboBox):
        return editor.currentText()
    assert isinstance(editor, QLineEdit)
    text = editor.text().strip()
    # An empty line means "no value" only where the setting allows that, which the hint marks.
    return None if not text and editor.placeholderText() == "none" else text
