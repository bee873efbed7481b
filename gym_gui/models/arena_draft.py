"""What the arena's page compares, as it is stored between two openings of the window."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mosaic.arena.match import BDI, HUMAN, MODEL, SCRIPTED, Match

# Offered from the beginning; the first ones are ticked.
OFFERED = (*reversed(SCRIPTED), f"{MODEL}embedded", HUMAN, BDI)
_TICKED = 3


@dataclass(frozen=True)
class ArenaDraft:
    """The page's form, and the runs of the match that it shows.

    Attributes:
        agents: Every agent that is listed, and whether it is ticked.
        runs: The run of each agent of the newest match; empty when none was started.
        played: What that match was about.
    """

    match: Match
    agents: Mapping[str, bool] = field(
        default_factory=lambda: {name: at < _TICKED for at, name in enumerate(OFFERED)}
    )
    runs: Mapping[str, str] = field(default_factory=dict)
    played: Match | None = None

    def to_json(self) -> dict[str, object]:
        """For storing."""
        return {
            "match": _from_match(self.match),
            "agents": dict(self.agents),
            "runs": dict(self.runs),
            "played": _from_match(self.played) if self.played else None,
        }


FIRST = ArenaDraft(Match("BabyAI-GoToObj-v0", 1001, 20))


def read_draft(document: object) -> ArenaDraft:
    """What was stored; the first draft when that makes no sense."""
    try:
        return _read(document)
    except (KeyError, TypeError, ValueError):
        return FIRST


def _read(document: object) -> ArenaDraft:
    if not isinstance(document, dict):
        raise TypeError("a draft is an object")
    agents = {str(name): bool(on) for name, on in document["agents"].items()}
    runs = {str(agent): str(run_id) for agent, run_id in document["runs"].items()}
    played = document["played"]
    return ArenaDraft(
        _to_match(document["match"]), agents, runs, _to_match(played) if played else None
    )


def _from_match(match: Match) -> list[object]:
    return [match.env_id, match.seed, match.episodes, match.max_steps]


def _to_match(stored: object) -> Match:
    if not isinstance(stored, list):
        raise TypeError("a match is a list")
    env_id, seed, episodes, max_steps = stored
    return Match(str(env_id), int(seed), int(episodes), int(max_steps))
