"""A run's `analytics.json`, read with suspicion: a path that lies is not available."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mosaic.config.paths import confine
from mosaic.errors import ConfinementError


@dataclass(frozen=True)
class Manifest:
    """What a run left behind, as far as it is really there.

    Attributes:
        tensorboard: The folder with event files.
        wandb: W&B's own description of the run, with `dir` resolved.
        optuna: The study's file.
        videos: Captured videos.
        problem: Why the manifest could not be read.
    """

    tensorboard: Path | None = None
    wandb: Mapping[str, Any] = field(default_factory=dict)
    optuna: Path | None = None
    videos: tuple[Path, ...] = ()
    problem: str = ""


def read_manifest(run_dir: Path) -> Manifest:
    """What is there now; the manifest comes at the end of a run, its folders before."""
    document, problem = _load(run_dir / "analytics.json")
    artifacts = document.get("artifacts")
    artifacts = artifacts if isinstance(artifacts, Mapping) else {}
    tensorboard = _inside(run_dir, _dig(artifacts, "tensorboard", "dir") or "tensorboard")
    optuna = _inside(run_dir, _dig(artifacts, "optuna", "db") or "optuna.db")
    listed = artifacts.get("videos")
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    names += [str(path.relative_to(run_dir)) for path in sorted(run_dir.glob("videos/*.mp4"))]
    videos = [_inside(run_dir, name) for name in dict.fromkeys(names)]
    return Manifest(
        tensorboard=tensorboard if tensorboard and _has_events(tensorboard) else None,
        wandb=_wandb(run_dir, artifacts),
        optuna=optuna,
        videos=tuple(video for video in videos if video is not None),
        problem=problem,
    )


def wandb_folders(run_dir: Path) -> list[Path]:
    """The folders W&B made for this run, newest last."""
    found = [*run_dir.glob("wandb/run-*"), *run_dir.glob("wandb/offline-run-*")]
    return sorted(found, key=lambda path: path.name.split("run-")[-1])


def _wandb(run_dir: Path, artifacts: Mapping[str, Any]) -> Mapping[str, Any]:
    said = artifacts.get("wandb")
    said = dict(said) if isinstance(said, Mapping) else {}
    folders = wandb_folders(run_dir)
    if not folders:
        return {}
    folder = _inside(run_dir, str(said.get("dir") or "")) if said.get("dir") else None
    chosen = folder or folders[-1]
    mode = "offline" if chosen.name.startswith("offline-") else "online"
    return {**said, "dir": chosen, "mode": mode}


def _inside(run_dir: Path, name: str) -> Path | None:
    try:
        path = confine(run_dir, name)
    except (ConfinementError, OSError):
        return None
    return path if path.exists() else None


def _has_events(folder: Path) -> bool:
    return next(folder.glob("**/events.out.tfevents.*"), None) is not None


def _dig(document: Mapping[str, Any], *keys: str) -> str:
    value: Any = document
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else ""


def _load(path: Path) -> tuple[Mapping[str, Any], str]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, ""
    except (OSError, ValueError) as error:
        return {}, f"analytics.json cannot be read: {error}"
    if not isinstance(document, Mapping):
        return {}, "analytics.json is no manifest"
    return document, ""
