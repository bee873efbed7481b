"""Minimal telemetry: many records folded into one periodic summary."""

from typing import TypedDict


class Summary(TypedDict):
    """What one summary says; the means are of finished episodes, None where there is none."""

    episodes: int
    steps: int
    return_sum: float
    return_mean: float | None
    length_mean: float | None
    seconds: float


class SummaryWindow:
    """What happened since the last summary."""

    def __init__(self, every_s: float, now: float) -> None:
        self._every_s = every_s
        self._since = now
        self._episodes = 0
        self._steps = 0
        self._loose_steps = 0
        self._return_sum = 0.0

    def add_step(self) -> None:
        """Count a step of an episode that is still running."""
        self._loose_steps += 1

    def add_episodes(self, episodes: int, steps: int, return_sum: float) -> None:
        """Count finished episodes with their steps and summed returns."""
        self._episodes += episodes
        self._steps += steps
        self._loose_steps = max(0, self._loose_steps - steps)
        self._return_sum += return_sum

    def take(self, now: float, force: bool = False) -> Summary | None:
        """The summary when it is due (or forced) and there is anything to say."""
        elapsed = now - self._since
        steps = self._steps + self._loose_steps
        if (elapsed < self._every_s and not force) or not (steps or self._episodes):
            return None
        summary: Summary = {
            "episodes": self._episodes,
            "steps": steps,
            "return_sum": self._return_sum,
            "return_mean": self._return_sum / self._episodes if self._episodes else None,
            "length_mean": self._steps / self._episodes if self._episodes else None,
            "seconds": round(elapsed, 3),
        }
        self._since, self._episodes, self._steps, self._loose_steps = now, 0, 0, 0
        self._return_sum = 0.0
        return summary
