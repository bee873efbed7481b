"""The window's own small files: written whole, read with suspicion."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from mosaic.config.paths import Home


def window_folder(home: Home) -> Path:
    """Where the window keeps what is its own."""
    return home.root / "gui"


def write_json(path: Path, document: Any) -> None:
    """Write a document so that a reader sees the old or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> Any:
    """The document, or None when there is none.

    Raises:
        ValueError: The file is there but is no JSON text.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
