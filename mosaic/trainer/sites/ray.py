"""Runs on a Ray cluster: Ray queues them and keeps their CPUs and GPUs, agents do the rest."""

import time
from collections.abc import Iterable
from contextlib import suppress

from mosaic.agent.orders import Order
from mosaic.config.paths import Home
from mosaic.config.settings import Settings
from mosaic.config.sites import read_site
from mosaic.errors import EngineSilentError
from mosaic.trainer.core.decisions import Now
from mosaic.trainer.core.evidence import ENDED, QUEUED, RUNNING, SILENT, UNKNOWN
from mosaic.trainer.core.scheduler import Machine
from mosaic.trainer.core.states import Run
from mosaic.trainer.sites.agents import AgentSite, Contact, Word
from mosaic.trainer.sites.door import Door
from mosaic.trainer.sites.ray_link import RayLink, RayOrder

_MEGABYTE = 2**20


class RaySite(AgentSite):
    """Runs as actors of a Ray cluster that start agents."""

    # A cluster of our own is started again for the next run, which takes some seconds.
    idle_s = 60.0
    # An actor first has to get a process of Ray's, which then starts the agent.
    start_s = 30.0

    def __init__(self, name: str, home: Home, settings: Settings, door: Door) -> None:
        super().__init__(name, home, settings, door)
        part = read_site(name).part
        self._link = RayLink(f"ray:{part}" if part else "", door.changed)

    @property
    def link(self) -> RayLink:
        return self._link

    async def send_agent(self, run: Run, order: Order) -> None:
        self._ask(run, order, fresh=True)

    def _ask(self, run: Run, order: Order, fresh: bool) -> None:
        request: RayOrder = {
            "do": "place",
            "name": _actor(run, order["job"]),
            "order": order,
            "demand": self._demand(run),
            "fresh": fresh,
        }
        self._link.tell(request)

    def _demand(self, run: Run) -> dict[str, float]:
        need = run.request
        demand = {"CPU": float(need.cpus), **self._settings.ray_demand}
        if need.gpus:
            demand["GPU"] = float(need.gpus)
        if need.memory_mb:
            demand["memory"] = float(need.memory_mb * _MEGABYTE)
        return demand

    def engine_word(self, run: Run, contact: Contact, now: Now) -> Word:
        # A helper that has just begun knows no actor until it is asked for it. Without its age a
        # new daemon would take runs in Ray's queue for lost, and place them a second time.
        silent_s = now.mono - max(contact.heard, contact.sent, self._link.since)
        if self._link.problem:
            return Word(SILENT, silent_s, self._link.problem)
        actor = self._link.actors.get(_actor(run, run.job))
        if actor is None:
            return Word(UNKNOWN, silent_s, "Ray has no actor for it")
        for_s = now.mono - actor.since
        match actor.state:
            case "pending":
                return Word(QUEUED, for_s, f"Ray: {actor.detail}")
            case "alive":
                return Word(RUNNING, for_s, f"Ray says that its node {actor.detail} lives")
            case "refused":
                return Word(ENDED, for_s, actor.detail)
        # Not a failure of the run: whatever ended the actor, another node can continue it.
        return Word(ENDED, for_s, f"Ray lost its actor: {actor.detail}", taken=True)

    def capacity(self, runs: Iterable[Run]) -> Machine | None:
        self.need_link()
        return None

    def expects_word(self, run: Run) -> bool:
        actor = self._link.actors.get(_actor(run, run.job))
        return actor is not None and actor.state == "alive"

    def send_again(self, run: Run, contact: Contact) -> None:
        contact.sent = time.monotonic()
        with suppress(EngineSilentError):  # it ended just now: the next one is asked
            self._ask(run, self.order(run, run.job), fresh=False)

    def forget(self, run: Run) -> None:
        super().forget(run)
        # Without Ray nothing has to be freed: the actor ends by itself when its run has.
        with suppress(EngineSilentError):
            self._link.tell({"do": "end", "name": _actor(run, run.job)})

    async def close(self) -> None:
        await self._link.close()


def _actor(run: Run, job: str) -> str:
    """The name of a run's actor: another one for each time that the run is placed."""
    return f"mosaic-{run.run_id}-{job}"
