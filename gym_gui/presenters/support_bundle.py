"""A support bundle: what explains a run, with everything secret taken out."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

from mosaic.config.paths import confine
from mosaic.config.secrets import looks_secret
from mosaic.errors import ConfinementError

_DOCUMENTS = (
    "config.json",
    "provenance.json",
    "supervisor.json",
    "exit.json",
    "analytics.json",
)
_TEXTS = ("events.jsonl", "logs/stdout.log", "logs/stderr.log")
_TAIL_BYTES = 512 * 1024
_HIDDEN = "[removed]"
_ASSIGNMENT = re.compile(
    r"(?i)((?:api[_-]?key|secret|passw(?:or)?d|token|authorization)[\"']?\s*[:=]\s*[\"']?)"
    r"([^\s\"',}]+)"
)
_LONG_HEX = re.compile(r"\b[0-9a-f]{40}\b")


def redact_text(text: str) -> str:
    """Lines without what looks like a secret."""
    hidden = _ASSIGNMENT.sub(lambda match: match[1] + _HIDDEN, text)
    return _LONG_HEX.sub(_HIDDEN, hidden)


def redact(value: Any, name: str = "") -> Any:
    """A document without what looks like a secret."""
    if looks_secret(name) and value not in (None, "", True, False):
        return _HIDDEN
    if isinstance(value, dict):
        return {key: redact(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [redact(item) for item in value]
    return value


def write_bundle(run_dir: Path, target: Path) -> int:
    """Write the bundle of a run; returns how many files are in it.

    Raises:
        OSError: It cannot be written there.
    """
    count = 0
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name in _DOCUMENTS:
            text = _read(run_dir, name)
            if text is not None:
                bundle.writestr(name, _redacted_document(text))
                count += 1
        for name in _TEXTS:
            text = _read(run_dir, name)
            if text is not None:
                bundle.writestr(name, redact_text(text))
                count += 1
    return count


def _redacted_document(text: str) -> str:
    try:
        return json.dumps(redact(json.loads(text)), indent=1)
    except ValueError:
        return redact_text(text)


def _read(run_dir: Path, name: str) -> str | None:
    try:
        with confine(run_dir, name).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except (OSError, ConfinementError):
        return None
