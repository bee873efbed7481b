"""Agents in the arena: each name becomes a run that plays the seeds, or one that has played them.

`run:ID` takes the episodes that a run has recorded (a person, a BDI agent, a language model); a
run that only has a policy is evaluated. `human` takes what people have played, `bdi` evaluates the
newest BDI agent that was trained in the environment. Any other name is played by the worker that
has the mode `arena`, which knows `bot`, `random` and language models.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from pydantic import JsonValue

from mosaic.arena.match import BDI, HUMAN, MODEL, RUN, Match
from mosaic.arena.table import Played, PlayedEpisode
from mosaic.client.sdk import TrainerClient
from mosaic.config import build
from mosaic.errors import InvalidArgumentError, MosaicError
from mosaic.records import RunRecord
from mosaic.records.run import Outcome
from mosaic.records.streams import EpisodeRecord
from mosaic.workers.algorithms import worker_for
from mosaic.workers.discovery import discover

_EVALUATION = "eval_summary.json"
# What was not played to its end says nothing about the agent; a summary is no episode.
_NOT_PLAYED = ("left", "stopped", "budget", "summary")


@dataclass(frozen=True)
class _Recorded:
    """An episode with what it cost; None where the worker does not say."""

    episode: PlayedEpisode
    tokens: int
    cost: float | None
    seconds: float | None


def start(trainer: TrainerClient, agent: str, match: Match) -> RunRecord:
    """The run with an agent's episodes; submitted now unless it has played already.

    Raises:
        MosaicError: There is no such run, or nothing that the name stands for.
    """
    if agent == HUMAN:
        games = _games(trainer, match)
        if not games:
            raise _nothing_played(HUMAN, match)
        return games[0]
    if agent == BDI:
        return _evaluated(trainer, _newest_bdi(trainer, match), match)
    if agent.startswith(RUN):
        return _existing(trainer, agent, match)
    parameters: dict[str, JsonValue] = {
        "model": agent.removeprefix(MODEL),
        "episodes": match.episodes,
    }
    if match.max_steps:
        parameters["max_steps"] = match.max_steps
    worker = worker_for("arena")
    config = build.train(
        build.Worker(worker.worker_type, worker.module),
        worker.worker_type,
        env_id=match.env_id,
        seed=match.seed,
        parameters=parameters,
        wishes=build.Wishes(name=f"arena: {agent}"[: build.LONGEST_NAME], tags=("arena",)),
    )
    return trainer.submit(config)


def start_all(trainer: TrainerClient, agents: Sequence[str], match: Match) -> dict[str, RunRecord]:
    """The runs of several agents, in the order in which they were named.

    Those that may not exist are looked for first, so that no other plays in vain.
    """
    doubtful = [agent for agent in agents if agent in (HUMAN, BDI) or agent.startswith(RUN)]
    started = {agent: start(trainer, agent, match) for agent in dict.fromkeys([*doubtful, *agents])}
    return {agent: started[agent] for agent in agents}


def so_far(trainer: TrainerClient, agent: str, run_id: str, match: Match) -> Played:
    """What an agent has played by now: nothing, some of the seeds, or all of them.

    Args:
        trainer: The daemon that has the run.
        agent: As it was named.
        run_id: Its run; not needed for `human`, whose games are looked for.
        match: What is played.
    """
    if agent == HUMAN:
        return _of_people(trainer, match)
    recorded = _recorded(trainer, run_id, match)
    if recorded:
        return _played(agent, run_id, recorded)
    if _EVALUATION in {file.path for file in trainer.files(run_id)}:
        return _of_evaluation(agent, run_id, trainer)
    return Played(agent, run_id, [])


def collect(trainer: TrainerClient, agent: str, record: RunRecord, match: Match) -> Played:
    """What an agent has played, once its run has ended.

    Raises:
        MosaicError: The run failed, or has nothing to show.
    """
    ended_well = record.completed or record.outcome is Outcome.BUDGET
    if not ended_well and not agent.startswith(RUN) and agent != HUMAN:
        raise MosaicError(f"{agent}: run {record.run_id} ended {record.outcome}: {record.reason}")
    played = so_far(trainer, agent, record.run_id, match)
    if not played.episodes:
        raise _nothing_played(agent, match)
    return played


def _nothing_played(agent: str, match: Match) -> MosaicError:
    return MosaicError(
        f"{agent}: none of the seeds {match.seed} to {match.seeds[-1]} was played; "
        f"play them, for instance: mosaic play {match.env_id} --seed {match.seed}"
    )


def _games(trainer: TrainerClient, match: Match) -> list[RunRecord]:
    """The games that people play or have played in the environment, newest first."""
    worker = worker_for("play").worker_type
    page = trainer.list_runs(worker=worker, env_id=match.env_id, page_size=500)
    # A script of keys is played by the same worker, but no person plays.
    # In a session a policy took some of the steps: it is no game of a person's.
    alone = [run for run in page.runs if run.mode != "take_over"]
    return [run for run in alone if not _is_scripted(trainer, run.run_id)]


def _is_scripted(trainer: TrainerClient, run_id: str) -> bool:
    return "script" in (build.read_config(trainer.config(run_id)).worker.extras.model_extra or {})


def _of_people(trainer: TrainerClient, match: Match) -> Played:
    """The first time that each seed was played, over all games."""
    games = _games(trainer, match)
    found: dict[int | None, _Recorded] = {}
    for run in reversed(games):
        for one in _recorded(trainer, run.run_id, match):
            found.setdefault(one.episode.seed, one)
    episodes = [found[seed] for seed in match.seeds if seed in found]
    return _played(HUMAN, games[0].run_id if games else "", episodes)


def _newest_bdi(trainer: TrainerClient, match: Match) -> RunRecord:
    worker = worker_for(BDI).worker_type
    page = trainer.list_runs(worker=worker, env_id=match.env_id, page_size=500)
    trained = [run for run in page.runs if run.newest_checkpoint("policy") is not None]
    if not trained:
        raise MosaicError(
            f"bdi: no BDI agent was trained in {match.env_id}; "
            f"run: mosaic train {worker} --env-id {match.env_id}"
        )
    return trained[0]


def _existing(trainer: TrainerClient, agent: str, match: Match) -> RunRecord:
    base = trainer.get(agent.removeprefix(RUN))
    if base.env_id and base.env_id != match.env_id:
        raise InvalidArgumentError(f"{agent} plays {base.env_id}, not {match.env_id}")
    if base.newest_checkpoint("policy") is None:
        return base
    return _evaluated(trainer, base, match)


def _evaluated(trainer: TrainerClient, base: RunRecord, match: Match) -> RunRecord:
    """The evaluation of a run's policy on the seeds.

    Each episode can be seen again: it is filmed, or recorded step by step by a worker that does so.
    """
    worker = discover()[base.worker].capabilities
    config = build.evaluate(
        base,
        episodes=match.episodes,
        seed=match.seed,
        max_steps=match.max_steps or None,
        each_seed=True,
        video=worker is not None and "video" in worker.options,
        tags=("arena",),
    )
    return trainer.submit(config, parent_run_id=base.run_id)


def _of_evaluation(agent: str, run_id: str, trainer: TrainerClient) -> Played:
    """The episodes of an evaluation; they have seeds if its worker seeds each one."""
    found = trainer.read_file(run_id, _EVALUATION).document()
    returns, lengths = _numbers(found, "returns"), _numbers(found, "lengths")
    seeds: list[int | None] = [int(seed) for seed in _numbers(found, "seeds")]
    episodes = [
        PlayedEpisode(seed, total, int(length), run_id)
        for seed, total, length in zip_longest(seeds, returns, lengths)
    ]
    return Played(agent, run_id, episodes)


def _numbers(document: object, name: str) -> Sequence[float]:
    values = document.get(name) if isinstance(document, dict) else None
    return [float(v) for v in values] if isinstance(values, list) else []


def _recorded(trainer: TrainerClient, run_id: str, match: Match) -> list[_Recorded]:
    """The first time that each seed was played to its end."""
    found: dict[int, _Recorded] = {}
    for batch in trainer.episodes(run_id):
        for one in batch.episodes:
            if one.seed in match.seeds and one.outcome not in _NOT_PLAYED:
                found.setdefault(one.seed, _with_costs(run_id, one))
    return [found[seed] for seed in sorted(found)]


def _with_costs(run_id: str, one: EpisodeRecord) -> _Recorded:
    told = json.loads(one.info_json or "{}")
    facts = told if isinstance(told, dict) else {}
    seconds, cost = facts.get("seconds"), facts.get("cost", 0.0)
    return _Recorded(
        PlayedEpisode(one.seed, one.total_reward, one.length, run_id, one.episode),
        int(facts.get("tokens") or 0),
        None if cost is None else float(cost),
        None if seconds is None else float(seconds),
    )


def _played(agent: str, run_id: str, recorded: Sequence[_Recorded]) -> Played:
    return Played(
        agent,
        run_id,
        [one.episode for one in recorded],
        sum(one.tokens for one in recorded),
        _sum([one.cost for one in recorded]),
        _sum([one.seconds for one in recorded]) if recorded else None,
    )


def _sum(numbers: Sequence[float | None]) -> float | None:
    """The sum; None when one of them is unknown."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
