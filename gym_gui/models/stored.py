"""What the window stored as JSON, read back as what it should be.

Such a file may come from another version or from an editor, so nothing in it is taken on trust.
"""

from collections.abc import Mapping, Sequence


def fields(value: object) -> Mapping[str, object]:
    """An object of a document.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(value, Mapping):
        raise ValueError("an object was expected")
    return value


def items(value: object) -> Sequence[object]:
    """A list of a document.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(value, list):
        raise ValueError("a list was expected")
    return value


def whole(value: object) -> int:
    """A whole number of a document.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(value, int | float | str):
        raise ValueError("a number was expected")
    return int(value)


def texts(value: object) -> dict[str, str]:
    """The texts of an object by name; what else there is in it is left out."""
    if not isinstance(value, Mapping):
        return {}
    return {str(name): text for name, text in value.items() if isinstance(text, str)}
