"""A round robin at tables for several players: every two agents meet in a run of their own.

Bots, chance and language models sit there by name, `run:ID` is the newest policy of a run. People
sit down when they like to (`invite`); what they have played is looked for.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from pydantic import JsonValue

from mosaic.arena.elo import TableGame
from mosaic.arena.match import BDI, HUMAN, RUN, Match, check_agents
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
_NO_BDI = (
    "bdi cannot sit at a table: a BDI agent decides by values of numbered states, and the boards "
    "have no such numbers; name bot, random, human, llm:MODEL or run:ID"
)


def has_tables(env_id: str) -> bool:
    """Whether several agents act in an environment, by the word of the arena's worker."""
    listed = hooks.environments(worker_for("arena"))
    return any(one["id"] == env_id and one.get("agents", 1) > 1 for one in listed)


def seated(trainer: TrainerClient, agents: Sequence[str]) -> list[str]:
    """The agents by the names that their games carry: a run's whole id, however it was typed.

    Raises:
        MosaicError: There is no such run.
        InvalidArgumentError: One of them cannot sit at a table.
    """
    if BDI in agents:
        raise InvalidArgumentError(_NO_BDI)
    return [
        f"{RUN}{trainer.get(agent.removeprefix(RUN)).run_id}" if agent.startswith(RUN) else agent
        for agent in agents
    ]


def start_round(
    trainer: TrainerClient, agents: Sequence[str], match: Match
) -> dict[Pair, RunRecord]:
    """Let every two agents play each seed twice, once in each order of the seats.

    People play when they like to: their pairs are not among those that are returned.

    Args:
        trainer: The daemon.
        agents: By the names that `seated` gives.
        match: What is played.

    Raises:
        MosaicError: A policy is not there, or its worker keeps it to itself.
    """
    policies = find_policies(trainer, agents)
    others = [agent for agent in agents if agent != HUMAN]
    tables = {pair: _table(pair, match, policies) for pair in combinations(others, 2)}
    # Whether a policy fits the game is found out at its first table: those come first, so that
    # the others do not play in vain.
    runs = {pair: trainer.submit(tables[pair]) for pair in _doubtful_first(tables)}
    return {pair: runs[pair] for pair in tables}


def invite(trainer: TrainerClient, against: str, match: Match) -> RunRecord:
    """A table at which a person plays, which waits for a `PlayClient`.

    Raises:
        MosaicError: The environment has no seats for two, or the other agent cannot sit there.
    """
    if not has_tables(match.env_id):
        raise InvalidArgumentError(
            f"{match.env_id} has one player; leave out who plays against you"
        )
    check_agents([HUMAN, against])
    (other,) = seated(trainer, [against])
    pair = (HUMAN, other)
    return trainer.submit(_table(pair, match, find_policies(trainer, pair)))


def games_of_people(
    trainer: TrainerClient, agents: Sequence[str], match: Match
) -> dict[Pair, list[TableGame]]:
    """What people have played with each of the agents: each seed in each order, the first time.

    Args:
        trainer: The daemon.
        agents: By the names that `seated` gives; without `human` there is nothing to find.
        match: What is played.
    """
    if HUMAN not in agents:
        return {}
    pairs = [pair for pair in combinations(agents, 2) if HUMAN in pair]
    worker = worker_for("arena").worker_type
    page = trainer.list_runs(worker=worker, env_id=match.env_id, page_size=500)
    found: dict[tuple[tuple[str, ...], int], TableGame] = {}
    for run in reversed(page.runs):
        for game in games_so_far(trainer, run.run_id) if HUMAN in run.tags else ():
            found.setdefault((game.seats, game.seed), game)
    return {
        pair: [
            game
            for (seats, seed), game in found.items()
            if set(seats) == set(pair) and seed in match.seeds
        ]
        for pair in pairs
    }


def check_people_have_played(
    trainer: TrainerClient, agents: Sequence[str], match: Match
) -> dict[Pair, list[TableGame]]:
    """What people have played, if they have met every other agent.

    Raises:
        MosaicError: They have not; with the command that begins a game.
    """
    played = games_of_people(trainer, agents, match)
    for pair, games in played.items():
        if not games:
            (other,) = set(pair) - {HUMAN}
            raise MosaicError(
                f"{HUMAN}: no person has played {match.env_id} with {other} on the seeds "
                f"{match.seed} to {match.seeds[-1]}; play: mosaic play {match.env_id} "
                f"--against {other} --seed {match.seed}"
            )
    return played


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
            name=f"arena: {' against '.join(pair)}"[: build.LONGEST_NAME],
            tags=("arena", HUMAN) if HUMAN in pair else ("arena",),
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
