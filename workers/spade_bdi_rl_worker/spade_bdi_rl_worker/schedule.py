"""How exploration and step size change over a run: shared by the slow and the fast learner."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """Linear schedules over the fraction of the run that is done.

    Attributes:
        alpha: Step size at the beginning.
        alpha_end: Step size at the end.
        gamma: Discount.
        epsilon_start: Exploration at the beginning.
        epsilon_end: Exploration once `exploration_fraction` of the run is done.
        exploration_fraction: When exploration has come down to its end.
    """

    alpha: float = 0.1
    alpha_end: float = 0.01
    gamma: float = 0.99
    epsilon_start: float = 1.0
    epsilon_end: float = 0.05
    exploration_fraction: float = 0.5

    def alpha_at(self, done: float) -> float:
        """The step size when the fraction `done` of the run is behind us."""
        return self.alpha + (self.alpha_end - self.alpha) * min(1.0, done)

    def epsilon_at(self, done: float) -> float:
        """The exploration when the fraction `done` of the run is behind us."""
        way = min(1.0, done / self.exploration_fraction) if self.exploration_fraction else 1.0
        return self.epsilon_start + (self.epsilon_end - self.epsilon_start) * way
