"""The window's own small files: written whole, read defensively."""

import json
from pathlib import Path

from mosaic.config.json_types import JsonValue
from mosaic.config.paths import Home
from mosaic.system import atomic


def window_folder(home: Home) -> Path:
    """Where the window keeps what is its own."""
    return home.root / "gui"


def write_json(path: Path, document: object) -> None:
    """Write a document so that a reader sees the old or the new one, never half of it."""
    # Drafts and layouts are private, whatever the umask says.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    atomic.write_json(path, document, mode=0o600)


def read_json(path: Path) -> JsonValue:
    """The document, or None when there is none.

    Raises:
        ValueError: The file is there but is not JSON.
    """
    try:
        document: JsonValue = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return document
