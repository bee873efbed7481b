"""The daemon's connection to one machine: made, kept, made again, closed when no run needs it."""

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from mosaic.agent.orders import ANSWER, BEGIN, HELLO, Hello, Order
from mosaic.config.json_types import JsonValue
from mosaic.connect.endpoint import Address
from mosaic.connect.remote_home import RemoteHome
from mosaic.connect.session import SshSession, sweep_folders
from mosaic.errors import AgentRefusedError, EngineSilentError, UnreachableError
from mosaic.workers.capabilities import PROTOCOL_VERSION

# ssh gives up connecting after 10 s; then a Python has to start on a machine that may be busy.
_GREETING_S = 60.0
_BEGIN_S = 60.0
# Servers lock out who knocks with a wrong key again and again.
_AFTER_REFUSAL_S = 30.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0
_LOOK_S = 0.5

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OtherMachine:
    """What the machine at the other end has."""

    cpus: int
    memory_mb: int
    gpus: tuple[int, ...]


class SshLink:
    """One ssh connection with `mosaic agent` at its other end.

    Attributes:
        machine: What is there; None while there is no connection.
        problem: Why there is none, for people.
        generation: Grows with every new connection.
    """

    def __init__(
        self, place: RemoteHome, address: Callable[[], Address], changed: Callable[[], None]
    ) -> None:
        self.machine: OtherMachine | None = None
        self.problem = f"connecting to {place.account}"
        self.generation = 0
        self._place = place
        self._address = address
        self._changed = changed
        self._session: SshSession | None = None
        self._socket = ""
        self._asking = asyncio.Lock()
        self._keeping: asyncio.Task[None] | None = None
        self._enough = threading.Event()
        self._ending: asyncio.Future[None] | None = None

    @property
    def connected(self) -> bool:
        return self.machine is not None

    def keep(self) -> None:
        """Be connected from now on."""
        if self._keeping is None:
            self._enough = threading.Event()
            self._keeping = asyncio.get_running_loop().create_task(self._keep())

    def rest(self) -> None:
        """No run needs the connection now."""
        if self._keeping is not None:
            self._enough.set()
            self._keeping.cancel()
            self._keeping = None

    async def close(self) -> None:
        """End the connection; agents and workers over there continue."""
        keeping = self._keeping
        self.rest()
        if keeping is not None:
            await asyncio.wait({keeping})
        if self._ending is not None:
            await self._ending

    async def begin(self, order: Order) -> None:
        """Make sure that a run has an agent there which knows the way to us.

        Raises:
            EngineSilentError: There is no connection now.
            AgentRefusedError: The machine there cannot start an agent.
        """
        there = order.copy()
        there["target"] = f"unix:{self._socket}"
        answer = await self._ask({BEGIN: there}, _BEGIN_S)
        if "error" in answer:
            raise AgentRefusedError(f"{self._place.account}: {answer['error']}")

    async def _ask(self, question: Mapping[str, object], patience_s: float) -> dict[str, JsonValue]:
        async with self._asking:
            session = self._session
            if session is None or self.machine is None:
                raise EngineSilentError(self.problem)
            try:
                return await asyncio.to_thread(session.ask, json.dumps(question), patience_s)
            except UnreachableError as error:
                raise EngineSilentError(str(error)) from None

    async def _keep(self) -> None:
        wait_s, enough = _FIRST_WAIT_S, self._enough
        try:
            while True:
                try:
                    await asyncio.to_thread(self._connect, enough)
                except UnreachableError as error:
                    self._lost(str(error))
                    self._end()
                    await asyncio.sleep(_AFTER_REFUSAL_S if error.final else wait_s)
                    wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
                    continue
                wait_s = _FIRST_WAIT_S
                self._changed()
                await self._until_it_breaks()
                self._lost(f"the connection to {self._place.account} was lost")
                self._end()
        finally:
            self._lost(f"connecting to {self._place.account}")
            self._end()

    async def _until_it_breaks(self) -> None:
        session = self._session
        while session is not None and session.alive:
            await asyncio.sleep(_LOOK_S)

    def _connect(self, enough: threading.Event) -> None:
        """On a thread: a session blocks."""
        sweep_folders()
        session = self._session = SshSession(self._place, ["agent"], ANSWER)
        # It may have been asked to rest before there was a session to end.
        if enough.is_set():
            session.close()
            raise UnreachableError(f"the connection to {self._place.account} was closed")
        answer = session.ask(json.dumps({HELLO: 1}), _GREETING_S)
        if answer.get("protocol") != PROTOCOL_VERSION:
            raise UnreachableError(
                f"mosaic on {self._place.account} is of another version than here; "
                "install the same one there",
                final=True,
            )
        hello = cast(Hello, answer)
        socket = f"{hello['folder']}/daemon"
        session.forward_back(socket, self._address().target)
        self._socket = socket
        self.generation += 1
        self.machine = OtherMachine(hello["cpus"], hello["memory_mb"], tuple(hello["gpus"]))
        self.problem = ""
        log.info("connected to %s", self._place.account)

    def _lost(self, problem: str) -> None:
        if self.machine is not None or self.problem != problem:
            log.info("%s", problem)
        self.machine, self.problem = None, problem
        # Runs that wait show why, and those that could be started meanwhile go back.
        self._changed()

    def _end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            # On a thread: ssh may take seconds to notice, and the daemon has other runs.
            loop = asyncio.get_running_loop()
            self._ending = loop.run_in_executor(None, session.close)
