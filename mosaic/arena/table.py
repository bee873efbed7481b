"""The table of a comparison, from the episodes of each agent. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from mosaic.statistics.episodes import PairedDifference, mean_interval, paired_difference, wilson
from mosaic.statistics.intervals import Interval

# Environments in which only reaching the goal pays: a return above 0 is a success.
_GOAL_PAYS = ("BabyAI-", "MiniGrid-", "FrozenLake")


@dataclass(frozen=True)
class PlayedEpisode:
    """One episode of one agent.

    Attributes:
        seed: With which the environment began; None when the agent's worker does not say.
        run_id: The run in which it can be seen again.
        number: Its number in that run; None when the run numbers no episodes.
    """

    seed: int | None
    total: float
    steps: int
    run_id: str = ""
    number: int | None = None


@dataclass(frozen=True)
class Played:
    """What one agent did, so far or altogether.

    Attributes:
        agent: As it was asked for: `llm:embedded`, `run:ID`, `bot`, `random`.
        run_id: The run with its episodes and replays.
        cost: In dollars; None when it is unknown.
        seconds: That the agent needed for its steps; None when it is unknown.
    """

    agent: str
    run_id: str
    episodes: Sequence[PlayedEpisode]
    tokens: int = 0
    cost: float | None = 0.0
    seconds: float | None = None


@dataclass(frozen=True)
class Row:
    """One agent in the table.

    Attributes:
        lead: The mean difference of its returns to those of the first agent, seed by seed.
    """

    agent: str
    run_id: str
    episodes: int
    success: float | None
    success_interval: Interval | None
    mean_return: float | None
    return_interval: Interval | None
    lead: PairedDifference | None
    tokens_per_solved: float | None
    cost_per_solved: float | None
    seconds_per_solved: float | None
    milliseconds_per_step: float | None


def compare(env_id: str, agents: Sequence[Played]) -> list[Row]:
    """One row for each agent, in the order in which they were named."""
    if not agents:
        return []
    first = _by_seed(agents[0])
    return [
        _row(env_id, played, None if number == 0 else paired_difference(_by_seed(played), first))
        for number, played in enumerate(agents)
    ]


def solved(env_id: str, total: float) -> bool | None:
    """Whether an episode with this return reached its goal; None where the task has no goal."""
    return total > 0 if env_id.startswith(_GOAL_PAYS) else None


def _row(env_id: str, played: Played, lead: PairedDifference | None) -> Row:
    returns = [episode.total for episode in played.episodes]
    steps = sum(episode.steps for episode in played.episodes)
    verdicts = [solved(env_id, total) for total in returns]
    judged = bool(verdicts) and None not in verdicts
    won = sum(bool(verdict) for verdict in verdicts)

    def per_solved(spent: float | None) -> float | None:
        return spent / won if judged and won and spent is not None else None

    return Row(
        agent=played.agent,
        run_id=played.run_id,
        episodes=len(returns),
        success=won / len(returns) if judged else None,
        success_interval=wilson(won, len(returns)) if judged else None,
        mean_return=sum(returns) / len(returns) if returns else None,
        return_interval=mean_interval(returns) if returns else None,
        lead=lead,
        tokens_per_solved=per_solved(float(played.tokens)),
        cost_per_solved=per_solved(played.cost),
        seconds_per_solved=per_solved(played.seconds),
        milliseconds_per_step=played.seconds / steps * 1000 if played.seconds and steps else None,
    )


def _by_seed(played: Played) -> dict[int, float]:
    return {e.seed: e.total for e in played.episodes if e.seed is not None}
