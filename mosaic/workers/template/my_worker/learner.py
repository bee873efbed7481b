"""The learning itself: an epsilon-greedy player of a bandit with ten arms."""

import random
from dataclasses import asdict, dataclass, field

ARMS = 10


@dataclass
class Bandit:
    """What is known about each arm; all of it goes into a checkpoint."""

    seed: int = 1
    epsilon: float = 0.1
    step: int = 0
    values: list[float] = field(default_factory=lambda: [0.0] * ARMS)
    pulls: list[int] = field(default_factory=lambda: [0] * ARMS)

    def learn(self) -> float:
        """Pull one arm and learn from it; the reward."""
        # A generator for each step: continuing at a step gives the same numbers as not stopping.
        dice = random.Random(f"{self.seed} {self.step}")
        arm = dice.randrange(ARMS) if dice.random() < self.epsilon else self.best()
        reward = dice.gauss(arm / ARMS, 0.5)
        self.pulls[arm] += 1
        self.values[arm] += (reward - self.values[arm]) / self.pulls[arm]
        self.step += 1
        return reward

    def best(self) -> int:
        """The arm that looks best."""
        return max(range(ARMS), key=self.values.__getitem__)

    def play(self, seed: int) -> float:
        """One episode of ten pulls of the best arm; its return."""
        dice = random.Random(f"evaluation {seed}")
        return sum(dice.gauss(self.best() / ARMS, 0.5) for _ in range(10))

    def document(self) -> dict[str, object]:
        """Everything, as JSON data."""
        return asdict(self)
