"""The daemon's handle on the process that talks to Ray: started when needed, again when it dies."""

import asyncio
import importlib.util
import json
import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

from mosaic.agent.orders import Order
from mosaic.config.paths import how_to_install
from mosaic.errors import EngineSilentError

# Ray joins a cluster within seconds; starting one of our own takes longer on a busy machine.
_JOIN_S = 120.0
# It says something every five seconds. One that is silent for so long hangs in Ray.
_SILENT_S = 60.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 2.0, 60.0
_GOODBYE_S = 10.0
_LONGEST_LINE = 16 * 2**20

log = logging.getLogger(__name__)


class RayOrder(TypedDict):
    """A line to the helper.

    Attributes:
        do: `place` or `end`.
        name: The actor's.
        order: What its agent is started with; this and the rest only to place it.
        demand: What it asks of Ray.
        fresh: Make an actor if there is none; otherwise one must be there.
    """

    do: str
    name: str
    order: NotRequired[Order]
    demand: NotRequired[dict[str, float]]
    fresh: NotRequired[bool]


class _Said(TypedDict):
    """One actor in a line of the helper."""

    state: str
    detail: str


class RayReport(TypedDict):
    """A line of the helper: the actors by name, or why there is none."""

    actors: dict[str, _Said]
    error: NotRequired[str]


@dataclass(frozen=True)
class ActorState:
    """What Ray says of one actor, and since when."""

    state: str
    detail: str
    since: float


@dataclass
class RayLink:
    """The helper process of one cluster.

    Attributes:
        address: The cluster's; empty for the one of this machine, or one of our own.
        changed: Called when runs that wait may start.
        problem: Why Ray cannot be asked; empty when it can.
        generation: Grows with every new helper.
        since: When this one first answered.
        actors: What Ray last said, by name.
    """

    address: str
    changed: Callable[[], None]
    problem: str = "connecting to Ray"
    generation: int = 0
    since: float = 0.0
    actors: dict[str, ActorState] = field(default_factory=dict)
    _process: asyncio.subprocess.Process | None = None
    _keeping: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return not self.problem

    def keep(self) -> None:
        """Be connected from now on."""
        if self._keeping is None:
            self._keeping = asyncio.get_running_loop().create_task(self._keep())

    def tell(self, order: RayOrder) -> None:
        """Ask the helper to do something.

        Raises:
            EngineSilentError: There is none now.
        """
        process = self._process
        if process is None or process.stdin is None or self.problem:
            raise EngineSilentError(self.problem or "Ray does not answer")
        process.stdin.write(f"{json.dumps(order)}\n".encode())

    async def close(self) -> None:
        """End the helper; agents and workers continue."""
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping
            self._keeping = None

    def rest(self) -> None:
        """No run needs Ray now."""
        if self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None

    async def _keep(self) -> None:
        wait_s = _FIRST_WAIT_S
        while True:
            began = time.monotonic()
            if importlib.util.find_spec("ray") is None:
                self._lost(f"Ray is not installed; run: {how_to_install('setup-ray', 'ray')}")
            else:
                await self._serve()
            # One that has worked for a while is made again at once.
            wait_s = _FIRST_WAIT_S if time.monotonic() - began > 60 else min(2 * wait_s, 60.0)
            await asyncio.sleep(min(wait_s, _LONGEST_WAIT_S))

    async def _serve(self) -> None:
        """One helper, from its start to its end."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mosaic.trainer.sites.ray_helper",
            *([self.address] if self.address else []),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LONGEST_LINE,
            start_new_session=True,
        )  # fmt: skip
        self._process = process
        assert process.stdout is not None
        patience_s = _JOIN_S
        try:
            while line := await asyncio.wait_for(process.stdout.readline(), patience_s):
                self._hear(json.loads(line))
                patience_s = _SILENT_S
        except TimeoutError:
            self._lost("Ray does not answer")
        except ValueError:
            self._lost("Ray's helper said what makes no sense")
        finally:
            self._lost(self.problem or "the connection to Ray was lost")
            self._process = None
            await _end(process)

    def _hear(self, said: RayReport) -> None:
        if "error" in said:
            self._lost(f"Ray: {said['error']}")
            return
        now, before = time.monotonic(), self.actors
        self.actors = {}
        for name, item in said["actors"].items():
            known = before.get(name)
            same = known is not None and known.state == item["state"]
            since = known.since if known is not None and same else now
            self.actors[name] = ActorState(item["state"], item["detail"], since)
        if self.problem:
            self.problem = ""
            self.generation += 1
            self.since = now
            log.info("connected to Ray %s", self.address or "of this machine")
            self.changed()

    def _lost(self, problem: str) -> None:
        if self.problem != problem:
            log.info("%s", problem)
            self.problem = problem
            self.changed()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let a helper end its own cluster, if it has one; then end it."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _GOODBYE_S)
    except (TimeoutError, asyncio.CancelledError):
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
