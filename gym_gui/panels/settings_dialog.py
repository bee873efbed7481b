"""Settings, made from their schemas: the window's own, and the daemon's."""

from typing import Any

from pydantic import BaseModel, ValidationError
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
from mosaic.config.settings import Settings, save_settings


class SchemaPage(QWidget):
    """One settings model as a form."""

    def __init__(self, current: BaseModel) -> None:
        super().__init__()
        self._current = current
        self._editors: dict[str, QWidget] = {}
        schema = type(current).model_json_schema()["properties"]
        form = form_layout()
        for name, field in schema.items():
            if name == "schema_version":
                continue
            editor = _editor(field, getattr(current, name))
            editor.setAccessibleName(field.get("title", name))
            self._editors[name] = editor
            text = field.get("description", "")
            below = column(editor, label(text, "muted", wrap=True), spacing=2) if text else editor
            form.addRow(field.get("title", name), below)
        host = QWidget()
        host.setLayout(column(form, 1, margin=14))
        self.setLayout(column(scrolled(host)))

    def value(self) -> BaseModel:
        """The settings as edited.

        Raises:
            ValidationError: Something typed is not allowed.
        """
        texts = {name: _read(editor) for name, editor in self._editors.items()}
        document = {"schema_version": 1, **texts}
        return type(self._current).model_validate(document)


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
        self._window_page = SchemaPage(services.settings)
        self._banner = Banner()
        self._tabs = QTabWidget()
        self._tabs.addTab(self._window_page, "Window")
        self._daemon_page: SchemaPage | None = None
        if daemon is not None:
            self._daemon_page = SchemaPage(daemon)
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
        try:
            settings = self._window_page.value()
            daemon = self._daemon_page.value() if self._daemon_page else None
        except ValidationError as error:
            lines = [f"{'/'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
            self._banner.say("danger", "\n".join(lines))
            return
        assert isinstance(settings, WindowSettings)

        def store() -> None:
            save_window_settings(home, settings)
            if isinstance(daemon, Settings):
                save_settings(home, daemon)

        failed = self._services.notices.error
        self._services.link.calls.run(store, None, lambda e: failed("Settings not stored", e))
        self.window_changed.emit(settings)
        self.accept()


def _editor(field: dict[str, Any], value: object) -> QWidget:
    if field.get("enum"):
        combo = QComboBox()
        combo.addItems(field["enum"])
        combo.setCurrentText(str(value))
        return combo
    if field.get("type") == "boolean":
        box = QCheckBox()
        box.setChecked(bool(value))
        return box
    line = QLineEdit(
        "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    )
    line.setPlaceholderText("none" if "anyOf" in field else "")
    return line


def _read(editor: QWidget) -> object:
    if isinstance(editor, QCheckBox):
        return editor.isChecked()
    if isinstance(editor, QComboBox):
        return editor.currentText()
    assert isinstance(editor, QLineEdit)
    text = editor.text().strip()
    # An empty line means "no value" only where the schema allows that, which the hint marks.
    return None if not text and editor.placeholderText() == "none" else text
