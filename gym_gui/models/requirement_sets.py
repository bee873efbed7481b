"""Extras that an environment or algorithm needs, and whether they are installed."""

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass

# A set is there when this module can be found; nothing is imported to find out.
_PROOF = {
    "base": "numpy",
    "atari": "ale_py",
    "mujoco": "mujoco",
    "dm_control": "dm_control",
    "minigrid": "minigrid",
    "procgen": "envpool",
    "envpool": "envpool",
    "jax": "jax",
    "pettingzoo": "pettingzoo",
    "curriculum": "syllabus",
    "optuna": "optuna",
    "wandb": "wandb",
}
_FAMILY_SETS = {
    "atari": "atari",
    "mujoco": "mujoco",
    "dm_control": "dm_control",
    "minigrid": "minigrid",
    "babyai": "minigrid",
    "procgen": "procgen",
}


@dataclass(frozen=True)
class RequirementSet:
    """One set of packages.

    Attributes:
        name: As configs call it.
        installed: Whether its packages are here.
    """

    name: str
    installed: bool

    @property
    def hint(self) -> str:
        """What to do when it is missing."""
        if self.installed:
            return f"the set {self.name} is installed"
        return f"missing; run: pip install -r requirements/extras/{self.name}.txt"


def all_sets() -> list[RequirementSet]:
    """Every known set; takes a few milliseconds."""
    return [RequirementSet(name, _is_there(module)) for name, module in _PROOF.items()]


def needed(requires: Iterable[str], family: str) -> list[str]:
    """The sets that an algorithm in an environment of a family needs."""
    names = ["base", *requires]
    if family in _FAMILY_SETS:
        names.append(_FAMILY_SETS[family])
    return list(dict.fromkeys(names))


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
