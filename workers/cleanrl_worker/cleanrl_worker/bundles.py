"""Requirement sets, and the bundles in which those that are not installed can be had.

A set is a file of `requirements/extras`. A bundle is a small virtual environment on top of the
running one, in `<home>/trainer/venvs/<hash>`: it holds only what the running one lacks.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypedDict

from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.ondevice import registry
from cleanrl_worker.ondevice.package_ids import PACKAGES
from cleanrl_worker.resolution import UnknownAlgorithmError, resolve
from cleanrl_worker.wrappers.curriculum import read_schedule
from mosaic.config.json_types import object_at
from mosaic.runs.directory import read_json
from mosaic.workers import Home, Problem, did_you_mean


class Applied(TypedDict):
    """What a run's manifest says about its packages."""

    sets: list[str]
    bundle: str | None
    packages: dict[str, str]


FOLDER_VARIABLE = "MOSAIC_REQUIREMENTS"
MISSING_SET = "CFG134"
BASE = "base"
_FAMILIES = (
    (re.compile(r"ALE/|.*NoFrameskip-v4"), "atari"),
    (re.compile(r"MiniGrid-|BabyAI-"), "minigrid"),
    (re.compile(r"dm_control/"), "dm_control"),
    *((re.compile(f"{prefix}/"), package.requirement_set) for prefix, package in PACKAGES.items()),
    (
        re.compile(r"(Ant|HalfCheetah|Hopper|Humanoid|Walker2d|Swimmer|Reacher|Pusher)\w*-v"),
        "mujoco",
    ),
)
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*([^\s;#]+)")


def requirements_folder() -> Path:
    """Where the requirement files are: those a variable names, the checkout's, the package's."""
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        return Path(given)
    here = Path(__file__).resolve()
    checkout = here.parents[3] / "requirements"
    # A wheel carries its own copy; `requirements` beside site-packages would be someone else's.
    packed = here.parent / "requirements"
    return packed if packed.is_dir() else checkout


def set_names() -> list[str]:
    """The sets there are, apart from the base."""
    return sorted(path.stem for path in (requirements_folder() / "extras").glob("*.txt"))


def pins(name: str) -> dict[str, str]:
    """The packages of a set and their versions, those of included files too."""
    return dict(_pins(requirements_folder() / "extras" / f"{name}.txt"))


def _pins(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text().splitlines():
        words = line.split()
        if words[:1] in (["-r"], ["--requirement"]):
            yield from _pins(path.parent / words[1])
        elif match := _PIN.match(line):
            yield match[1], match[2]


def missing(name: str) -> list[str]:
    """The packages of a set that the running interpreter lacks, pinned."""
    # Slow to import, and most runs never ask.
    from importlib.metadata import PackageNotFoundError, version

    absent = []
    for package, pinned in pins(name).items():
        try:
            version(package)
        except PackageNotFoundError:
            absent.append(f"{package}=={pinned}")
    return absent


def set_of_environment(env_id: str) -> str:
    """The set that brings an environment's family; empty for those of the base."""
    return next((name for pattern, name in _FAMILIES if pattern.match(env_id)), "")


def wanted_sets(config: CleanRLWorkerConfig) -> list[str]:
    """The sets that a run needs: those it names, and those that what it does requires."""
    extras = config.extras
    names = list(extras.requirements)
    names.append(set_of_environment(config.env_id))
    stages = read_schedule(extras.curriculum_schedule)
    if isinstance(stages, list) and stages:
        names += ["curriculum", *(set_of_environment(stage.env_id) for stage in stages)]
    if extras.track_wandb:
        names.append("wandb")
    try:
        algorithm = resolve(config.algo).schema.algorithm
    except UnknownAlgorithmError:
        algorithm = {}
    names += algorithm.get("requires", [])
    if algorithm.get("on_device"):
        names.append(registry.needed_set(config.env_id))
    return sorted(set(names) - {BASE, ""})


def bundle_path(names: Iterable[str]) -> Path:
    """Where a bundle of these sets is built."""
    resolved = sorted(_all_pins(names).items())
    # By content: the same sets on the same interpreter are built once, other pins get another.
    text = json.dumps([sys.version, sys.prefix, resolved])
    return bundles_folder() / hashlib.sha256(text.encode()).hexdigest()[:16]


def bundles_folder() -> Path:
    """Where all bundles of a home are."""
    return Home.locate().trainer / "venvs"


def lacking(names: Iterable[str]) -> list[str]:
    """Of these sets, the ones that the running interpreter lacks."""
    known = set_names()
    return [name for name in names if name in known and missing(name)]


def find_bundle(names: Iterable[str]) -> Path | None:
    """A finished bundle on this interpreter that holds at least these sets, as pinned now."""
    needed = _all_pins(names).items()
    for path in sorted(bundles_folder().glob("*/bundle.json")):
        about = read_json(path) or {}
        ours = (about.get("python"), about.get("prefix")) == (sys.version, sys.prefix)
        if ours and needed <= object_at(about, "packages").items():
            return path.parent
    return None


def interpreter(names: Iterable[str]) -> str:
    """The interpreter in which all these sets are installed; the running one if it has them."""
    absent = lacking(names)
    bundle = find_bundle(absent) if absent else None
    return str(bundle / "bin" / "python") if bundle else sys.executable


def description(names: Iterable[str]) -> dict[str, object]:
    """What a bundle's own file says about it."""
    names = list(names)
    return {
        "sets": names,
        "packages": _all_pins(names),
        "python": sys.version,
        "prefix": sys.prefix,
    }


def applied(config: CleanRLWorkerConfig) -> Applied:
    """What a run's manifest says about its packages."""
    names = [name for name in wanted_sets(config) if name in set_names()]
    absent = lacking(names)
    bundle = find_bundle(absent) if absent else None
    return {
        "sets": [BASE, *names],
        "bundle": bundle.name if bundle else None,
        "packages": _all_pins(names),
    }


def _all_pins(names: Iterable[str]) -> dict[str, str]:
    return {package: pin for name in names for package, pin in pins(name).items()}


def problems(config: CleanRLWorkerConfig) -> Iterator[Problem]:
    """Sets that do not exist, and sets that are neither installed nor bundled."""
    known = set_names()
    names = wanted_sets(config)
    for name in names:
        if known and name not in known:
            text = f"there is no requirement set {name!r}; allowed: {', '.join([BASE, *known])}"
            yield problem("extras/requirements", MISSING_SET, text + did_you_mean(name, known))
    absent = lacking(names)
    if absent and find_bundle(absent) is None:
        packages = ", ".join(package for name in absent for package in missing(name))
        yield problem(
            "extras/requirements",
            MISSING_SET,
            f"{', '.join(absent)} is not installed ({packages}); run: "
            f"python -m cleanrl_worker.tools.install_extras --set {','.join(absent)}",
        )
