"""What all forms have in common."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QFormLayout, QLabel, QLineEdit, QWidget

from gym_gui.models.actors import Actor
from gym_gui.models.stored import texts
from gym_gui.widgets.controls import restyle
from gym_gui.widgets.labels import label
from mosaic.errors import Problem

# The name that the design documents give to a refusal in the window; people search for it.
INVALID_CONFIG = "LOG_UI_MAINWINDOW_INVALID_CONFIG"
T = TypeVar("T")
_SCALES = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}


class WorkerForm(QWidget):
    """A form that makes runs.

    Signals:
        submitted: A list of `Launch`: what was asked for, together.
        edited: Something was changed; the content should be kept.
    """

    submitted = Signal(list)
    edited = Signal()

    def set_actor(self, actor: Actor) -> None:
        """Make runs of this worker."""
        raise NotImplementedError

    def submit(self) -> None:
        """Send what is in the form, unless something is wrong with it."""
        raise NotImplementedError

    def dry_run(self) -> None:
        """Check what is in the form, as far as this form can."""

    def show_refusal(self, problems: list[Problem]) -> None:
        """The daemon refused; show why, beside the fields where that is possible."""

    def content(self) -> dict[str, object]:
        """What is in the form, for keeping; never a secret."""
        return {}

    def restore(self, content: Mapping[str, object]) -> None:
        """Put back what `content` gave."""


def refusal(lines: Iterable[object]) -> str:
    """A run's refusal as forms show it, with a line for each problem."""
    return "\n".join((f"This run was refused [{INVALID_CONFIG}]:", *map(str, lines)))


def texts_of(*lines: QLineEdit) -> dict[str, str]:
    """What is typed into lines, right or wrong, by their names."""
    return {line.accessibleName(): line.text() for line in lines}


def type_texts(stored: object, *lines: QLineEdit) -> None:
    """Put back what `texts_of` gave; lines it does not know stay as they are."""
    known = texts(stored)
    for line in lines:
        if line.accessibleName() in known:
            line.setText(known[line.accessibleName()])


def _number(text: str) -> float:
    """What people write for a number: 30000, 3e4, 30k, 1.5M.

    Raises:
        ValueError: It is none.
    """
    scale = _SCALES.get(text[-1:], 1)
    return float(text[:-1] if scale > 1 else text) * scale


def form_layout() -> QFormLayout:
    """A form layout whose fields take the whole width."""
    layout = QFormLayout()
    layout.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    layout.setHorizontalSpacing(12)
    layout.setVerticalSpacing(7)
    layout.setContentsMargins(0, 0, 0, 0)
    return layout


class NumberLine(QLineEdit):
    """A line for one number, checked while typing.

    An empty line is None when that is allowed.
    """

    def __init__(
        self,
        name: str,
        value: float | None = None,
        low: float = 1,
        high: float = 2**53,
        whole: bool = True,
        optional: bool = False,
        placeholder: str = "",
    ) -> None:
        super().__init__("" if value is None else f"{value:g}" if not whole else str(int(value)))
        self._name, self._low, self._high = name, low, high
        self._whole, self._optional = whole, optional
        self.setPlaceholderText(placeholder)
        self.setAccessibleName(name)
        self.error: QLabel = label("", "error", wrap=True)
        self.error.hide()
        self.textChanged.connect(self._check)

    @property
    def problem(self) -> str:
        """What is wrong with it; empty when nothing is."""
        try:
            self.value()
        except ValueError as error:
            return f"{self._name} {error}"
        return ""

    def value(self) -> float | int | None:
        """The number.

        Raises:
            ValueError: What was typed is none, or out of range.
        """
        text = self.text().strip().replace("_", "").replace(",", "")
        if not text and self._optional:
            return None
        noun = "a whole number" if self._whole else "a number"
        upper = f" to {self._high:,.12g}" if self._high < 2**53 else " up"
        allowed = f"must be {noun} from {self._low:g}{upper}"
        try:
            number = _number(text)
        except ValueError:
            raise ValueError(f"{allowed}, not {text!r}") from None
        if not self._low <= number <= self._high or (self._whole and not number.is_integer()):
            raise ValueError(f"{allowed}, not {text}")
        return int(number) if self._whole else number

    def valid(self) -> float | int | None:
        """The number; None while it is wrong or empty."""
        try:
            return self.value()
        except ValueError:
            return None

    def whole(self, otherwise: T) -> int | T:
        """The number as a whole one; something else while it is wrong or empty."""
        value = self.valid()
        return otherwise if value is None else int(value)

    def set_value(self, value: float | None) -> None:
        """Show a number."""
        if value is None:
            self.clear()
        else:
            self.setText(str(int(value)) if self._whole else f"{value:g}")

    def _check(self) -> None:
        problem = self.problem
        restyle(self, "problem", "true" if problem else "false")
        self.error.setText(problem)
        self.error.setVisible(bool(problem))
