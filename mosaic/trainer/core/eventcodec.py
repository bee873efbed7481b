"""Events as plain data and back: the one place that knows what a log line holds.

Reading is as strict as writing. A log may come from another home, an older MOSAIC or a disk that
lost a bit; an event of an unknown kind or with a wrong field is an error that names the field,
instead of a wrong row that is noticed weeks later.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from mosaic.config.json_types import JsonValue
from mosaic.errors import EventError
from mosaic.records.run import Outcome
from mosaic.trainer.core.events import Copied, RunEvent
from mosaic.trainer.core.value import value

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Reader = Callable[[object], object]
# What SQLite and protobuf can hold.
_LARGEST = 2**63
_RECORDED = tuple(outcome for outcome in Outcome if outcome is not Outcome.DAMAGED)


@value
class _Slot:
    """One field of an event: its name in the class and in the log, and how it is read."""

    name: str
    key: str
    read: _Reader
    required: bool


@value
class _Shape:
    """A class as it is stored; `rest` is the field for keys that have no field of their own."""

    make: Callable[..., Any]
    slots: tuple[_Slot, ...]
    keys: frozenset[str]
    rest: str


def encode(event: RunEvent) -> tuple[str, dict[str, JsonValue]]:
    """An event's kind and data, as stored in the log."""
    return event.kind, _plain_fields(event, _SHAPES[event.kind])


def decode(kind: object, data: object) -> RunEvent:
    """The event that a log line holds.

    Raises:
        EventError: There is no such kind, or a field is missing, unknown or of a wrong type.
    """
    if not isinstance(kind, str) or kind not in _SHAPES:
        raise EventError(f"kind: {_shown(kind)} is not an event of this version")
    if not isinstance(data, dict):
        raise EventError(f"data: {_shown(data)} is not an object")
    if kind == "annotated" and data.keys() == {"parent_run_id"}:
        kind = Copied.kind  # how an imported copy was recorded before it had a kind of its own
    event: RunEvent = _read_fields(_SHAPES[kind], data)
    return event


def _read_fields(shape: _Shape, data: Mapping[str, object]) -> Any:
    values: dict[str, object] = {}
    for slot in shape.slots:
        if slot.key in data:
            values[slot.name] = _read(slot.key, data[slot.key], slot.read)
        elif slot.required:
            raise EventError(f"{slot.key}: missing")
    others = data.keys() - shape.keys
    if others and not shape.rest:
        raise EventError(f"{ascii(min(others))[1:-1][:60]}: unknown field")
    for key in others:
        _read(key, key, _text)
    if others:
        values[shape.rest] = {key: _read(key, data[key], _json) for key in data if key in others}
    return shape.make(**values)


def _read(key: str, value: object, read: _Reader) -> object:
    try:
        return read(value)
    except ValueError as error:
        raise EventError(f"{ascii(key)[1:-1][:60]}: {error}") from None


def _plain_fields(item: object, shape: _Shape) -> dict[str, JsonValue]:
    values = ((slot.key, getattr(item, slot.name)) for slot in shape.slots)
    # Unset fields are left out, so a new optional field does not change older kinds of lines. Our
    # own fields come last: a worker's note cannot overwrite them.
    plain = {key: _plain(value) for key, value in values if value is not None}
    return {**getattr(item, shape.rest), **plain} if shape.rest else plain


def _plain(value: Any) -> JsonValue:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    if isinstance(value, Outcome):
        return str(value)
    plain: JsonValue = value
    return plain


# ---------------------------------------------------------------- reading values


def _shown(value: object) -> str:
    # Short and in ASCII: it is shown in terminals, and a damaged log may hold anything.
    return ascii(value)[:60]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is not text")
    try:
        value.encode()  # half of a surrogate pair can be neither stored nor sent
    except UnicodeEncodeError:
        raise ValueError(f"{_shown(value)} is not valid text") from None
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{_shown(value)} is neither true nor false")
    return value


def _whole(value: object) -> int:
    # In Python, True is an int; in a log it is a mistake.
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _LARGEST:
        raise ValueError(f"{_shown(value)} is not a whole number")
    return value


def number(value: object) -> float:
    """A finite number.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{_shown(value)} is not a number")
    if not math.isfinite(value) or abs(value) >= _LARGEST:
        raise ValueError(f"{_shown(value)} is not a finite number")
    return value


def _outcome(value: object) -> Outcome:
    # Damage is found, never recorded: what a log says about itself is no evidence of it.
    for outcome in _RECORDED:
        if value == outcome:
            return outcome
    raise ValueError(f"{_shown(value)} is not an outcome ({', '.join(_RECORDED)})")


def _json(value: object) -> JsonValue:
    """Anything that JSON gave; only text that cannot be stored is refused."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {_text(key): _json(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ValueError(f"{_shown(value)} is not JSON")


def _object(value: object) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} is not an object")
    return {_text(key): _json(item) for key, item in value.items()}


_PLAIN: dict[object, _Reader] = {
    str: _text,
    bool: _flag,
    int: _whole,
    float: number,
    Outcome: _outcome,
}


def _reader(annotation: object) -> _Reader:
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    inner = get_args(annotation)
    if get_origin(annotation) in (Union, UnionType):
        read = _reader(next(kind for kind in inner if kind is not type(None)))
        return lambda value: None if value is None else read(value)
    if get_origin(annotation) is Mapping:
        return _object
    if get_origin(annotation) is tuple:
        return _list_of(_reader(inner[0]))
    assert isinstance(annotation, type), annotation
    shape = _shape(annotation)
    return lambda value: _read_fields(shape, _object(value))


def _list_of(read: _Reader) -> _Reader:
    def read_all(value: object) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise ValueError(f"{_shown(value)} is not a list")
        return tuple(read(item) for item in value)

    return read_all


def _shape(kind: "type[DataclassInstance]") -> _Shape:
    hints = get_type_hints(kind)
    rest = [item.name for item in fields(kind) if item.metadata.get("rest")]
    slots = tuple(_slot(item, hints) for item in fields(kind) if item.name not in rest)
    return _Shape(kind, slots, frozenset(slot.key for slot in slots), "".join(rest))


def _slot(item: Field[object], hints: Mapping[str, object]) -> _Slot:
    key = str(item.metadata.get("name", item.name))
    required = item.default is MISSING and item.default_factory is MISSING
    return _Slot(item.name, key, _reader(hints[item.name]), required)


# Built once: every line of every log is read with these when a registry is rebuilt.
_SHAPES: dict[str, _Shape] = {kind.kind: _shape(kind) for kind in get_args(RunEvent)}
