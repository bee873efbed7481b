"""A round robin at tables for several players: every two agents meet in a run of their own."""

import json
from collections.abc import Sequence
from itertools import combinations

from mosaic.arena.elo import TableGame
from mosaic.arena.match import MODEL, SCRIPTED, Match
from mosaic.client.sdk import TrainerClient
from mosaic.config import build
from mosaic.errors import InvalidArgumentError, MosaicError
from mosaic.records import RunRecord
from mosaic.records.run import Outcome
from mosaic.records.streams import EpisodeRecord
from mosaic.workers import hooks
from mosaic.workers.algorithms import worker_for

Pair = tuple[str, str]


def has_tables(env_id: str) -> bool:
    """Whether several agents act in an environment, by the word of the arena's worker."""
    listed = hooks.environments(worker_for("arena"))
    return any(one["id"] == env_id and one.get("agents", 1) > 1 for one in listed)


def start_round(
    trainer: TrainerClient, agents: Sequence[str], match: Match
) -> dict[Pair, RunRecord]:
    """Let every two agents play each seed twice, once in each order of the seats.

    Raises:
        InvalidArgumentError: One of them cannot sit at a table.
    """
    for agent in agents:
        if agent not in SCRIPTED and not agent.startswith(MODEL):
            raise InvalidArgumentError(
                f"{agent} cannot sit at a table of {match.env_id}; "
                f"those who can: {', '.join(SCRIPTED)}, llm:MODEL"
            )
    return {pair: _submit(trainer, pair, match) for pair in combinations(agents, 2)}


def games_so_far(trainer: TrainerClient, run_id: str) -> list[TableGame]:
    """The games of a run that were played to their end."""
    return [
        _game(run_id, one)
        for batch in trainer.episodes(run_id)
        for one in batch.episodes
        if one.outcome not in ("stopped", "budget", "summary")
    ]


def collect_games(trainer: TrainerClient, runs: dict[Pair, RunRecord]) -> list[TableGame]:
    """All games of a round whose runs have ended.

    Raises:
        MosaicError: A run failed.
    """
    for pair, run in runs.items():
        if not run.completed and run.outcome is not Outcome.BUDGET:
            who = " against ".join(pair)
            raise MosaicError(f"{who}: run {run.run_id} ended {run.outcome}: {run.reason}")
    return [game for run in runs.values() for game in games_so_far(trainer, run.run_id)]


def _submit(trainer: TrainerClient, pair: Pair, match: Match) -> RunRecord:
    worker = worker_for("arena")
    config = build.train(
        build.Worker(worker.worker_type, worker.module),
        worker.worker_type,
        env_id=match.env_id,
        seed=match.seed,
        parameters={
            "players": ",".join(pair),
            "episodes": len(pair) * match.episodes,
            "max_steps": match.max_steps,
        },
        wishes=build.Wishes(
            name=f"arena: {' against '.join(pair)}"[: build.LONGEST_NAME], tags=("arena",)
        ),
    )
    return trainer.submit(config)


def _game(run_id: str, one: EpisodeRecord) -> TableGame:
    told = json.loads(one.info_json)
    return TableGame(
        tuple(told["seats"]),
        tuple(float(score) for score in told["scores"]),
        one.seed,
        run_id,
        one.episode,
        bool(told["cooperative"]),
    )
