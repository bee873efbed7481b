"""A support bundle: what explains a run, with everything secret taken out."""

import json
import zipfile
from pathlib import Path

from mosaic.config.paths import confine
from mosaic.config.redaction import redact, redact_text
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
