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
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.resolution import UnknownAlgorithmError, resolve
from mosaic.workers import Home, Problem, did_you_mean

FOLDER_VARIABLE = "MOSAIC_REQUIREMENTS"
MISSING_SET = "CFG134"
BASE = "base"
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*([^\s;#]+)")


def requirements_folder() -> Path:
    """Where the requirement files are: the project's own, or those a variable names."""
    given = os.environ.get(FOLDER_VARIABLE)
    return Path(given) if given else Path(__file__).resolve().parents[3] / "requirements"


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
    absent = []
    for package, pinned in pins(name).items():
        try:
            version(package)
        except PackageNotFoundError:
            absent.append(f"{package}=={pinned}")
    return absent


def wanted_sets(config: CleanRLWorkerConfig) -> list[str]:
    """The sets that a run needs: those it names and those its algorithm declares."""
    names = list(config.extras.get("requirements") or [])
    if config.extras.get("curriculum_schedule"):
        names.append("curriculum")
    if config.extras.get("track_wandb"):
        names.append("wandb")
    try:
        names += resolve(config.algo).schema.algorithm.get("requires", [])
    except UnknownAlgorithmError:
        pass
    return sorted({str(name) for name in names} - {BASE})


def bundle_path(names: Iterable[str]) -> Path:
    """Where the bundle of these sets is, or would be."""
    resolved = sorted({pin for name in names for pin in pins(name).items()})
    text = json.dumps([sys.version, sys.prefix, resolved])
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Home.locate().trainer / "venvs" / key


def lacking(names: Iterable[str]) -> list[str]:
    """Of these sets, the ones that the running interpreter lacks."""
    known = set_names()
    return [name for name in names if name in known and missing(name)]


def interpreter(names: Iterable[str]) -> str:
    """The interpreter in which all these sets are installed; the running one if it has them."""
    absent = lacking(names)
    bundle = bundle_path(absent) if absent else None
    return str(bundle / "bin" / "python") if bundle and is_ready(bundle) else sys.executable


def is_ready(bundle: Path) -> bool:
    """Whether a bundle was built to its end."""
    return (bundle / "bundle.json").is_file()


def applied(config: CleanRLWorkerConfig) -> dict[str, Any]:
    """What a run's manifest says about its packages."""
    names = [name for name in wanted_sets(config) if name in set_names()]
    absent = lacking(names)
    bundle = bundle_path(absent) if absent else None
    return {
        "sets": [BASE, *names],
        "bundle": bundle.name if bundle and is_ready(bundle) else None,
        "packages": {package: pin for name in names for package, pin in pins(name).items()},
    }


def problems(config: CleanRLWorkerConfig) -> Iterator[Problem]:
    """Sets that do not exist, and sets that are neither installed nor bundled."""
    known = set_names()
    names = wanted_sets(config)
    for name in names:
        if known and name not in known:
            text = f"there is no requirement set {name!r}; allowed: {', '.join([BASE, *known])}"
            yield problem("extras/requirements", MISSING_SET, text + did_you_mean(name, known))
    absent = lacking(names)
    if absent and not is_ready(bundle_path(absent)):
        packages = ", ".join(package for name in absent for package in missing(name))
        yield problem(
            "extras/requirements",
            MISSING_SET,
            f"{', '.join(absent)} is not installed ({packages}); run: "
            f"python -m cleanrl_worker.tools.install_extras --set {','.join(absent)}",
        )
