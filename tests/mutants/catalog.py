"""All checks, mutants and learning runs, from the modules in `mutants.families`.

A family module has `MUTANTS`, a list of `mutants.subject.Mutant`, and may have `LEARNING`, a list
of `mutants.learning.Learning`, and `HARMLESS`, a list of `mutants.harmless.Harmless`.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from mutants import families
from mutants.edits import Edit
from mutants.harmless import EVERYWHERE, Harmless
from mutants.learning import Learning
from mutants.subject import Check, Mutant


def all_mutants() -> list[Mutant]:
    """The mutants of every family, in the order of the families' names."""
    return [mutant for module in _modules() for mutant in module.MUTANTS]


def all_learning() -> list[Learning]:
    """The learning runs of every family, in the order of the families' names."""
    return [case for module in _modules() for case in getattr(module, "LEARNING", [])]


def all_harmless() -> list[Harmless]:
    """The edits that no check can notice, those of every family first."""
    return [
        *EVERYWHERE,
        *(kind for module in _modules() for kind in getattr(module, "HARMLESS", [])),
    ]


def reason_for(edit: Edit) -> Harmless | None:
    """Why an edit needs no check, if there is a reason."""
    return next((kind for kind in all_harmless() if kind.covers(edit)), None)


def checks_of(file: str) -> list[Check]:
    """All checks of a file: those that its mutants name."""
    return [check for of, check in promises(all_mutants()) if of == file]


def promises(mutants: list[Mutant]) -> list[tuple[str, Check]]:
    """Each file with each check that its mutants name, once."""
    return list(
        dict.fromkeys((mutant.file, check) for mutant in mutants for check in mutant.checks)
    )


def _modules() -> list[ModuleType]:
    names = sorted(module.name for module in pkgutil.iter_modules(families.__path__))
    return [importlib.import_module(f"mutants.families.{name}") for name in names]
