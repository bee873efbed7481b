"""What W&B keeps of a run in its folder: enough for a summary without a network."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from gym_gui.models.artifacts import WandbFolder
from gym_gui.models.wandb_proxy import may_be_shown, proxy_for

_METADATA = ("host", "python", "startedAt")
Document = Mapping[str, object]


@dataclass(frozen=True)
class WandbSummary:
    """A run as W&B's folder describes it.

    Attributes:
        mode: online or offline.
        url: The hosted page, when there is one.
        folder: The folder's name.
        facts: Names and values to show.
        sync_command: What sends an offline run to W&B, on the daemon's machine.
        proxy: Through which the hosted page is reached; empty for none.
    """

    mode: str
    url: str
    folder: str
    facts: tuple[tuple[str, str], ...]
    sync_command: str
    proxy: str = ""


def summarise(
    folder: WandbFolder, *, summary: Document, metadata: Document, config: Document, shown_at: str
) -> WandbSummary:
    """The summary of a run's W&B folder.

    Args:
        folder: The folder.
        summary: W&B's own last numbers.
        metadata: What W&B notes about the machine.
        config: The run's config, which knows the proxy.
        shown_at: The folder's path on the daemon's machine.
    """
    facts = list(folder.facts)
    facts += [(key, _short(value)) for key, value in sorted(summary.items()) if key[0] != "_"]
    facts += [(key, str(metadata[key])) for key in _METADATA if key in metadata]
    facts.append(("size on disk", f"{sum(folder.files.values()) / 1024:,.0f} kB"))
    shows_page = not folder.offline and may_be_shown(folder.url)
    return WandbSummary(
        "offline" if folder.offline else "online",
        folder.url if shows_page else "",
        folder.path.rpartition("/")[2],
        tuple(facts),
        f"wandb sync {shown_at}" if folder.offline else "",
        proxy_for(config, folder.url),
    )


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else text[:80] + "…"
