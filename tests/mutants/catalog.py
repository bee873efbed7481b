"""All checks, mutants and learning runs, from the modules in `mutants.families`.

A family module has `MUTANTS`, a list of `mutants.subject.Mutant`, and may have `LEARNING`, a list
of `mutants.learning.Learning`.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from mutants import families
from mutants.learning import Learning
from mutants.subject import Check, Mutant


def all_mutants() -> list[Mutant]:
    """The mutants of every family, in the order of the families' names."""
    return [mutant for module in _modules() for mutant in module.MUTANTS]


def all_learning() -> list[Learning]:
    """The learning runs of every family, in the order of the families' names."""
    return [case for module in _modules() for case in getattr(module, "LEARNING", [])]


def promises(mutants: list[Mutant]) -> list[tuple[str, Check]]:
    """Each file with each check that its mutants name, once."""
    return list(
        dict.fromkeys((mutant.file, check) for mutant in mutants for check in mutant.checks)
    )


def _modules() -> list[ModuleType]:
    names = sorted(module.name for module in pkgutil.iter_modules(families.__path__))
    return [importlib.import_module(f"mutants.families.{name}") for name in names]
