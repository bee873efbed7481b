"""`analytics.json`: what a run really left on disk, written however the run ended."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypedDict, cast

from mosaic.system import atomic
from spade_bdi_rl_worker import checkpoints
from spade_bdi_rl_worker.errors import CheckpointError
from spade_bdi_rl_worker.settings import Settings

SCHEMA_VERSION = 1


class Entry(TypedDict):
    """One checkpoint file in the manifest."""

    path: str
    step: int
    sha256: str
    kind: str


def write_manifest(run_id: str, settings: Settings, run_dir: Path) -> None:
    """Catalogue the artifacts of a run; paths are relative to its directory."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "worker": "spade_bdi",
        "algo": "q_learning",
        "env_id": settings.env_id,
        "mode": settings.mode,
        "requirements": ["spade_bdi"],
        "artifacts": {
            "tensorboard": {"dir": "tensorboard", "enabled": False},
            "wandb": None,
            "optuna": None,
            "checkpoints": _checkpoints(run_dir),
            "videos": [],
            "logs": [str(p.relative_to(run_dir)) for p in sorted(run_dir.glob("logs/*.log"))],
            "evaluation": [p.name for p in run_dir.glob("eval_summary.json")],
        },
    }
    atomic.write_json(run_dir / "analytics.json", document)


def _checkpoints(run_dir: Path) -> list[Entry]:
    found: list[Entry] = []
    for path in sorted((run_dir / checkpoints.FOLDER).glob("full-*.json")):
        try:
            learner = cast(checkpoints.LearnerState, checkpoints.read(path, "full")["learner"])
        except CheckpointError:
            continue
        found.append(_entry(path, run_dir, learner["steps"], "full"))
    policy = run_dir / checkpoints.POLICY_FILE
    if policy.exists():
        found.append(_entry(policy, run_dir, found[-1]["step"] if found else 0, "policy"))
    return found


def _entry(path: Path, run_dir: Path, step: int, kind: str) -> Entry:
    return {
        "path": path.relative_to(run_dir).as_posix(),
        "step": step,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "kind": kind,
    }
