"""What checks look at: a source file of the worker, as it is or with one edit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType

import pytest

import cleanrl_worker

PACKAGE = Path(cleanrl_worker.__file__).parent


@dataclass(frozen=True)
class Subject:
    """A source file under test.

    Attributes:
        file: its path in the worker's package, such as `cleanrl/dqn.py`.
        source: its text, edited or not.
    """

    file: str
    source: str

    @property
    def name(self) -> str:
        """The algorithm's name, or the module's."""
        return Path(self.file).stem

    @cached_property
    def module(self) -> ModuleType:
        """The file as a module of its own; `sys.modules` keeps the unedited one."""
        dotted = "cleanrl_worker." + self.file.removesuffix(".py").replace("/", ".")
        module = ModuleType(dotted)
        # Tracebacks and `inspect` read this path; its lines are those of the unedited file.
        module.__file__ = str(PACKAGE / self.file)
        __import__(dotted)
        exec(compile(self.source, module.__file__, "exec"), module.__dict__)
        return module

    @contextmanager
    def as_script(self) -> Iterator[Path]:
        """The file on disk, to be run as a program of its own."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / Path(self.file).name
            path.write_text(self.source, encoding="utf-8")
            yield path


Check = Callable[[Subject], None]
"""Raises when the subject breaks a promise; its docstring says which."""


@dataclass(frozen=True)
class Mutant:
    """One edit that must not go unnoticed.

    Attributes:
        file: the edited file's path in the worker's package.
        old: what is replaced; it occurs exactly once.
        new: what replaces it.
        why: what a user would lose, as the table of mutants says it.
        checks: the checks of which at least one must fail.
        slow: whether they take longer than seconds; `make prove` runs those.
    """

    file: str
    old: str
    new: str
    why: str
    checks: tuple[Check, ...]
    slow: bool = field(default=False, kw_only=True)

    def __str__(self) -> str:
        return f"{Path(self.file).stem}: {self.why}"

    def apply(self) -> Subject:
        """The edited file.

        Raises:
            AssertionError: when the file has changed so much that the edit no longer fits.
        """
        text = original(self.file).source
        found = text.count(self.old)
        assert found == 1, f"{self}: {self.old!r} occurs {found} times in {self.file}, not once"
        edited = text.replace(self.old, self.new)
        compile(edited, self.file, "exec")
        return Subject(self.file, edited)


def original(file: str) -> Subject:
    """The file as it is."""
    return Subject(file, (PACKAGE / file).read_text(encoding="utf-8"))


def killer(mutant: Mutant) -> str | None:
    """The name of the first check that notices a mutant, or `None` when it survives."""
    subject = mutant.apply()
    for check in mutant.checks:
        try:
            check(subject)
        except (Exception, pytest.fail.Exception):
            return check.__name__
    return None
