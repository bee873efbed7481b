"""How settings are declared, and how what a person wrote is checked against the declaration.

A settings class is a frozen dataclass whose fields are made with `setting`. Pydantic could do the
same, but importing it and building its models was a quarter of each start of the daemon, which
needs nothing else of it before the first run is submitted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from mosaic.config.values import convert, kinds_of, noun

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_DECLARATION = "setting"
_T = TypeVar("_T")
Check = Callable[[str], object]


@dataclass(frozen=True)
class Declaration:
    """What a form shows of a setting, and what it may be.

    Attributes:
        title: Its name for people.
        description: What it means, in a few words.
        least: The smallest value allowed.
        above: What every value is greater than.
        most: The largest value allowed.
        choices: The only texts allowed; none: any.
        check: Raises `ValueError` for a text that does not fit.
    """

    title: str = ""
    description: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    choices: Sequence[str] = ()
    check: Check | None = None

    def problem(self, value: object) -> str:
        """What is wrong with a value of the right type; empty when it is allowed."""
        if isinstance(value, int | float):
            if self.least is not None and value < self.least:
                return f"must be at least {self.least:g}"
            if self.above is not None and value <= self.above:
                return f"must be greater than {self.above:g}"
            if self.most is not None and value > self.most:
                return f"must be at most {self.most:g}"
        if self.choices and value not in self.choices:
            return f"must be one of {', '.join(self.choices)}"
        if self.check is not None:
            try:
                self.check(str(value))
            except ValueError as error:
                return str(error)
        return ""


@dataclass(frozen=True)
class SettingField:
    """One setting of a class: its name, its type such as `int | None`, and its declaration."""

    name: str
    kind: str
    shown: Declaration

    @property
    def optional(self) -> bool:
        """Whether it may have no value."""
        return "None" in kinds_of(self.kind)


@dataclass(frozen=True)
class Misfit:
    """A value that does not fit its setting."""

    name: str
    value: object
    why: str


def setting(
    default: _T,
    title: str,
    description: str = "",
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    choices: Sequence[str] = (),
    check: Check | None = None,
) -> _T:
    """A field of a settings class; see `Declaration`."""
    declared = Declaration(title, description, least, above, most, choices, check)
    made: _T = field(default=default, metadata={_DECLARATION: declared})
    return made


def settings_of(kind: type) -> dict[str, SettingField]:
    """The settings of a class by name, in order."""
    hints = get_type_hints(kind)
    return {
        item.name: SettingField(item.name, _kind(hints[item.name]), _declared(item))
        for item in fields(kind)
    }


def fit(kind: type, given: Mapping[str, object]) -> tuple[dict[str, Any], list[Misfit]]:
    """Values as a class declares them, and those that do not fit.

    Texts are read with the declared type, because forms and the environment have nothing else.
    A name that the class does not have is not looked at.
    """
    values: dict[str, Any] = {}
    wrong: list[Misfit] = []
    for name, known in settings_of(kind).items():
        if name not in given:
            continue
        value = given[name]
        try:
            values[name] = _typed(value, known)
            why = known.shown.problem(values[name])
        except ValueError:
            why = f"must be {noun(known.kind)}{' or null' if known.optional else ''}"
        if why:
            wrong.append(Misfit(name, value, why))
    return values, wrong


def changed(settings: "DataclassInstance") -> dict[str, object]:
    """The settings that are not at their default."""
    values = ((item, getattr(settings, item.name)) for item in fields(settings))
    return {item.name: value for item, value in values if value != item.default}


def _declared(item: "Field[object]") -> Declaration:
    declared = item.metadata.get(_DECLARATION, Declaration())
    assert isinstance(declared, Declaration)
    return declared


def _kind(hint: object) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _typed(value: object, known: SettingField) -> object:
    if value is None and known.optional:
        return None
    match kinds_of(known.kind)[0]:
        case "str":
            fits = isinstance(value, str)
        case _ if isinstance(value, str):
            # "none" is no value of the environment: its word for that is "null".
            return convert(value, kinds_of(known.kind)[0])
        case "bool":
            fits = isinstance(value, bool)
        case "int":
            fits = isinstance(value, int) and not isinstance(value, bool)
        case _:
            fits = isinstance(value, int | float) and not isinstance(value, bool)
            value = float(value) if isinstance(value, int) and fits else value
    if not fits:
        raise ValueError(value)
    return value
