"""A learning record says by a hash which code it was made with."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.learning.fingerprint import code_of

_BARE = "class A:\n    width = 3\n\n    def f(self, x, y=2):\n        z = x * y\n        return z\n"
_TYPED = '''"""What this file is."""
from __future__ import annotations
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypedDict, TypeVar, cast
from numpy import float64
if TYPE_CHECKING:
    from numpy import ndarray

T = TypeVar("T")
Row: TypeAlias = "ndarray"
Rows = list[float64]
class Shown(TypedDict):
    row: Row
class Drawn(Protocol):
    def draw(self) -> None: ...

class A(Generic[T]):
    """A class."""
    width = 3

    def f(self, x: float, y: float = 2) -> float:
        """Why."""
        # Because.
        assert isinstance(x, float)
        if x < 0:
            raise ValueError(x)
        z: float = x * cast(float, y)
        return z
'''


def _code(folder: Path, text: str) -> str:
    path = folder / "file.py"
    path.write_text(text, encoding="utf-8")
    return code_of(path)


def test_words_types_and_refusals_leave_a_record_current(tmp_path: Path) -> None:
    """A record does not become old because its file was documented or typed, or refuses more."""
    bare = "from __future__ import annotations\n" + _BARE
    assert _code(tmp_path, bare) == _code(tmp_path, _TYPED)


@pytest.mark.parametrize(
    ("before", "after"), [("x * y", "x + y"), ("y=2", "y=3"), ("width = 3", "width = 4")]
)
def test_anything_that_runs_makes_a_record_old(tmp_path: Path, before: str, after: str) -> None:
    """A record of another formula, default or constant is not passed off as today's."""
    assert _code(tmp_path, _BARE) != _code(tmp_path, _BARE.replace(before, after))


def test_a_record_is_current_under_another_version_of_python(tmp_path: Path) -> None:
    """A record that was made with Python 3.12 is not called old by 3.11.

    The two write the quotes of such a text differently.
    """
    code = _code(tmp_path, """name = f"a {b['c']!r:>{width}}"\n""")
    assert code == "name = ['a ', (b['c'], 114, ['>', (width, -1)])]"
