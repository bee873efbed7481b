"""Hyperparameters as a searchable list of fields, made from a script's own arguments."""

from collections.abc import Mapping

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QGridLayout, QLineEdit, QWidget

from gym_gui.models.form_fields import FieldError, fields_of
from gym_gui.widgets.field_editor import FieldEditor
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import clear, column, row, tab_chain
from mosaic.config.json_types import JsonValue
from mosaic.config.model import Parameters
from mosaic.workers.facts import AlgorithmFacts

_FEW = 6


class ParameterList(QWidget):
    """The hyperparameters of one algorithm.

    Signals:
        edited: A value changed.
    """

    edited = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._editors: dict[str, FieldEditor] = {}
        self._filling = False
        self._search = QLineEdit()
        self._search.setPlaceholderText("Search parameters")
        self._search.setClearButtonEnabled(True)
        self._search.setAccessibleName("Search parameters")
        self._search.textChanged.connect(self._show_fitting)
        self.advanced = QCheckBox("All parameters")
        self.advanced.setToolTip("Also show the parameters that rarely need a change")
        self.advanced.toggled.connect(self._show_fitting)
        self._summary = label("", "muted")
        self._grid_host = QWidget()
        self._grid = QGridLayout(self._grid_host)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(6)
        self._grid.setVerticalSpacing(5)
        self._grid.setColumnMinimumWidth(0, 14)  # so that a mark moves nothing
        self._grid.setColumnStretch(2, 1)
        top = row(self._search, self.advanced)
        self.setLayout(column(top, self._summary, self._grid_host, 1, spacing=7))

    def show_algorithm(self, description: AlgorithmFacts, first: tuple[str, ...]) -> None:
        """Make the fields of an algorithm; values typed for fields of the same name are kept."""
        kept = self.changed_texts()
        self._filling = True
        clear(self._grid)
        for editor in self._editors.values():
            editor.deleteLater()
        self._editors = {}
        for field, basic in fields_of(description, first):
            editor = FieldEditor(field, basic, self)
            editor.place(self._grid)
            if field.name in kept and isinstance(editor.editor, QLineEdit):
                editor.editor.setText(kept[field.name])
            editor.changed.connect(self._on_edit)
            self._editors[field.name] = editor
        self._filling = False
        tab_chain(*self.tab_stops())
        self._show_fitting()
        self._on_edit()

    def tab_stops(self) -> list[QWidget]:
        """Where the Tab key stops, from top to bottom."""
        stops = [widget for editor in self._editors.values() for widget in editor.stops]
        return [self._search, self.advanced, *stops]

    def changed_texts(self) -> dict[str, str]:
        """What was typed that differs from the defaults."""
        return {name: e.text for name, e in self._editors.items() if e.is_changed}

    def wrong_texts(self) -> dict[str, str]:
        """What was typed that cannot be used."""
        return {name: e.text for name, e in self._editors.items() if e.problem}

    def type_texts(self, texts: Mapping[str, str]) -> None:
        """Type into fields, right or wrong."""
        for name, text in texts.items():
            editor = self._editors.get(name)
            if editor is not None and isinstance(editor.editor, QLineEdit):
                editor.editor.setText(str(text))

    def values(self) -> Parameters:
        """The values that differ from the defaults; invalid ones are left out."""
        found: Parameters = {}
        for name, editor in self._editors.items():
            if editor.is_changed and not editor.problem:
                found[name] = editor.value()
        return found

    def set_values(self, values: Mapping[str, JsonValue]) -> list[str]:
        """Show these values and the defaults for all others; returns names that are not there."""
        self._filling = True
        for editor in self._editors.values():
            editor.reset()
        for name, value in values.items():
            if name in self._editors:
                self._editors[name].set_value(value)
        self._filling = False
        self._on_edit()
        return [name for name in values if name not in self._editors]

    @property
    def problems(self) -> list[str]:
        """What is wrong, one sentence a field."""
        return [editor.problem for editor in self._editors.values() if editor.problem]

    def editor(self, name: str) -> FieldEditor | None:
        """The editor of a parameter."""
        return self._editors.get(name)

    def effective(self, name: str) -> object:
        """The value a parameter will have; None when there is no such one or it is invalid."""
        editor = self._editors.get(name)
        try:
            return editor.value() if editor else None
        except FieldError:
            return None

    def _show_fitting(self) -> None:
        search = self._search.text().strip()
        for editor in self._editors.values():
            basic = editor.basic or self.advanced.isChecked() or editor.is_changed
            editor.set_visible(editor.fits(search) if search else basic)

    def _on_edit(self) -> None:
        if self._filling:
            return
        changed = sum(editor.is_changed for editor in self._editors.values())
        shown = f"{changed} changed from the default" if changed else "All at their defaults"
        count = len(self._editors)
        noun = "parameter" if count == 1 else "parameters"
        self._summary.setText(f"{count} {noun}. {shown}." if count else "Nothing to set here.")
        self._search.setVisible(count > _FEW)
        self.edited.emit()
