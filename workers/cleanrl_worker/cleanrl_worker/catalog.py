"""What can be trained: algorithms and environments as plain data, without torch in this process."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cleanrl_worker.resolution import (
    DEFAULT_ALGO_REGISTRY,
    HOME_VARIABLE,
    UPSTREAM_PREFIX,
    resolve,
)
from cleanrl_worker.running.schema import Argument
from cleanrl_worker.wrappers.curriculum import PRESETS
from mosaic.system import atomic
from mosaic.workers.facts import ArgumentFacts

# Packages that register environments; their versions make the key of the cached list.
_PACKAGES = ("gymnasium", "ale-py", "minigrid", "mujoco", "shimmy", "dm-control", "box2d")
_HERE = Path(__file__).resolve().parent
_OWN_SOURCES = ("games/__init__.py", "tools/list_environments.py")
# It imports every simulator that is installed, once; after that the list is cached.
_LISTING_LIMIT_S = 120.0
# Arguments that name files of the user's, relative to where a command is typed.
_PATHS = frozenset({"teacher_policy", "teacher_trajectories", "warm_start", "dataset"})
# Those that may name a run instead, for its newest policy.
_RUNS = frozenset({"teacher_policy", "warm_start"})


def algorithms() -> list[str]:
    """The names of the bundled algorithms."""
    return list(DEFAULT_ALGO_REGISTRY)


def describe(algo: str) -> dict[str, object]:
    """An algorithm's arguments and what it can act on, for forms, help and documentation.

    Raises:
        UnknownAlgorithmError: There is no such algorithm.
    """
    schema = resolve(algo).schema
    arguments = [argument_facts(argument) for argument in schema.arguments.values()]
    facts: dict[str, object] = {**schema.algorithm, "arguments": arguments, "smoke": schema.smoke}
    if schema.asks_for_envs:
        facts["curricula"] = {
            name: [stage["env_id"] for stage in stages] for name, stages in PRESETS.items()
        }
    upstream = os.environ.get(HOME_VARIABLE) if algo.startswith(UPSTREAM_PREFIX) else None
    if upstream:
        # The daemon may have been started with another environment than this process.
        facts["environment"] = {HOME_VARIABLE: os.path.abspath(upstream)}
    return facts


def argument_facts(argument: Argument) -> ArgumentFacts:
    """An argument as plain data."""
    limits = argument.range
    return {
        "name": argument.name,
        "type": argument.type,
        "default": argument.default,
        "help": argument.help,
        "path": argument.name in _PATHS,
        "run": argument.name in _RUNS,
        "range": None
        if limits is None or limits.below is not None
        else {
            "low": limits.low,
            "high": limits.high,
            "low_open": limits.low_open,
            "high_open": limits.high_open,
            "choices": list(limits.choices),
        },
    }


def environments(python: str = sys.executable) -> list[dict[str, str]]:
    """Every environment that is installed: id, family, kind of actions and observations.

    Args:
        python: The interpreter that would run them; it may belong to a bundle of extras.
    """
    own = python == sys.executable
    return list(_listing(_fingerprint() if own else Path(python).parents[1].name, python))


def environment(env_id: str) -> dict[str, str] | None:
    """What is known about one environment."""
    return {item["id"]: item for item in environments()}.get(env_id)


@cache
def _listing(fingerprint: str, python: str) -> tuple[dict[str, str], ...]:
    path = _cache_folder() / f"environments-{fingerprint}.json"
    try:
        return tuple(json.loads(path.read_text()))
    except (OSError, ValueError):
        pass
    listed = subprocess.run(
        [python, "-m", "cleanrl_worker.tools.list_environments"],
        capture_output=True,
        text=True,
        timeout=_LISTING_LIMIT_S,
        check=True,
    )
    items = json.loads(listed.stdout)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_json(path, items)
    return tuple(items)


def _fingerprint() -> str:
    """The versions of the packages that bring environments, as a name for the cached list."""
    return _fingerprint_of(tuple(_modified(folder) for folder in sys.path))


@lru_cache(maxsize=1)
def _fingerprint_of(folders: tuple[int, ...]) -> str:
    """Reading versions parses the packages' metadata, 6 ms in all, for every check of a run.

    An installation changes the folders of `sys.path`, so their times are the key.
    """
    installed = [(name, _version(name)) for name in _PACKAGES]
    # Our own games and what is listed of all are part of the answer too.
    own = [(_HERE / name).read_text(encoding="utf-8") for name in _OWN_SOURCES]
    text = json.dumps([sys.version, installed, own])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _modified(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cache_folder() -> Path:
    """Beside the packages that the list is about, or in the user's cache when that is read-only."""
    beside = Path(sys.prefix) / "share" / "mosaic"
    try:
        beside.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mosaic"
    return beside
