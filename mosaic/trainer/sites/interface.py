"""`Site`: what the daemon asks of a place where runs are executed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from mosaic.config.json_types import JsonValue
from mosaic.trainer.core.decisions import Now
from mosaic.trainer.core.evidence import News
from mosaic.trainer.core.scheduler import Machine
from mosaic.trainer.core.states import Run
from mosaic.trainer.launch.executor import LaunchSpec
from mosaic.trainer.sites.relay import FrameRelay

if TYPE_CHECKING:
    from mosaic.trainer.loop.watch import Watch


class Site(Protocol):
    """A place where runs are executed.

    Whatever the engine behind it says, our supervisor is the parent of the worker, and the run
    directory is the truth.
    """

    async def place(self, run: Run, spec: LaunchSpec, warm_modules: Sequence[str]) -> str:
        """Start a run, or hand it to the engine that will; asking twice starts it once.

        Returns:
            The engine's name of the job; empty where there is no engine.

        Raises:
            EngineSilentError: The engine does not answer.
            MosaicError: It refuses.
            OSError: The machine does.
        """

    def news(self, run: Run, watch: "Watch", now: Now) -> News:
        """What is known about a run at this moment."""

    def withdraw(self, run: Run, watch: "Watch") -> bool:
        """Keep a run that has not begun from beginning; False when it has begun."""

    def signal(self, run: Run, watch: "Watch", number: int) -> None:
        """Send a signal to the run's process group."""

    def sweep(self, run: Run, watch: "Watch") -> None:
        """Kill everything of the run but its supervisor, which writes down how it ended."""

    def left(self, run: Run, watch: "Watch", record: Mapping[str, JsonValue]) -> int:
        """How many processes an ended worker has left behind.

        Args:
            run: The run.
            watch: What is known besides.
            record: Its exit record; empty if there is none.
        """

    def relay(self, run: Run) -> FrameRelay | None:
        """Where a run's pictures arrive; None where the daemon reads them in its own memory."""

    def capacity(self, runs: Iterable[Run]) -> Machine | None:
        """The slots there, given what all live runs hold; None where the engine has its own queue.

        Raises:
            EngineSilentError: It is not known yet.
        """

    def forget(self, run: Run) -> None:
        """The run has ended: remove what is kept for it."""

    def reap(self) -> None:
        """Look after what was started."""

    async def close(self) -> None:
        """End the helpers; runs continue."""


class Link(Protocol):
    """The connection to the machine or the engine that starts the agents of a site.

    Attributes:
        problem: Why it cannot be used, for people.
        generation: Grows with every new connection.
    """

    problem: str
    generation: int

    @property
    def connected(self) -> bool:
        """Whether an agent can be sent now."""

    def keep(self) -> None:
        """Be connected from now on."""

    def rest(self) -> None:
        """No run needs the connection now."""

    async def close(self) -> None:
        """End it; agents and workers continue."""
