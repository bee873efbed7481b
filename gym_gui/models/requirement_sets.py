"""Extras that an environment or algorithm needs, and whether they are installed."""

import importlib.util
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mosaic.config.paths import Home

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
    # Only MJX brings it. To find `mujoco.mjx` itself, MuJoCo would have to be imported.
    "mjx": "trimesh",
    "xminigrid": "xminigrid",
    "pgx": "pgx",
    "jumanji": "jumanji",
    "brax": "brax",
    "gymnasium_jax": "flax",
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
    "xminigrid": "xminigrid",
    "pgx": "pgx",
    "jumanji": "jumanji",
    "brax": "brax",
    "phys2d": "gymnasium_jax",
    "tabular": "gymnasium_jax",
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
        return f"missing; run: mosaic extras {self.name}"


def all_sets(home: Home) -> list[RequirementSet]:
    """Every known set; those in a bundle of the home count as installed. Takes milliseconds."""
    bundles = (home.trainer / "venvs").glob("*/bundle.json")
    bundled = {name for path in bundles for name in _sets_in(path)}
    return [
        RequirementSet(name, name in bundled or _is_there(module))
        for name, module in _PROOF.items()
    ]


def needed(requires: Iterable[str], family: str) -> list[str]:
    """The sets that an algorithm in an environment of a family needs."""
    names = ["base", *requires]
    if family in _FAMILY_SETS:
        names.append(_FAMILY_SETS[family])
    return list(dict.fromkeys(names))


def _sets_in(bundle: Path) -> list[str]:
    """The sets that a bundle's own file names; none while it is not readable."""
    try:
        named = json.loads(bundle.read_bytes())["sets"]
    except (OSError, ValueError, TypeError, KeyError):
        return []
    return [str(name) for name in named]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
