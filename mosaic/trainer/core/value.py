"""`@value`: what the core's small classes are made with."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[_T]) -> type[_T]:
    """A dataclass that nothing changes once it is made.

    The core has about seventy of them, and a frozen dataclass compiles six methods for each: 30 ms
    of every start of the daemon. Here all but `__init__` are shared. The type checker refuses
    assignments; at run time nothing checks them, which also makes building one twice as fast.
    """
    made = dataclass(eq=False, repr=False)(cls)
    for name, method in _SHARED.items():
        setattr(made, name, method)
    return made


def _same(self: object, other: object) -> bool:
    return type(self) is type(other) and vars(self) == vars(other)


def _hashed(self: object) -> int:
    return hash((type(self), *vars(self).values()))


def _shown(self: object) -> str:
    fields = ", ".join(f"{name}={said!r}" for name, said in vars(self).items())
    return f"{type(self).__qualname__}({fields})"


_SHARED = {"__eq__": _same, "__hash__": _hashed, "__repr__": _shown}
