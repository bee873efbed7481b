"""One field of a generated form: its editor, its mark when changed, its error while typing."""

from qtpy.QtCore import QObject, Qt, Signal
from qtpy.QtWidgets import QCheckBox, QComboBox, QGridLayout, QLineEdit, QToolButton, QWidget

from gym_gui.models.form_fields import BOOL, CHOICE, Field, FieldError
from gym_gui.widgets.controls import NoWheel, restyle
from gym_gui.widgets.labels import label
from mosaic.config.json_types import JsonValue


class FieldEditor(QObject):
    """The widgets of one field, placed in a shared grid.

    Signals:
        changed: The value, or whether it is valid, is another one.
    """

    changed = Signal()

    def __init__(self, field: Field, basic: bool, parent: QObject) -> None:
        super().__init__(parent)
        self.field = field
        self.basic = basic
        self.problem = ""
        self._mark = label("", "changed")
        self._mark.setMinimumWidth(10)
        self._label = label(field.label)
        tip = f"{field.help}\n\n--{field.name.replace('_', '-')}: {field.allowed}"
        self._label.setToolTip(tip)
        self._error = label("", "error", wrap=True)
        self._error.hide()
        self._reset = QToolButton()
        self._reset.setObjectName("flat")
        self._reset.setText("↺")
        self._reset.setToolTip(f"Reset to {field.show(field.default) or 'nothing'}")
        self._reset.setAccessibleName(f"Reset {field.label}")
        self._reset.clicked.connect(self.reset)
        self.editor = self._make_editor()
        self.editor.setToolTip(tip)
        self.editor.setAccessibleName(field.label)
        self.editor.setAccessibleDescription(field.help)
        self._label.setBuddy(self.editor)
        self._on_edit()

    def place(self, grid: QGridLayout) -> None:
        """Put the widgets below what the grid already has."""
        line = grid.rowCount()
        grid.addWidget(self._mark, line, 0)
        grid.addWidget(self._label, line, 1)
        grid.addWidget(self.editor, line, 2)
        grid.addWidget(self._reset, line, 3)
        grid.addWidget(self._error, line + 1, 1, 1, 3)

    @property
    def stops(self) -> tuple[QWidget, QWidget]:
        """Where the Tab key stops: the editor, then what takes it back."""
        return self.editor, self._reset

    def set_visible(self, visible: bool) -> None:
        """Show or hide the whole line."""
        for widget in (self._mark, self._label, self.editor, self._reset):
            widget.setVisible(visible)
        self._error.setVisible(visible and bool(self.problem))

    @property
    def text(self) -> str:
        """What is in the editor."""
        if isinstance(self.editor, QCheckBox):
            return "true" if self.editor.isChecked() else "false"
        if isinstance(self.editor, QComboBox):
            return str(self.editor.currentText())
        assert isinstance(self.editor, QLineEdit)
        return str(self.editor.text())

    def value(self) -> JsonValue:
        """The value.

        Raises:
            FieldError: What was typed cannot be used.
        """
        return self.field.parse(self.text)

    @property
    def is_changed(self) -> bool:
        """Whether it differs from the script's default."""
        try:
            return bool(self.value() != self.field.default)
        except FieldError:
            return True

    def set_value(self, value: JsonValue) -> None:
        """Show a value."""
        text = self.field.show(value)
        if isinstance(self.editor, QCheckBox):
            self.editor.setChecked(bool(value))
        elif isinstance(self.editor, QComboBox):
            self.editor.setCurrentText(text)
        elif isinstance(self.editor, QLineEdit):
            self.editor.setText(text)
        self._on_edit()

    def reset(self) -> None:
        """Back to the default."""
        self.set_value(self.field.default)

    def fits(self, search: str) -> bool:
        """Whether a search finds this field."""
        wanted = search.lower().replace("_", " ")
        return wanted in self.field.label.lower() or wanted in self.field.help.lower()

    def _make_editor(self) -> QWidget:
        if self.field.kind == BOOL:
            box = QCheckBox()
            box.setChecked(bool(self.field.default))
            box.toggled.connect(self._on_edit)
            return box
        if self.field.kind == CHOICE:
            combo = QComboBox()
            combo.addItems(self.field.choices)
            combo.setCurrentText(self.field.show(self.field.default))
            combo.currentTextChanged.connect(self._on_edit)
            combo.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            combo.installEventFilter(NoWheel(combo))
            return combo
        line = QLineEdit(self.field.show(self.field.default))
        line.setPlaceholderText(self.field.show(self.field.default) or "none")
        line.textChanged.connect(self._on_edit)
        return line

    def _on_edit(self) -> None:
        try:
            self.value()
            self.problem = ""
        except FieldError as error:
            self.problem = f"{self.field.label} {error}"
        restyle(self.editor, "problem", "true" if self.problem else "false")
        self._error.setText(self.problem)
        # A field that the search hides must not leave its error behind.
        self._error.setVisible(bool(self.problem) and self.editor.isVisible())
        self._mark.setText("●" if self.is_changed else "")
        self._mark.setToolTip("Changed from the default" if self.is_changed else "")
        self._reset.setEnabled(self.is_changed)
        self.changed.emit()
