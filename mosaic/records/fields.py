"""What records share: fields that carry their description, and their form as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import get_type_hints


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """One field of a record, as the reference page and the window's columns show it."""

    name: str
    description: str


def fields_of(record: type) -> tuple[FieldInfo, ...]:
    """The fields of a record class in order, each with the description in its annotation."""
    hints = get_type_hints(record, include_extras=True)
    return tuple(FieldInfo(item.name, hints[item.name].__metadata__[0]) for item in fields(record))


def plain(value: object) -> object:
    """A value as JSON can hold it: records become objects, tuples become lists."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value


class Record:
    """Base of the records. `to_dict` gives what `--json` prints."""

    __slots__ = ()

    def to_dict(self) -> dict[str, object]:
        """Plain data with a stable set of keys."""
        assert is_dataclass(self)
        return {item.name: plain(getattr(self, item.name)) for item in fields(self)}
