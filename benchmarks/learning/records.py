"""Where the learning records are: an algorithm's own file, and one for each further environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "results" / "learning"


def records_of(algorithm: str, folder: Path = FOLDER) -> list[dict[str, Any]]:
    """All records of an algorithm, that of its own file first."""
    own = folder / f"{algorithm}.json"
    further = sorted(folder.glob(f"{algorithm}-*.json"))
    return [json.loads(path.read_text("utf-8")) for path in (own, *further) if path.exists()]


def place_for(algorithm: str, env_id: str, folder: Path = FOLDER) -> Path:
    """The file of a new record: the algorithm's own, unless it tells of another environment."""
    own = folder / f"{algorithm}.json"
    if own.exists() and json.loads(own.read_text("utf-8"))["env_id"] != env_id:
        return folder / f"{algorithm}-{env_id}.json"
    return own
