"""Packs the learning records for the health rules: `python -m benchmarks.learning.known_curves`.

The daemon compares live runs with what an algorithm is known to reach (`mosaic/health/known.py`).
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.learning.records import FOLDER
from mosaic.health.known import KnownDocument

ROOT = Path(__file__).resolve().parents[2]
PACKED = ROOT / "mosaic" / "health" / "known_curves.json"
FEWEST_SEEDS = 3


def main() -> None:
    """Write the file that the package carries."""
    PACKED.write_text(packed(), encoding="utf-8")


def packed() -> str:
    """The records of several seeds, as the package carries them."""
    records = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]
    chosen = [_entry(record) for record in records if len(record["runs"]) >= FEWEST_SEEDS]
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in chosen)
    return f"[\n{lines}\n]\n"


def _entry(record: dict[str, Any]) -> KnownDocument:
    curves = [run["curve"] for run in record["runs"]]
    # Seeds report at steps of their own; each point asks what every seed had reached by then.
    begun = max(curve[0][0] for curve in curves)
    steps = [step for step, _ in curves[0] if step >= begun]
    flags = " ".join(
        f"--{name.replace('_', '-')} {value}" for name, value in record["flags"].items()
    )
    command = (
        f"mosaic train {record['algorithm']} --env-id {record['env_id']} "
        f"--total-timesteps {record['total_timesteps']} {flags}"
    )
    return KnownDocument(
        algorithm=record["algorithm"],
        env_id=record["env_id"],
        seeds=len(curves),
        total=int(record["total_timesteps"]),
        random=float(record["random_return"]),
        command=command.strip(),
        lowest=[[step, min(_reached(curve, step) for curve in curves)] for step in steps],
    )


def _reached(curve: Sequence[Sequence[float]], step: float) -> float:
    return curve[bisect_right(curve, step, key=lambda point: point[0]) - 1][1]


if __name__ == "__main__":
    main()
