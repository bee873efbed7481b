"""What is played in the arena, and the names of those who play. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from mosaic.config.suggest import did_you_mean
from mosaic.errors import InvalidArgumentError

RUN, MODEL, HUMAN, BDI = "run:", "llm:", "human", "bdi"
SCRIPTED = ("bot", "random")
# Names that stand alone; the other agents have a prefix.
ALONE = (*SCRIPTED, HUMAN, BDI)


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


def read_agents(text: str) -> list[str]:
    """The agents of `--agents`, checked.

    Raises:
        InvalidArgumentError: One of them is no agent, or there are fewer than two.
    """
    return check_agents([name.strip() for name in text.split(",") if name.strip()])


def check_agents(agents: Sequence[str]) -> list[str]:
    """Agents without repetitions.

    Raises:
        InvalidArgumentError: One of them is no agent, or there are fewer than two.
    """
    for name in agents:
        prefixed = any(name.startswith(p) and name != p for p in (RUN, MODEL))
        if name not in ALONE and not prefixed:
            near = did_you_mean(name, [*ALONE, RUN, MODEL])
            raise InvalidArgumentError(
                f"{name!r} is no agent{near}; write run:ID, llm:MODEL, {', '.join(ALONE)}"
            )
    if len(set(agents)) < 2:
        raise InvalidArgumentError("an arena needs at least two different agents")
    return list(dict.fromkeys(agents))
