"""What an agent believes and intends, as the steps of a telemetry run carry it."""

import json
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Mind:
    """An agent's state of mind at one step."""

    decision: str
    intention: str
    beliefs: tuple[str, ...]

    def changed_since(self, before: Self | None) -> frozenset[str]:
        """The beliefs that were not held before."""
        return frozenset(self.beliefs) - frozenset(before.beliefs if before else ())


def read_mind(info_json: str) -> Mind | None:
    """The mind in a step's info; None for agents that tell nothing of it."""
    if '"beliefs"' not in info_json:
        return None
    try:
        info = json.loads(info_json)
    except ValueError:
        return None
    beliefs = info.get("beliefs") if isinstance(info, dict) else None
    if not isinstance(beliefs, list):
        return None
    return Mind(
        str(info.get("decision", "")),
        str(info.get("intention", "")),
        tuple(str(belief) for belief in beliefs),
    )
