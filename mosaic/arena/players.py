"""Agents in the arena: each name becomes a run that plays the seeds, or one that has played them.

`run:ID` takes the episodes that a run has recorded (a person, a BDI agent, a language model); a
run that only has a policy is evaluated. `human` takes what people have played. Any other name is
played by the worker that has the mode `arena`, which knows `bot`, `random` and language models.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypedDict, cast

from pydantic import JsonValue

from mosaic.arena.table import Played, PlayedEpisode
from mosaic.client import TrainerClient
from mosaic.config import build
from mosaic.config.suggest import did_you_mean
from mosaic.errors import InvalidArgumentError, MosaicError
from mosaic.records import RunRecord
from mosaic.records.run import Outcome
from mosaic.workers.algorithms import worker_for

RUN, MODEL, HUMAN = "run:", "llm:", "human"
SCRIPTED = ("bot", "random")
_SUMMARY, _EVALUATION = "llm/summary.json", "eval_summary.json"


@dataclass(frozen=True)
class Match:
    """What every agent plays."""

    env_id: str
    seed: int
    episodes: int
    max_steps: int = 0

    @property
    def seeds(self) -> range:
        """The seeds of the episodes."""
        return range(self.seed, self.seed + self.episodes)


class _Summary(TypedDict):
    per_episode: list[dict[str, float]]
    tokens: dict[str, int]
    cost: float | None
    seconds: float


def read_agents(text: str) -> list[str]:
    """The agents of `--agents`, checked.

    Raises:
        InvalidArgumentError: One of them is no agent, or there are fewer than two.
    """
    agents = [name.strip() for name in text.split(",") if name.strip()]
    for name in agents:
        if name not in (*SCRIPTED, HUMAN) and not name.startswith((RUN, MODEL)):
            near = did_you_mean(name, [*SCRIPTED, HUMAN, RUN, MODEL])
            raise InvalidArgumentError(
                f"{name!r} is no agent{near}; write run:ID, llm:MODEL, human, bot or random"
            )
    if len(set(agents)) < 2:
        raise InvalidArgumentError("an arena needs at least two different agents")
    return list(dict.fromkeys(agents))


def start(trainer: TrainerClient, agent: str, match: Match) -> RunRecord:
    """The run with an agent's episodes; submitted now unless it has played already."""
    if agent.startswith(RUN):
        return _existing(trainer, agent, match)
    if agent == HUMAN:
        return _games(trainer, match)[0]
    model = agent.removeprefix(MODEL)
    parameters: dict[str, JsonValue] = {"model": model, "episodes": match.episodes}
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


def collect(trainer: TrainerClient, agent: str, record: RunRecord, match: Match) -> Played:
    """What an agent has played, once its run has ended.

    Raises:
        MosaicError: The run failed, or has nothing to show.
    """
    if agent == HUMAN:
        return _of_people(trainer, match)
    played = record.completed or record.outcome is Outcome.BUDGET
    if not played and not agent.startswith(RUN):
        raise MosaicError(f"{agent}: run {record.run_id} ended {record.outcome}: {record.reason}")
    names = {file.path for file in trainer.files(record.run_id, recursive=True)}
    if _SUMMARY in names:
        summary = cast(_Summary, trainer.read_file(record.run_id, _SUMMARY).document())
        return _of_summary(agent, record, summary, match)
    if _EVALUATION in names:
        return _of_evaluation(agent, record, trainer)
    episodes = _recorded(trainer, record.run_id, match)
    if not episodes:
        raise _nothing_played(agent, match)
    return Played(agent, record.run_id, episodes)


def _nothing_played(agent: str, match: Match) -> MosaicError:
    return MosaicError(
        f"{agent}: none of the seeds {match.seed} to {match.seeds[-1]} was played; "
        f"play them, for instance: mosaic play {match.env_id} --seed {match.seed}"
    )


def _games(trainer: TrainerClient, match: Match) -> list[RunRecord]:
    """The games that people have played in the environment, newest first.

    Raises:
        MosaicError: There is none.
    """
    worker = worker_for("play").worker_type
    page = trainer.list_runs(worker=worker, env_id=match.env_id, states=["TERM"], page_size=500)
    # A script of keys is played by the same worker, but no person plays.
    games = [run for run in page.runs if not _is_scripted(trainer, run.run_id)]
    if not games:
        raise _nothing_played(HUMAN, match)
    return games


def _is_scripted(trainer: TrainerClient, run_id: str) -> bool:
    return "script" in (build.read_config(trainer.config(run_id)).worker.extras.model_extra or {})


def _of_people(trainer: TrainerClient, match: Match) -> Played:
    """The first time that each seed was played, over all games."""
    games = _games(trainer, match)
    found: dict[int | None, PlayedEpisode] = {}
    for run in reversed(games):
        for episode in _recorded(trainer, run.run_id, match):
            found.setdefault(episode.seed, episode)
    if not found:
        raise _nothing_played(HUMAN, match)
    return Played(HUMAN, games[0].run_id, [found[seed] for seed in match.seeds if seed in found])


def _existing(trainer: TrainerClient, agent: str, match: Match) -> RunRecord:
    base = trainer.get(agent.removeprefix(RUN))
    if base.env_id and base.env_id != match.env_id:
        raise InvalidArgumentError(f"{agent} plays {base.env_id}, not {match.env_id}")
    if base.newest_checkpoint("policy") is None:
        return base
    config = build.evaluate(
        base,
        episodes=match.episodes,
        seed=match.seed,
        max_steps=match.max_steps or None,
        each_seed=True,
    )
    return trainer.submit(config, parent_run_id=base.run_id)


def _of_summary(agent: str, record: RunRecord, summary: _Summary, match: Match) -> Played:
    whole = [
        PlayedEpisode(int(one["seed"]), float(one["return"]), int(one["steps"]))
        for one in summary["per_episode"]
        if int(one["seed"]) in match.seeds
    ]
    tokens = summary["tokens"]["in"] + summary["tokens"]["out"]
    return Played(agent, record.run_id, whole, tokens, summary["cost"], summary["seconds"])


def _of_evaluation(agent: str, record: RunRecord, trainer: TrainerClient) -> Played:
    """The episodes of an evaluation; they have seeds if its worker seeds each one."""
    found = trainer.read_file(record.run_id, _EVALUATION).document()
    returns, lengths = _numbers(found, "returns"), _numbers(found, "lengths")
    seeds: list[int | None] = [int(seed) for seed in _numbers(found, "seeds")]
    episodes = [
        PlayedEpisode(seed, total, int(length))
        for seed, total, length in zip_longest(seeds, returns, lengths)
    ]
    return Played(agent, record.run_id, episodes)


def _numbers(document: object, name: str) -> Sequence[float]:
    values = document.get(name) if isinstance(document, dict) else None
    return [float(v) for v in values] if isinstance(values, list) else []


def _recorded(trainer: TrainerClient, run_id: str, match: Match) -> list[PlayedEpisode]:
    """The first time that each seed was played to its end."""
    found: dict[int, PlayedEpisode] = {}
    for batch in trainer.episodes(run_id):
        for one in batch.episodes:
            if one.seed in match.seeds and one.outcome not in ("left", "stopped", "budget"):
                found.setdefault(one.seed, PlayedEpisode(one.seed, one.total_reward, one.length))
    return [found[seed] for seed in sorted(found)]
