"""What W&B keeps of a run on this disk: enough for a summary without a network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_gui.models.json_files import read_object

_METADATA = ("host", "python", "startedAt")


@dataclass(frozen=True)
class WandbSummary:
    """A run as W&B's folder describes it.

    Attributes:
        mode: online or offline.
        url: The hosted page, when there is one.
        folder: Where it lies.
        facts: Names and values to show.
        sync_command: What sends an offline run to W&B.
    """

    mode: str
    url: str
    folder: str
    facts: tuple[tuple[str, str], ...]
    sync_command: str


def read_wandb(described: Mapping[str, Any]) -> WandbSummary | None:
    """The summary of a run's W&B folder; None when there is none."""
    folder = described.get("dir")
    if not isinstance(folder, Path) or not folder.is_dir():
        return None
    mode = str(described.get("mode") or "offline")
    facts: list[tuple[str, str]] = []
    for name in ("project", "entity", "run_id"):
        if described.get(name):
            facts.append((name.replace("_", " "), str(described[name])))
    summary = read_object(folder / "files" / "wandb-summary.json")
    facts += [(key, _short(value)) for key, value in sorted(summary.items()) if key[0] != "_"]
    metadata = read_object(folder / "files" / "wandb-metadata.json")
    facts += [(key, str(metadata[key])) for key in _METADATA if key in metadata]
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    facts.append(("size on disk", f"{size / 1024:,.0f} kB"))
    url = str(described.get("url") or "")
    allowed = url.startswith("https://")
    return WandbSummary(
        mode,
        url if allowed and mode == "online" else "",
        folder.name,
        tuple(facts),
        f"wandb sync {folder}" if mode == "offline" else "",
    )


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else text[:80] + "…"
