"""Where Qt's types say less than is known."""

from typing import TypeVar

T = TypeVar("T")


def sure(value: T | None) -> T:
    """What Qt's types call optional although it is there: a table's header, a widget's style."""
    if value is None:
        raise RuntimeError("Qt gave nothing where something always is")
    return value
