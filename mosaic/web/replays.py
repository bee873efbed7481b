"""Recorded episodes, step by step, with what the agent thought."""

from collections.abc import Iterator
from dataclasses import asdict

from mosaic.client import TrainerClient
from mosaic.presenting.mind import read_mind
from mosaic.records import EpisodeRecord, StepRecord

# Several minutes of play; a longer episode is cut, which the page says.
MOST_STEPS = 3000
_KINDS = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg"}


def episodes(client: TrainerClient, run_id: str) -> list[EpisodeRecord]:
    """The episodes that a run has recorded, oldest first."""
    # A summary is the last line of an evaluation, not an episode.
    return [
        episode
        for batch in client.episodes(run_id)
        for episode in batch.episodes
        if episode.outcome != "summary"
    ]


def captions(client: TrainerClient, run_id: str, episode: int) -> list[dict[str, object]]:
    """What happened in each step of an episode, and what the agent made of it."""
    found: list[dict[str, object]] = []
    total = 0.0
    for step in _steps(client, run_id, episode):
        total += step.reward
        mind = read_mind(step.info_json)
        found.append(
            {
                "seq": step.seq,
                "step": step.step,
                "action": step.action_json,
                "reward": step.reward,
                "total": total,
                "picture": bool(step.frame),
                "mind": asdict(mind) if mind else None,
            }
        )
        if len(found) == MOST_STEPS:
            break
    return found


def picture(client: TrainerClient, run_id: str, seq: int) -> tuple[bytes, str] | None:
    """The picture of a step and its media type; None if it has none."""
    for batch in client.steps(run_id, after=seq - 1):
        for step in batch.steps:
            if step.seq != seq or not step.frame:
                return None
            kind = next((kind for mark, kind in _KINDS.items() if step.frame.startswith(mark)), "")
            return (step.frame, kind) if kind else None
    return None


def _steps(client: TrainerClient, run_id: str, episode: int) -> Iterator[StepRecord]:
    for batch in client.steps(run_id, episode=episode):
        yield from batch.steps
