"""`provenance.json`: what a result depends on, written down when the run starts."""

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mosaic.config.json_types import JsonValue
from mosaic.system import atomic

_LARGEST_DIFF = 200_000
# A repository on a network disk can take minutes; a run does not wait for its commit's name.
_GIT_LIMIT_S = 5.0


def collect(command: Sequence[str], seeds: Mapping[str, int], env_id: str) -> dict[str, JsonValue]:
    """Code, packages, machine and seeds of this moment."""
    source = Path(__file__).resolve().parents[2]
    return {
        "schema_version": 1,
        "command": list(command),
        "seeds": dict(seeds),
        "environment": {"id": env_id, "package": _environment_package(env_id)},
        "git": _git(source),
        "python": sys.version,
        "platform": platform.platform(),
        "processor": _processor(),
        "cpu_count": os.cpu_count(),
        "devices": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        "packages": dict(_versions()),
    }


def write_provenance(
    run_dir: Path, command: Sequence[str], seeds: Mapping[str, int], env_id: str
) -> Path:
    """Write `provenance.json` of a run."""
    path = run_dir / "provenance.json"
    atomic.write_json(path, collect(command, seeds, env_id))
    return path


def add_facts(run_dir: Path, **facts: object) -> None:
    """Add what only the training process knows: wrapper chain, ROM hash, devices."""
    from mosaic.runs.opening import read_document

    path = run_dir / "provenance.json"
    atomic.write_json(path, {**(read_document(path) or {}), **facts})


def _versions() -> dict[str, str]:
    """The version of every package, of the copy that an import finds."""
    # Slow to import: a worker starts its training first and writes this down meanwhile.
    from importlib.metadata import distributions

    found: dict[str, str] = {}
    for dist in distributions():
        # In the order of `sys.path`: a second copy further down is hidden by the first.
        found.setdefault(dist.metadata["Name"], dist.version)
    return found


def _git(folder: Path) -> dict[str, JsonValue] | None:
    commit = _git_output(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    diff = _git_output(folder, "diff", "HEAD")
    return {
        "commit": commit.strip(),
        "clean": not diff,
        # The hash is of the whole diff: it still tells two runs apart where the cut text does not.
        "diff": diff[:_LARGEST_DIFF],
        "diff_sha256": hashlib.sha256(diff.encode()).hexdigest() if diff else None,
    }


def _git_output(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _processor() -> str:
    """The processor's name: matrix products may be computed in another order on another one."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            found = next((line for line in lines if line.startswith("model name")), "")
    except OSError:
        return platform.processor()
    return found.partition(":")[2].strip() or platform.machine()


def _environment_package(env_id: str) -> str:
    prefixes = {"ALE/": "ale-py", "MiniGrid-": "minigrid", "BabyAI-": "minigrid"}
    name = next(
        (name for prefix, name in prefixes.items() if env_id.startswith(prefix)), "gymnasium"
    )
    versions = _versions()
    return f"{name}=={versions[name]}" if name in versions else name
