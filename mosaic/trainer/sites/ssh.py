"""One more machine that ssh reaches: its slots are ours to give, its runs have agents.

One ssh connection serves all runs there. It starts the agents, and a socket at its other end leads
them and their workers back to this daemon, so that neither machine opens a door. When it breaks,
agents and workers continue by themselves and are found again through the next one.
"""

import asyncio
import time
from collections.abc import Iterable

from mosaic.agent.orders import Order
from mosaic.config.paths import Home
from mosaic.config.settings import Settings
from mosaic.connect.remote_home import RemoteHome
from mosaic.errors import MosaicError
from mosaic.trainer.core.decisions import Now
from mosaic.trainer.core.evidence import QUEUED, SILENT
from mosaic.trainer.core.scheduler import Machine
from mosaic.trainer.core.states import Run
from mosaic.trainer.sites.agents import AgentSite, Contact, Word
from mosaic.trainer.sites.door import Door
from mosaic.trainer.sites.ssh_link import SshLink


class SshSite(AgentSite):
    """Runs on a machine behind ssh."""

    # Another run may come soon; a connection takes a second or two to make.
    idle_s = 10.0
    # An agent that was just sent for has to import gRPC before it can be heard.
    start_s = 20.0

    def __init__(self, name: str, home: Home, settings: Settings, door: Door) -> None:
        super().__init__(name, home, settings, door)
        self._place = RemoteHome.parse(name)
        self._link = SshLink(self._place, door.address, door.changed)
        self._sending: dict[str, asyncio.Task[None]] = {}

    @property
    def link(self) -> SshLink:
        return self._link

    async def send_agent(self, run: Run, order: Order) -> None:
        await self._link.begin(order)

    def engine_word(self, run: Run, contact: Contact, now: Now) -> Word:
        silent_s = now.mono - max(contact.heard, contact.sent)
        if self._link.machine is None:
            return Word(SILENT, silent_s, self._link.problem)
        detail = f"its agent on {self._place.account} is being started"
        return Word(QUEUED if run.launching else SILENT, silent_s, detail)

    def capacity(self, runs: Iterable[Run]) -> Machine | None:
        self.need_link()
        machine = self._link.machine
        assert machine is not None, "a link that is connected knows its machine"
        mine = [run for run in runs if run.site == self.name]
        return Machine(
            cpus=tuple(f"cpu:{number}" for number in range(machine.cpus)),
            gpus=tuple(f"gpu:{number}" for number in machine.gpus),
            memory_mb=machine.memory_mb,
            held={slot: run.run_id for run in mine for slot in run.slots},
            memory_held_mb=sum(run.request.memory_mb for run in mine if run.slots),
            names={run.run_id: run.run_name for run in mine},
        )

    def send_again(self, run: Run, contact: Contact) -> None:
        if run.run_id not in self._sending:
            contact.sent = time.monotonic()
            task = asyncio.get_running_loop().create_task(self._send(run))
            self._sending[run.run_id] = task
            task.add_done_callback(lambda _: self._sending.pop(run.run_id, None))

    async def _send(self, run: Run) -> None:
        try:
            await self._link.begin(self.order(run, run.job))
        except MosaicError as error:
            # Said by `engine_word` while the connection is down; otherwise the next turn tries.
            self._link.problem = str(error)

    async def close(self) -> None:
        for task in list(self._sending.values()):
            task.cancel()
        await self._link.close()
