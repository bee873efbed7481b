"""What SLURM's controller last said about our jobs, asked for all of them at once and not often."""

import asyncio
import logging
import time
from dataclasses import dataclass, field

from mosaic.errors import EngineSilentError, MosaicError, SlurmRefusedError
from mosaic.trainer.core.evidence import ENDED, QUEUED, SILENT, UNKNOWN
from mosaic.trainer.sites import slurm_commands
from mosaic.trainer.sites.slurm_words import Job

# After a submission the next states follow within a second; then the pauses grow.
_FIRST_PAUSE_S = 0.3
# As many answers may be late before it is called silence.
_ANSWERS_MISSED = 3

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opinion:
    """What the controller says about a job.

    Attributes:
        word: One of the words of `mosaic.trainer.core.evidence`.
        detail: The same as a sentence.
        for_s: For how long it has said so.
        asked: When the question was put that it last answered.
        job: The job, where it knows it.
    """

    word: str
    detail: str
    for_s: float
    asked: float
    job: Job | None = None


@dataclass
class SlurmQueue:
    """Asks the controller in turns, beside the loop.

    Attributes:
        poll_s: The longest pause between two questions.
    """

    poll_s: float
    _jobs: dict[str, Job] = field(default_factory=dict)
    _heard: float = field(default_factory=time.monotonic)
    _answered: float = 0.0
    _asked: float = 0.0
    _changes: int = 0
    _changes_known: int = -1
    _pause: float = _FIRST_PAUSE_S
    _wanted: float = 0.0
    _since: dict[str, tuple[str, float]] = field(default_factory=dict)
    _to_cancel: set[tuple[str, str]] = field(default_factory=set)
    _leaving: dict[tuple[str, str], int] = field(default_factory=dict)
    _task: "asyncio.Task[None] | None" = None

    def opinion(self, number: str, name: str, mono: float) -> Opinion:
        """What it says about the job of a run."""
        if mono - self._wanted > 2 * self.poll_s:
            self._heard = mono  # no one has asked it for a while, so it owes no answer
        self._wanted = mono
        word, detail, job = self._word(number, name, mono)
        # The number too: a run that was placed again has another job, and no history with it.
        said = f"{number} {word} {job.state if job else ''}"
        if self._since.get(name, ("", 0.0))[0] != said:
            self._since[name] = (said, mono)
        return Opinion(word, detail, mono - self._since[name][1], self._answered, job)

    def _word(self, number: str, name: str, mono: float) -> tuple[str, str, Job | None]:
        shown = f"SLURM job {number}"
        job = self._jobs.get(number)
        # Numbers begin again when a controller loses its state; then ours is another's.
        if job is not None and job.name != name:
            return UNKNOWN, f"{shown} now belongs to another job", None
        if mono - self._heard > _ANSWERS_MISSED * max(self.poll_s, 1.0):
            return SILENT, f"SLURM does not answer ({shown})", job
        if job is not None:
            return job.word, job.sentence(), job
        if self._changes_known < self._changes:
            return QUEUED, f"{shown}: SLURM is being asked", None
        return UNKNOWN, f"SLURM has forgotten job {number}", None

    def hurry(self) -> None:
        """Something has just changed: ask soon."""
        # An answer that is under way may not know of it yet.
        self._changes += 1
        self._pause = _FIRST_PAUSE_S

    def cancel(self, number: str, name: str) -> None:
        """End a job, now or as soon as the controller answers."""
        self._to_cancel.add((number, name))
        self._pause = _FIRST_PAUSE_S

    def see_off(self, number: str, name: str, begun: int) -> None:
        """Its run is over, and so will be the job; should SLURM begin it again, end it.

        A node that cannot tell the controller how its job ended is given up later, and the job is
        begun elsewhere, for a run that no one will start any more.

        Args:
            number: The job.
            name: What it is called.
            begun: How often SLURM had begun it again before.
        """
        self._leaving[number, name] = begun

    def forget(self, name: str) -> None:
        """No one will ask about the jobs of this name again."""
        self._since.pop(name, None)

    def turn(self) -> None:
        """Ask again if it is time; called at every turn of the loop."""
        now = time.monotonic()
        # Without runs that ask, the controller is left alone.
        needed = self._to_cancel or self._leaving or now - self._wanted < 2 * self.poll_s
        busy = self._task is not None and not self._task.done()
        if needed and not busy and now - self._asked >= self._pause:
            self._asked = now
            self._pause = min(2 * self._pause, self.poll_s)
            self._task = asyncio.get_running_loop().create_task(self._ask())

    async def close(self) -> None:
        """Stop asking; a command under way ends by itself."""
        if self._task is not None:
            self._task.cancel()

    async def _ask(self) -> None:
        changes = self._changes
        try:
            for job in tuple(self._to_cancel):
                await asyncio.to_thread(self._cancel, *job)
            asked = time.monotonic()
            jobs = await asyncio.to_thread(slurm_commands.jobs)
        except MosaicError as error:
            if not isinstance(error, EngineSilentError):
                log.error("%s", error)
            return
        except Exception:
            log.exception("SLURM could not be asked")
            return
        self._jobs = {job.number: job for job in jobs}
        self._heard, self._answered = time.monotonic(), asked
        self._changes_known = changes
        self._watch_those_that_leave()

    def _watch_those_that_leave(self) -> None:
        for (number, name), begun in tuple(self._leaving.items()):
            job = self._jobs.get(number)
            if job is not None and job.name == name and job.word != ENDED:
                if job.word != QUEUED and job.restarts <= begun:
                    continue  # on its way out, or on a node that is not heard
                self._to_cancel.add((number, name))
            del self._leaving[number, name]

    def _cancel(self, number: str, name: str) -> None:
        try:
            slurm_commands.cancel(number, name)
        except SlurmRefusedError as error:
            log.info("job %s was not cancelled: %s", number, error)  # it has ended already
        self._to_cancel.discard((number, name))
