"""`analytics.json`: what a run really left on disk, written however the run ended."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from cleanrl_worker import bundles
from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.running.checked_files import recorded_checksum
from cleanrl_worker.running.checkpoint_files import POLICY_SUFFIX, STATE_SUFFIX, step_of
from cleanrl_worker.running.wandb_logging import ADDRESS_FILE
from mosaic.runs.directory import read_json
from mosaic.system import atomic

SCHEMA_VERSION = 1

# A JSON object on its way to a file.
Document = dict[str, object]


class CheckpointEntry(TypedDict):
    """One checkpoint file in the manifest."""

    path: str
    step: int
    sha256: str | None
    kind: str


# Where upstream's scripts put event files and models, below their working directory.
_UPSTREAM = "runs"


def build_manifest(config: CleanRLWorkerConfig, run_dir: Path) -> Document:
    """Catalogue the artifacts of a run; paths are relative to its directory."""
    packages = bundles.applied(config)
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": config.run_id,
        "worker": "cleanrl",
        "algo": config.algo,
        "env_id": config.env_id,
        "mode": config.mode,
        "requirements": packages["sets"],
        "packages": packages,
        "artifacts": {
            "tensorboard": _tensorboard(config, run_dir),
            "wandb": _wandb(config, run_dir),
            "optuna": _optuna(run_dir),
            "checkpoints": _checkpoints(run_dir),
            "videos": _files(run_dir, "videos/**/*.mp4"),
            "logs": _files(run_dir, "logs/*.log"),
            "evaluation": _files(run_dir, "eval_summary.json"),
        },
    }


def write_manifest(config: CleanRLWorkerConfig, run_dir: Path) -> Path:
    """Write the manifest of a run."""
    path = run_dir / "analytics.json"
    atomic.write_json(path, build_manifest(config, run_dir))
    return path


def upstreams_policies(run_dir: Path) -> list[Path]:
    """What upstream's scripts have saved with `--save-model`."""
    return sorted((run_dir / _UPSTREAM).glob(f"**/*{POLICY_SUFFIX}"))


def _tensorboard(config: CleanRLWorkerConfig, run_dir: Path) -> Document:
    """Where the event files are; upstream's scripts and phases choose their own folders."""
    asked = _inside(config.extras.tensorboard_dir, run_dir)
    pattern = "**/events.out.tfevents.*"
    # Where files are, not where they were asked for: the window opens what is named here.
    if any((run_dir / asked).glob(pattern)):
        return {"dir": asked, "enabled": True}
    if any((run_dir / _UPSTREAM).glob(pattern)):
        return {"dir": _UPSTREAM, "enabled": True}
    if any(run_dir.glob(pattern)):
        return {"dir": ".", "enabled": True}
    return {"dir": asked, "enabled": False}


def _inside(folder: str, run_dir: Path) -> str:
    """A folder relative to the run: an absolute one would be wrong after the run was moved."""
    try:
        return _relative(run_dir / folder, run_dir)
    except ValueError:
        return folder


def _files(run_dir: Path, pattern: str) -> list[str]:
    return [_relative(path, run_dir) for path in sorted(run_dir.glob(pattern))]


def _wandb(config: CleanRLWorkerConfig, run_dir: Path) -> Document | None:
    folders = [
        *run_dir.glob("wandb/run-*"),
        *run_dir.glob("wandb/offline-run-*"),
    ]
    if not folders:
        return None
    newest = max(folders, key=lambda folder: folder.stat().st_mtime)
    offline = newest.name.startswith("offline-")
    # Online, W&B itself has said where: the default team and a server of one's own are in it.
    said = {} if offline else read_json(run_dir / ADDRESS_FILE) or {}
    run_id = said.get("run_id") or newest.name.rpartition("-")[2]
    project = said.get("project") or config.extras.wandb_project_name or "cleanRL"
    entity = said.get("entity") or config.extras.wandb_entity
    guess = f"https://wandb.ai/{entity}/{project}/runs/{run_id}" if entity else None
    return {
        "run_id": run_id,
        "project": project,
        "entity": entity,
        "mode": "offline" if offline else "online",
        "dir": _relative(newest, run_dir),
        "url": None if offline else said.get("url") or guess,
    }


def _optuna(run_dir: Path) -> Document | None:
    path = run_dir / "optuna.db"
    return {"db": "optuna.db", "study": run_dir.name} if path.exists() else None


def _checkpoints(run_dir: Path) -> list[CheckpointEntry]:
    patterns = ("checkpoints/step-*", "*/checkpoints/step-*", f"{_UPSTREAM}/**/*{POLICY_SUFFIX}")
    found: list[CheckpointEntry] = [
        {
            "path": _relative(path, run_dir),
            "step": max(step_of(path), 0),
            "sha256": recorded_checksum(path),
            "kind": "policy" if path.suffix == POLICY_SUFFIX else "full",
        }
        for pattern in patterns
        for path in run_dir.glob(pattern)
        if path.suffix in (POLICY_SUFFIX, STATE_SUFFIX)
    ]
    return sorted(found, key=lambda item: (item["step"], item["path"]))


def _relative(path: Path, run_dir: Path) -> str:
    return path.relative_to(run_dir).as_posix()
