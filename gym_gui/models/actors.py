"""The actor roster: who can act, in which lane, and what is missing when one cannot."""

from collections.abc import Iterable
from dataclasses import dataclass

from mosaic.records.daemon import WorkerInfo
from mosaic.workers.capabilities import WorkerCapabilities

HUMAN = "human"
# The order people expect; whatever else discovery finds follows by name.
_ORDER = (HUMAN, "spade_bdi", "llm", "cleanrl")


@dataclass(frozen=True)
class Actor:
    """One entry of the roster.

    Attributes:
        worker_type: The name in configs; `human` for playing oneself.
        title: What the roster says.
        capabilities: What the worker says about itself, if it could be asked.
        problem: Why it cannot be used and the command that helps; empty when it can.
    """

    worker_type: str
    title: str
    capabilities: WorkerCapabilities | None = None
    problem: str = ""

    @property
    def available(self) -> bool:
        """Whether it can be used now."""
        return not self.problem

    @property
    def requires_live_telemetry(self) -> bool:
        """Whether it sends a record for every step."""
        if self.worker_type == HUMAN:
            return True
        return bool(self.capabilities and self.capabilities.requires_live_telemetry)

    @property
    def provides_fast_analytics(self) -> bool:
        """Whether its results are read from TensorBoard and its kind."""
        return bool(self.capabilities and self.capabilities.provides_fast_analytics)

    @property
    def lane(self) -> str:
        """The lane in words."""
        if self.requires_live_telemetry:
            return "Telemetry lane: every step, live and replayable"
        if self.provides_fast_analytics:
            return "Analytics lane: charts, TensorBoard, W&B; no live telemetry of steps"
        return "Headline numbers and logs"

    @property
    def trains_algorithms(self) -> bool:
        """Whether its algorithms describe their own arguments, so that a form can be made."""
        return bool(
            self.capabilities and self.capabilities.algorithms and self.capabilities.describe
        )


def roster(workers: Iterable[WorkerInfo]) -> list[Actor]:
    """The roster from the daemon's list of workers."""
    found = {
        worker.type: Actor(
            worker.type,
            worker.display_name or worker.type,
            worker.capabilities,
            "" if worker.available else worker.problem or "not available",
        )
        for worker in workers
    }
    missing = Actor(HUMAN, "Human-Only", None, "not installed; run: make setup-gui")
    found.setdefault(HUMAN, missing)
    first = [found.pop(name) for name in _ORDER if name in found]
    return first + sorted(found.values(), key=lambda actor: actor.title.lower())
