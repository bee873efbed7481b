"""Short real runs: the trained policy must beat the untrained one by a stated factor."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cleanrl_worker.running.evaluation import evaluate
from cleanrl_worker.running.verification import train
from mutants.subject import Check, Subject, original

CATCH = "--env-id mosaic/Catch-v0"
_SEED = 1000


@dataclass(frozen=True)
class Learning:
    """What an algorithm must learn, and how it is shown.

    Attributes:
        algorithm: the algorithm file's name.
        flags: the command line of the run.
        untrained: flags that keep the same command line from learning anything.
        factor: how many times the untrained return the trained one must be; where returns are
            negative, how many times smaller the loss must be.
        least: what the trained policy must reach in any case, for environments where a policy
            that has learned nothing gets about zero.
        episodes: how many episodes of evaluation the averages are over.
        deterministic: whether the policy's best action is judged, or a sample of it.
        slow: whether it takes longer than half a minute; `make prove` runs those.
    """

    algorithm: str
    flags: str
    untrained: str
    factor: float
    least: float = -math.inf
    episodes: int = 10
    deterministic: bool = True
    slow: bool = False

    def __str__(self) -> str:
        words = self.flags.split()
        where = f"-{words[words.index('--env-id') + 1]}" if "--env-id" in words else ""
        return f"{self.algorithm}{where}"

    def measure(self, subject: Subject, *, learn: bool = True) -> float:
        """The average return after the run, or after one that learns nothing."""
        flags = f"{self.flags} {'' if learn else self.untrained} --no-cuda".split()
        with subject.as_script() as script, tempfile.TemporaryDirectory() as folder:
            train(script, Path(folder) / "run", *flags)
            played = evaluate(
                Path(folder) / "run",
                episodes=self.episodes,
                seed=_SEED,
                deterministic=self.deterministic,
            )
        return float(np.mean([episode.episodic_return for episode in played]))

    def wanted(self, untrained: float) -> float:
        """The return that a trained policy must reach."""
        better = untrained * self.factor if untrained >= 0 else untrained / self.factor
        return max(better, self.least)


def learns(case: Learning, untrained: float) -> Check:
    """A check that a file still learns, for mutants that only show in what is learned.

    Args:
        case: the run.
        untrained: what the untrained policy reaches at the same seeds.
    """

    def check(subject: Subject) -> None:
        reached = case.measure(subject)
        assert reached >= case.wanted(untrained), f"{case}: {reached} after {untrained}"

    check.__name__ = f"learns_{case.algorithm}"
    check.__doc__ = f"{case} learns: at least {case.factor:g} times better than untrained."
    return check


def file_of(case: Learning) -> Subject:
    """The algorithm file of a case, as it is."""
    return original(f"cleanrl/{case.algorithm}.py")
