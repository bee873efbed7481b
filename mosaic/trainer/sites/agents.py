"""Runs on machines that share no folder with us: an agent there mirrors the run directory.

The agent calls us, with the launch key of its run. We answer with what to start and which signals
to pass on. So no port has to be open on its side, and the evidence about a run is the same as for
one on a shared folder: its records, its lease, and a word about the machine.
"""

import asyncio
import json
import logging
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING, ClassVar

from mosaic.agent.orders import Order
from mosaic.config.json_types import JsonValue
from mosaic.config.keeping import PIN_SUFFIX
from mosaic.config.paths import Home
from mosaic.config.settings import Settings
from mosaic.connect import auth
from mosaic.errors import EngineSilentError
from mosaic.runs import opening
from mosaic.runs.directory import RunDirectory
from mosaic.runs.opening import read_document
from mosaic.system import atomic
from mosaic.trainer.core.decisions import Now
from mosaic.trainer.core.evidence import (
    ENDED,
    QUEUED,
    RUNNING,
    News,
    Seen,
    Waiting,
    weigh,
)
from mosaic.trainer.core.scheduler import Machine
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.launch.executor import LaunchSpec
from mosaic.trainer.sites import handover, signals
from mosaic.trainer.sites.door import Door
from mosaic.trainer.sites.interface import Link
from mosaic.trainer.sites.reception import Reception
from mosaic.trainer.sites.relay import FrameRelay
from mosaic.wire import trainer_pb2 as pb

if TYPE_CHECKING:
    from mosaic.trainer.loop.watch import Watch

# Twenty turns of an agent. One that is sending a large checkpoint calls all the while.
HEARD_S = 10.0
GONE, RESTARTED = "gone", "restarted"
_OVER = ("ended", GONE, RESTARTED)
_WAITING, _TAKEN = ".json", ".taken"

log = logging.getLogger(__name__)


@dataclass
class Contact:
    """What an agent last said, by our own clock.

    Attributes:
        heard: When it called.
        lease: What its supervisor's lease held when it last changed.
        leased: When that was.
        worker: What it says of the worker.
        since: Since when it has said so.
        sent: When an agent was last sent for.
        begun: It has started a supervisor.
        frames: Its pictures.
    """

    reception: Reception
    heard: float = 0.0
    lease: str = ""
    leased: float = field(default_factory=time.monotonic)
    worker: str = ""
    since: float = field(default_factory=time.monotonic)
    sent: float = 0.0
    begun: bool = False
    frames: FrameRelay = field(default_factory=FrameRelay)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def note(self, request: pb.AgentTurnRequest, now: float) -> None:
        """Hear an agent."""
        self.heard = now
        if request.lease != self.lease:
            self.lease, self.leased = request.lease, now
        if request.worker != self.worker:
            self.worker, self.since = request.worker, now


@dataclass(frozen=True)
class Word:
    """What is known about the machine of a run besides what its agent says."""

    word: str
    for_s: float
    detail: str
    taken: bool = False


