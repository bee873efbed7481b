"""`analytics.json`: what a run really left on disk, written however the run ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cleanrl_worker.config import CleanRLWorkerConfig
from mosaic.runs import atomic

SCHEMA_VERSION = 1


def build_manifest(config: CleanRLWorkerConfig, run_dir: Path) -> dict[str, Any]:
    """Catalogue the artifacts of a run; paths are relative to its directory."""
    extras = config.extras
    tensorboard = str(extras.get("tensorboard_dir") or "tensorboard")
    events = sorted((run_dir / tensorboard).glob("**/events.out.tfevents.*"))
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": config.run_id,
        "worker": "cleanrl",
        "algo": config.algo,
        "env_id": config.env_id,
        "mode": config.mode,
        "requirements": list(extras.get("requirements") or ["base"]),
        "artifacts": {
            "tensorboard": {"dir": tensorboard, "enabled": bool(events)},
            "wandb": _wandb(config, run_dir),
            "optuna": _optuna(run_dir),
            "checkpoints": _checkpoints(run_dir),
            "videos": [_relative(path, run_dir) for path in sorted(run_dir.glob("videos/*.mp4"))],
            "logs": [_relative(path, run_dir) for path in sorted(run_dir.glob("logs/*.log"))],
            "evaluation": [
                _relative(path, run_dir) for path in sorted(run_dir.glob("eval_summary.json"))
            ],
        },
    }


def write_manifest(config: CleanRLWorkerConfig, run_dir: Path) -> Path:
    """Write the manifest of a run."""
    path = run_dir / "analytics.json"
    atomic.write_json(path, build_manifest(config, run_dir))
    return path


def _wandb(config: CleanRLWorkerConfig, run_dir: Path) -> dict[str, Any] | None:
    folders = [
        *run_dir.glob("wandb/run-*"),
        *run_dir.glob("wandb/offline-run-*"),
    ]
    if not folders:
        return None
    newest = max(folders, key=lambda folder: folder.stat().st_mtime)
    offline = newest.name.startswith("offline-")
    run_id = newest.name.rpartition("-")[2]
    project = config.extras.get("wandb_project_name") or "cleanRL"
    entity = config.extras.get("wandb_entity")
    return {
        "run_id": run_id,
        "project": project,
        "entity": entity,
        "mode": "offline" if offline else "online",
        "dir": _relative(newest, run_dir),
        "url": None
        if offline or not entity
        else f"https://wandb.ai/{entity}/{project}/runs/{run_id}",
    }


def _optuna(run_dir: Path) -> dict[str, Any] | None:
    path = run_dir / "optuna.db"
    return {"db": "optuna.db", "study": run_dir.name} if path.exists() else None


def _checkpoints(run_dir: Path) -> list[dict[str, Any]]:
    found = []
    for path in sorted((run_dir / "checkpoints").glob("step-*")):
        if path.suffix not in (".cleanrl_model", ".state"):
            continue
        step = path.stem.removeprefix("step-")
        found.append(
            {
                "path": _relative(path, run_dir),
                "step": int(step) if step.isdigit() else 0,
                "sha256": _recorded_digest(path),
                "kind": "policy" if path.suffix == ".cleanrl_model" else "full",
            }
        )
    return sorted(found, key=lambda item: (item["step"], item["kind"]))


def _recorded_digest(path: Path) -> str | None:
    side = path.with_name(path.name + ".sha256")
    try:
        return side.read_text().split()[0]
    except (OSError, IndexError):
        return None


def _relative(path: Path, run_dir: Path) -> str:
    return path.relative_to(run_dir).as_posix()


def read_manifest(run_dir: Path) -> dict[str, Any] | None:
    """A run's manifest, or None when there is none yet."""
    try:
        document: dict[str, Any] = json.loads((run_dir / "analytics.json").read_text())
    except (OSError, ValueError):
        return None
    return document
