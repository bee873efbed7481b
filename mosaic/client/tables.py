"""A round robin at tables for several players: every two agents meet in a run of their own.

Bots, chance and language models sit there by name, `run:ID` is the newest policy of a run.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from pydantic import JsonValue

from mosaic.arena.elo import TableGame
from mosaic.arena.match import MODEL, RUN, SCRIPTED, Match
from mosaic.client.sdk import TrainerClient
from mosaic.config import build
from mosaic.config.model import TrainRunConfig
from mosaic.errors import InvalidArgumentError, MosaicError
from mosaic.records import RunRecord
from mosaic.records.run import Outcome
from mosaic.records.streams import EpisodeRecord
from mosaic.workers import hooks
from mosaic.workers.algorithms import worker_for
from mosaic.workers.discovery import discover

Pair = tuple[str, str]
# For each `run:ID`: the worker that trained it, where its policies are, its environment.
Policies = Mapping[str, dict[str, JsonValue]]


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
        if agent not in SCRIPTED and not agent.startswith((MODEL, RUN)):
            raise InvalidArgumentError(
                f"{agent} cannot sit at a table of {match.env_id}; "
                f"those who can: {', '.join(SCRIPTED)}, llm:MODEL, run:ID"
            )
    policies = find_policies(trainer, agents)
    tables = {pair: _table(pair, match, policies) for pair in combinations(agents, 2)}
    # Whether a policy fits the game is found out at its first table: those come first, so that
    # the others do not play in vain.
    runs = {pair: trainer.submit(tables[pair]) for pair in _doubtful_first(tables)}
    return {pair: runs[pair] for pair in tables}


def find_policies(trainer: TrainerClient, agents: Sequence[str]) -> Policies:
    """Where the policy of each `run:ID` among the agents is, as the arena's worker wants it.

    Raises:
        MosaicError: There is no such run, it has no policy, or its worker keeps it to itself.
    """
    return {agent: _policy(trainer, agent) for agent in agents if agent.startswith(RUN)}


def _policy(trainer: TrainerClient, agent: str) -> dict[str, JsonValue]:
    base = trainer.get(agent.removeprefix(RUN))
    if base.newest_checkpoint("policy") is None:
        raise InvalidArgumentError(f"{agent} cannot sit at a table: it has saved no policy")
    able = [
        name
        for name, found in discover().items()
        if found.capabilities and "interactive" in found.capabilities.modes
    ]
    if base.worker not in able:
        raise InvalidArgumentError(
            f"{agent} cannot sit at a table: agents of the worker {base.worker} act only in the "
            f"environment that they were trained in; those of {', '.join(able)} can be asked for "
            "a move"
        )
    return {"worker": base.worker, "path": build.saved_by(base, "policy"), "env_id": base.env_id}


def games_so_far(trainer: TrainerClient, run_id: str) -> list[TableGame]:
    """The games of a run that were played to their end."""
    return [
        _game(run_id, one)
        for batch in trainer.episodes(run_id)
        for one in batch.episodes
        if one.outcome not in ("stopped", "budget", "summary")
    ]


def wait_for_games(trainer: TrainerClient, runs: Mapping[Pair, RunRecord]) -> list[TableGame]:
    """All games of a round, once its runs have ended.

    Raises:
        MosaicError: A run failed; those that still played are cancelled.
    """
    for pair in _doubtful_first(runs):
        run = trainer.wait(runs[pair].run_id)
        if not run.completed and run.outcome is not Outcome.BUDGET:
            for other in runs.values():
                if trainer.get(other.run_id).live:
                    trainer.cancel(other.run_id)
            who = " against ".join(pair)
            raise MosaicError(f"{who}: run {run.run_id} ended {run.outcome}: {run.reason}")
    return [game for run in runs.values() for game in games_so_far(trainer, run.run_id)]


def _table(pair: Pair, match: Match, policies: Policies) -> TrainRunConfig:
    seated: dict[str, JsonValue] = {name: policies[name] for name in pair if name in policies}
    worker = worker_for("arena")
    return build.train(
        build.Worker(worker.worker_type, worker.module),
        worker.worker_type,
        env_id=match.env_id,
        seed=match.seed,
        parameters={
            "players": ",".join(pair),
            "episodes": len(pair) * match.episodes,
            "max_steps": match.max_steps,
            "policies": seated,
        },
        wishes=build.Wishes(
            name=f"arena: {' against '.join(pair)}"[: build.LONGEST_NAME], tags=("arena",)
        ),
    )


def _doubtful_first(pairs: Iterable[Pair]) -> list[Pair]:
    return sorted(pairs, key=lambda pair: not any(name.startswith(RUN) for name in pair))


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