class AgentSite(ABC):
    """A site whose runs have agents; how an agent gets there is the subclass's.

    Attributes:
        idle_s: How long a connection is kept after the last run.
        start_s: How long an agent that was sent for may be silent.
    """

    idle_s: ClassVar[float]
    start_s: ClassVar[float]

    def __init__(self, name: str, home: Home, settings: Settings, door: Door) -> None:
        self.name = name
        self._home = home
        self._settings = settings
        self._door = door
        self._contacts: dict[str, Contact] = {}
        self._jobs: dict[str, str] = {}
        self._generation = 0
        self._needed = time.monotonic()

    # ------------------------------------------------------------ what an engine adds

    @property
    @abstractmethod
    def link(self) -> Link:
        """The connection through which agents are sent."""

    @abstractmethod
    async def send_agent(self, run: Run, order: Order) -> None:
        """Start an agent for a run; asking twice starts one.

        Raises:
            EngineSilentError: The machine or its engine does not answer.
            MosaicError: It refuses.
        """

    @abstractmethod
    def engine_word(self, run: Run, contact: Contact, now: Now) -> Word:
        """What the engine says about a run whose agent is silent, or has not been heard yet."""

    @abstractmethod
    def send_again(self, run: Run, contact: Contact) -> None:
        """Make sure that a run which was placed before has an agent that knows the way to us."""

    def expects_word(self, run: Run) -> bool:
        """Whether the agent of a run could be heard now; an engine may say that it cannot."""
        return True

    @abstractmethod
    def capacity(self, runs: Iterable[Run]) -> Machine | None:
        """See `Site`."""

    @abstractmethod
    async def close(self) -> None:
        """See `Site`."""

    def need_link(self) -> None:
        """Connect for a run that waits.

        Raises:
            EngineSilentError: There is no connection yet.
        """
        if not self.link.connected:
            self._needed = time.monotonic()
            self.link.keep()
            raise EngineSilentError(self.link.problem)

    def order(self, run: Run, job: str) -> Order:
        """The order for the agent of a run."""
        address = self._door.address()
        return Order(
            run_id=run.run_id,
            attempt=run.attempt,
            job=job,
            key=auth.launch_key(self._door.token, run.run_id),
            target=address.target,
            certificate=address.certificate,
            name=address.name,
        )

    # ------------------------------------------------------------ placing

    async def place(self, run: Run, spec: LaunchSpec, warm_modules: Sequence[str]) -> str:
        # A name of its own for each time: an agent that comes back late, from a time of which a
        # daemon that was killed has kept no record, is known by it and sent away.
        job = secrets.token_hex(4)
        document = await asyncio.to_thread(handover.describe, self._home, run, spec, job)
        self._home.launches.mkdir(mode=0o700, exist_ok=True)
        path = self._launch(run, job, _WAITING)
        await asyncio.to_thread(atomic.write_json, path, document, 0o600)
        self._contacts.pop(run.run_id, None)
        self._jobs[run.run_id] = job
        self.contact(run.run_id).sent = time.monotonic()
        try:
            await self.send_agent(run, self.order(run, job))
        except BaseException:
            self._remove_launches(run)
            self._jobs.pop(run.run_id, None)
            raise
        return job

    def _launch(self, run: Run, job: str, suffix: str) -> Path:
        return self._home.launches / f"{run.run_id}-{job}{suffix}"

    def _launches(self, run: Run, suffix: str = "") -> list[Path]:
        found = self._home.launches.glob(f"{run.run_id}-*")
        return [path for path in found if path.name.endswith(suffix)]

    def _remove_launches(self, run: Run, suffix: str = "") -> bool:
        paths = self._launches(run, suffix)
        for path in paths:
            path.unlink(missing_ok=True)
        return bool(paths)

    # ------------------------------------------------------------ hearing an agent

    def contact(self, run_id: str) -> Contact:
        """What is known of a run's agent."""
        if run_id not in self._contacts:
            self._contacts[run_id] = Contact(Reception(self._home.run_dir(run_id)))
        return self._contacts[run_id]

    def admits(self, run: Run, attempt: int, job: str) -> bool:
        """Whether an agent is the one that the run has now."""
        current = run.job or self._jobs.get(run.run_id, "")
        waits = run.state is State.INIT and not run.slots
        return run.live and not waits and run.attempt == attempt and bool(job) and job == current

    async def turn(self, run: Run, request: pb.AgentTurnRequest) -> pb.AgentTurnReply:
        """Take what an admitted agent brings, and answer it.

        Raises:
            ConfinementError: It sent a file that it may not send.
            OSError: The disk refuses; it will be sent again.
        """
        contact = self.contact(run.run_id)
        async with contact.lock:
            taken = await asyncio.to_thread(_store, contact.reception, request)
        contact.note(request, time.monotonic())
        directory = RunDirectory(self._home.run_dir(run.run_id), run.attempt)
        reply = pb.AgentTurnReply(taken=taken, files=_for_the_worker(directory))
        wish = contact.frames.wish
        if wish is not None:
            reply.frames.max_fps = wish.max_fps
            reply.frames.max_dim = wish.max_dim
            reply.frames.jpeg_quality = wish.quality
        if not contact.begun and opening.is_regular(directory.supervisor):
            # The secrets in it have done their work.
            self._remove_launches(run)
            contact.begun = True
        if not contact.begun:
            reply.launch_json = self._hand_out(run, request.job)
        return reply

    def _hand_out(self, run: Run, job: str) -> str:
        """What to start; from here on it cannot be withdrawn, only ended."""
        taken = self._launch(run, job, _TAKEN)
        try:
            self._launch(run, job, _WAITING).rename(taken)
        except FileNotFoundError:
            pass  # withdrawn, or handed out before to an agent that was killed since
        try:
            return opening.read_regular(taken.parent, taken.name).decode()
        except FileNotFoundError:
            return ""

    def needs(self, run: Run, path: str) -> bool:
        """Whether the agent of a run may fetch a file: one that its launch names."""
        return any(
            item["path"] == path
            for launch in self._launches(run, _TAKEN)
            for item in json.loads(opening.read_regular(launch.parent, launch.name))["files"]
        )

    # ------------------------------------------------------------ looking

    def news(self, run: Run, watch: "Watch", now: Now) -> News:
        if run.launching and not run.job and watch.worker_key() is None:
            return Waiting(f"is being handed to {run.site}")
        contact = self.contact(run.run_id)
        word = self._word(run, contact, now)
        if run.launching:
            # Files come from its agent alone. Where thousands wait for a machine, looking for
            # what cannot be there is most of what a daemon does.
            if word.word == QUEUED and contact.heard < watch.looked_mono:
                return Waiting(word.detail)
            watch.looked_mono = now.mono
        seen = Seen(
            exit=read_document(watch.directory.exit),
            began=watch.worker_key() is not None,
            # A daemon that has just begun to look has seen no silence yet.
            quiet_s=now.mono - max(contact.leased, watch.watched_mono),
            word=word.word,
            word_s=word.for_s,
            detail=_described(run, watch, contact, word, now),
            taken=word.taken,
            asked=bool(run.stopping) or run.state is State.FAULT,
        )
        return weigh(seen, self._settings.lost_after_s)

    def _word(self, run: Run, contact: Contact, now: Now) -> Word:
        """The agent's word about its own machine is better than any engine's."""
        said_s = now.mono - contact.since
        if contact.worker == RESTARTED:
            return Word(ENDED, said_s, "its machine was restarted", taken=True)
        if contact.worker == GONE:
            return Word(ENDED, said_s, "its supervisor vanished")
        if contact.worker in _OVER:
            return Word(ENDED, said_s, "its worker has ended")
        if now.mono - contact.heard < HEARD_S:
            detail = "its agent starts it" if run.launching else "its agent is heard"
            return Word(RUNNING if contact.worker else QUEUED, said_s, detail)
        return self.engine_word(run, contact, now)

    # ------------------------------------------------------------ acting

    def reap(self) -> None:
        """Keep the connection while a run needs it, and send again for agents that are silent."""
        now = time.monotonic()
        mine = [run for run in self._door.live() if run.site == self.name]
        if mine:
            self._needed = now
            self.link.keep()
        elif now - self._needed > self.idle_s:
            self.link.rest()
        if not self.link.connected:
            return
        # A new connection may have another way back to us, which every agent has to learn of.
        reconnected = self.link.generation != self._generation
        self._generation = self.link.generation
        for run in mine:
            contact = self.contact(run.run_id)
            silent = now - contact.heard > HEARD_S and now - contact.sent > self.start_s
            missing = silent and self.expects_word(run)
            if run.job and not run.queued and (reconnected or missing):
                self.send_again(run, contact)

    def withdraw(self, run: Run, watch: "Watch") -> bool:
        removed = self._remove_launches(run, _WAITING)
        contact = self.contact(run.run_id)
        never = contact.worker in _OVER and not opening.is_regular(watch.directory.supervisor)
        return removed or never

    def signal(self, run: Run, watch: "Watch", number: int) -> None:
        signals.add(watch.directory.control, number)

    def sweep(self, run: Run, watch: "Watch") -> None:
        # The supervisor there kills whatever its worker leaves behind.
        self.signal(run, watch, SIGKILL)

    def relay(self, run: Run) -> FrameRelay | None:
        return self.contact(run.run_id).frames

    def left(self, run: Run, watch: "Watch", record: Mapping[str, JsonValue]) -> int:
        """None: the supervisor has ended them all before its record was written."""
        return 0

    def forget(self, run: Run) -> None:
        self._remove_launches(run)
        self._contacts.pop(run.run_id, None)
        self._jobs.pop(run.run_id, None)


def _store(reception: Reception, request: pb.AgentTurnRequest) -> list[int]:
    taken = [reception.take(piece) for piece in request.pieces]
    for path in request.removed:
        reception.remove(path)
    return taken


def _for_the_worker(directory: RunDirectory) -> dict[str, bytes]:
    """The daemon's own small files of a run, which the supervisor and the worker there obey."""
    files = {}
    for path in (directory.control, directory.fence, directory.stop_asked):
        if opening.is_regular(path):
            files[path.name] = opening.read_regular(directory.path, path.name)
    for name in opening.names_in(directory.path, "checkpoints"):
        if name.endswith(PIN_SUFFIX):
            files[f"checkpoints/{name}"] = b""
    return files


def _described(run: Run, watch: "Watch", contact: Contact, word: Word, now: Now) -> str:
    if run.launching or word.word == ENDED:
        return word.detail
    since = time.strftime("%H:%M:%S", time.localtime(now.wall - (now.mono - contact.leased)))
    return f"unreachable since {since}: {watch.host or 'its machine'} is silent; {word.detail}"
