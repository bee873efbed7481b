"""The stages of a curriculum as a form holds them, and as people read them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mosaic.config.model import Parameters

# What ends a stage that says nothing itself; the worker's own rule.
USUAL_STEPS = 100_000
_NAMES = ("steps", "episodes", "episode_return")


@dataclass(frozen=True)
class Stage:
    """One environment, and what ends it: whichever comes first.

    Attributes:
        env_id: Where the agent learns.
        steps: So many steps in this stage.
        episodes: So many episodes in this stage.
        episode_return: The mean return of the stage's last 20 episodes.
    """

    env_id: str
    steps: int | None = None
    episodes: int | None = None
    episode_return: float | None = None

    @classmethod
    def from_fields(cls, fields: Mapping[str, object]) -> "Stage":
        """From a stage of a configuration, whose condition may be written out as a text."""
        found: dict[str, float] = {}
        said = str(fields.get("condition") or "")
        written = [part.partition(">=") for part in said.split("|") if ">=" in part]
        given = [(name, fields.get(name)) for name in _NAMES]
        for name, value in (*given, *((name.strip(), value) for name, _, value in written)):
            number = _number(value)
            if name in _NAMES and number is not None:
                # The first condition that holds ends the stage, so the smallest one counts.
                found[name] = min(number, found.get(name, number))
        steps, episodes = found.get("steps"), found.get("episodes")
        return cls(
            str(fields.get("env_id") or ""),
            None if steps is None else int(steps),
            None if episodes is None else int(episodes),
            found.get("episode_return"),
        )

    def fields(self, last: bool) -> Parameters:
        """As a configuration has it; the last stage lasts to the end of the run."""
        made: Parameters = {"env_id": self.env_id}
        if not last:
            given = {name: getattr(self, name) for name in _NAMES}
            made |= {name: value for name, value in given.items() if value is not None}
        return made

    def words(self, last: bool) -> str:
        """What it is and when it ends, in a line."""
        return f"{self.env_id or '…'} {'to the end of the run' if last else self._until()}"

    def _until(self) -> str:
        parts = [] if self.steps is None else [f"{self.steps:,} steps"]
        if self.episodes is not None:
            parts.append(f"{self.episodes:,} episodes")
        if self.episode_return is not None:
            parts.append(f"a return of {self.episode_return:g}")
        return f"until {' or '.join(parts) or f'{USUAL_STEPS:,} steps'}"


def schedule(stages: Sequence[Stage]) -> list[Parameters]:
    """Stages as a configuration has them."""
    last = len(stages) - 1
    return [stage.fields(place == last) for place, stage in enumerate(stages)]


def summary(stages: Sequence[Stage]) -> str:
    """The whole curriculum, one stage a line."""
    last = len(stages) - 1
    words = (stage.words(place == last) for place, stage in enumerate(stages))
    return "\n".join(f"{place}. {line}" for place, line in enumerate(words, start=1))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
