"""What W&B keeps of a run on this disk: enough for a summary without a network."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_gui.models.json_files import read_object
from gym_gui.models.wandb_proxy import may_be_shown, proxy_for

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
        proxy: Through which the hosted page is reached; empty for none.
    """

    mode: str
    url: str
    folder: str
    facts: tuple[tuple[str, str], ...]
    sync_command: str
    proxy: str = ""


def read_wandb(
    described: Mapping[str, Any], config: Mapping[str, Any] | None = None
) -> WandbSummary | None:
    """The summary of a run's W&B folder; None when there is none.

    Args:
        described: What the run's manifest says about W&B.
        config: The run's config, which knows the proxy.
    """
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
    return WandbSummary(
        mode,
        url if mode == "online" and may_be_shown(url) else "",
        folder.name,
        tuple(facts),
        f"wandb sync {folder}" if mode == "offline" else "",
        proxy_for(config or {}, url),
    )


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else text[:80] + "…"
