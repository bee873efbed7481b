"""SLURM over a shared folder: it places and queues, our supervisor on the node does the rest.

The run directory is on a file system that the nodes share with the daemon. What a supervisor needs
waits in a file of `launches` that only its owner can read; the job's script names that file and
nothing else. Signals travel the other way round in a file of the run, so that a run can be paused
and stopped while SLURM's own controller is away.
"""

import asyncio
import glob
import logging
import os
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.config.json_types import JsonValue
from mosaic.config.paths import Home
from mosaic.config.settings import Settings
from mosaic.config.sites import read_site
from mosaic.records.run import Outcome
from mosaic.runs import opening
from mosaic.runs.directory import RunDirectory
from mosaic.runs.opening import read_document
from mosaic.system import atomic
from mosaic.trainer.core.decisions import Now
from mosaic.trainer.core.evidence import (
    ENDED,
    QUEUED,
    RUNNING,
    SILENT,
    UNKNOWN,
    News,
    Seen,
    Waiting,
    weigh,
)
from mosaic.trainer.core.scheduler import Machine
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.launch import supervisor
from mosaic.trainer.launch.executor import LaunchSpec
from mosaic.trainer.sites import signals, slurm_commands
from mosaic.trainer.sites.relay import FrameRelay
from mosaic.trainer.sites.slurm_queue import Opinion, SlurmQueue
from mosaic.trainer.sites.slurm_words import Job
from mosaic.trainer.sites.watching import Watching

if TYPE_CHECKING:
    from mosaic.trainer.loop.watch import Watch

# How often the files of a job that waits are looked at. SLURM says every few seconds which jobs it
# has begun, so that where thousands wait less is enough: at most so many are looked at a second.
_LOOK_S = 2.0
_LOOKS_A_SECOND = 100
# The signal before the time limit comes up to a minute early, says SLURM; the worker needs its
# grace period after it.
_WARNING_S = 30
_NOT_DONE = frozenset({Outcome.CANCELLED, Outcome.LOST, Outcome.INTERRUPTED, Outcome.TIME_LIMIT})

log = logging.getLogger(__name__)


class SlurmSite:
    """Runs as jobs of a SLURM cluster."""

    def __init__(self, home: Home, settings: Settings) -> None:
        self._home = home
        self._settings = settings
        self._queue = SlurmQueue(settings.site_poll_s)
        # More would only wait for each other in the controller.
        self._placing = asyncio.Semaphore(4)
        self._offered: dict[str, Path] = {}
        self._watching = Watching()

    # ------------------------------------------------------------ placing

    async def place(self, run: Run, spec: LaunchSpec, warm_modules: Sequence[str]) -> str:
        async with self._placing:
            return await asyncio.to_thread(self._place, run, spec)

    def _place(self, run: Run, spec: LaunchSpec) -> str:
        # Asked first: a daemon that was killed after `sbatch`, and a job that SLURM has put back
        # into its queue, have a job already. It must not become two.
        waiting = [job for job in slurm_commands.jobs(job_name(run)) if job.word != ENDED]
        job = waiting[-1] if waiting else None
        if job is None:
            number = slurm_commands.submit(self._options(run), self._script(run))
            job = Job(number, job_name(run), "PENDING")
        self._home.launches.mkdir(mode=0o700, exist_ok=True)
        path = self._launch_path(run, job)
        atomic.write_json(path, spec.to_dict(), mode=0o600)
        self._offered[run.run_id] = path
        self._queue.hurry()
        return job.number

    def _options(self, run: Run) -> list[str]:
        partition, need = read_site(run.site).part, run.request
        log_file = self._home.run_dir(run.run_id) / "logs" / "slurm.log"
        options = [
            f"--job-name={job_name(run)}",
            "--nodes=1",
            "--ntasks=1",
            f"--cpus-per-task={need.cpus}",
            "--requeue",
            f"--signal=B:USR1@{int(self._settings.grace_s) + _WARNING_S}",
            "--input=/dev/null",
            f"--output={_literally(log_file)}",
            "--open-mode=append",
            f"--chdir={self._home.run_dir(run.run_id)}",
        ]
        if partition:
            options.append(f"--partition={partition}")
        if self._settings.slurm_account:
            options.append(f"--account={self._settings.slurm_account}")
        if need.gpus:
            options.append(f"--gres=gpu:{need.gpus}")
        if need.memory_mb:
            options.append(f"--mem={need.memory_mb}M")
        if run.wallclock_s:
            # Our own limit comes first; SLURM's is the one that holds when no daemon is there.
            options.append(
                f"--time={int((run.wallclock_s + 2 * self._settings.grace_s) // 60) + 2}"
            )
        return [*options, *shlex.split(self._settings.slurm_options)]

    def _script(self, run: Run) -> str:
        """The job's script: no secret, and nothing that differs from attempt to attempt."""
        prefix = shlex.quote(str(self._home.launches / run.run_id))
        shim = [sys.executable, "-I", "-S", str(Path(supervisor.__file__))]
        launch = f'{prefix}-"$SLURM_JOB_ID"-"${{SLURM_RESTART_COUNT:-0}}".json'
        return f"#!/bin/sh\nexec {shlex.join(shim)} {launch}\n"

    def _launch_path(self, run: Run, job: Job) -> Path:
        return self._home.launches / f"{run.run_id}-{job.number}-{job.restarts}.json"

    # ------------------------------------------------------------ looking

    def news(self, run: Run, watch: "Watch", now: Now) -> News:
        if run.launching and not run.job and watch.worker_key() is None:
            # SLURM is being asked at this moment, and has nothing to say about it yet.
            return Waiting(f"is being handed to {run.site}")
        self._watching.look(watch.directory, run.state is State.EXEC, now.mono)
        opinion = self._queue.opinion(run.job, job_name(run), now.mono)
        if run.launching:
            self._follow_restart(run, opinion)
            # Nothing can have begun: no need to look at its files four times a second.
            look_s = max(_LOOK_S, len(self._offered) / _LOOKS_A_SECOND)
            if opinion.word == QUEUED and now.mono - watch.looked_mono < look_s:
                return Waiting(opinion.detail)
            watch.looked_mono = now.mono
        seen = Seen(
            exit=read_document(watch.directory.exit),
            began=watch.worker_key() is not None,
            quiet_s=_quiet_s(watch, now.mono),
            word=opinion.word,
            word_s=opinion.for_s,
            detail=_described(run, watch, opinion, now),
            taken=_taken(watch, opinion),
            stopped=opinion.job.stopped if opinion.job else None,
            asked=bool(run.stopping) or run.state is State.FAULT,
        )
        return weigh(seen, self._settings.lost_after_s)

    def _follow_restart(self, run: Run, opinion: Opinion) -> None:
        """Offer what is to be started to the job as it is now: SLURM may begin it again unseen."""
        if opinion.job is None:
            return
        path = self._launch_path(run, opinion.job)
        if self._offered.get(run.run_id) == path:
            return
        for other in self._launches(run):
            try:
                os.rename(other, path)
            except FileNotFoundError:
                continue  # a supervisor was quicker
        self._offered[run.run_id] = path

    def _launches(self, run: Run) -> list[str]:
        return glob.glob(f"{glob.escape(str(self._home.launches))}/{run.run_id}-*.json")

    # ------------------------------------------------------------ acting

    def withdraw(self, run: Run, watch: "Watch") -> bool:
        removed = False
        for path in self._launches(run):
            try:
                os.unlink(path)
                removed = True
            except FileNotFoundError:
                continue  # a supervisor was quicker, and will begin
        opinion = self._queue.opinion(run.job, job_name(run), time.monotonic())
        # What SLURM has forgotten cannot be cancelled, but its number may be another's by now.
        if run.job and opinion.word != UNKNOWN:
            self._queue.cancel(run.job, job_name(run))
        began = opening.is_regular(watch.directory.lease)
        return removed or (not began and opinion.word in (ENDED, UNKNOWN))

    def signal(self, run: Run, watch: "Watch", number: int) -> None:
        signals.add(watch.directory.control, number)

    def sweep(self, run: Run, watch: "Watch") -> None:
        # SLURM kills all that the job has started; the supervisor has half a minute for its record.
        if run.job:
            self._queue.cancel(run.job, job_name(run))

    def left(self, run: Run, watch: "Watch", record: Mapping[str, JsonValue]) -> int:
        """None: the supervisor has ended them all, or SLURM has with the job."""
        return 0

    def relay(self, run: Run) -> FrameRelay | None:
        return self._watching.relay(run.run_id)

    def capacity(self, runs: Iterable[Run]) -> Machine | None:
        return None

    def forget(self, run: Run) -> None:
        for path in glob.glob(f"{glob.escape(str(self._home.launches))}/{run.run_id}-*"):
            try:
                os.unlink(path)
            except OSError as error:
                log.warning("%s could not be removed: %s", path, error)
        self._offered.pop(run.run_id, None)
        if run.job:
            self._end_job(run)
        self._queue.forget(job_name(run))
        self._watching.forget(run.run_id)

    def _end_job(self, run: Run) -> None:
        """See to it that no job waits or runs for no one; a supervisor that ends ends its own."""
        opinion = self._queue.opinion(run.job, job_name(run), time.monotonic())
        if run.outcome in _NOT_DONE and opinion.word in (QUEUED, RUNNING, SILENT):
            self._queue.cancel(run.job, job_name(run))
        else:
            directory = RunDirectory(self._home.run_dir(run.run_id), run.attempt)
            self._queue.see_off(run.job, job_name(run), _begun(directory))

    def reap(self) -> None:
        self._queue.turn()

    async def close(self) -> None:
        await self._queue.close()
        slurm_commands.give_up()


def job_name(run: Run) -> str:
    """What a run's job is called: numbers of jobs are used again, this name is not."""
    return f"mosaic-{run.run_id}"


def _quiet_s(watch: "Watch", mono: float) -> float:
    """How long the lease has not changed, as seen from here."""
    place = watch.directory.lease
    content = opening.read_end(watch.directory.path, place.name, 4096)
    if content != watch.lease:
        watch.lease, watch.lease_mono = content, mono
    # A daemon that has just begun to look has seen no silence yet.
    return mono - max(watch.lease_mono, watch.watched_mono)


def _taken(watch: "Watch", opinion: Opinion) -> bool:
    """Whether SLURM took the machine of this attempt away, and the run may continue elsewhere."""
    job = opinion.job
    if job is None or watch.worker_key() is None:
        return False
    # An answer that is older than the last sign of life may tell of the time before the start. A
    # controller that dies with the node would leave us with it for good.
    told_since = opinion.asked > watch.lease_mono
    given_up = told_since and (job.taken or job.word == QUEUED)
    return given_up or _begun_again(watch.directory, job)


def _begun_again(directory: RunDirectory, job: Job) -> bool:
    """Whether SLURM has begun a job again since this attempt was started by it."""
    record = read_document(directory.supervisor) or {}
    return record.get("job") == job.number and job.restarts > _begun(directory)


def _begun(directory: RunDirectory) -> int:
    """How often SLURM had begun the job of this attempt again when it started."""
    begun = (read_document(directory.supervisor) or {}).get("restart", 0)
    return begun if isinstance(begun, int) else 0


def _described(run: Run, watch: "Watch", opinion: Opinion, now: Now) -> str:
    if run.launching or opinion.word == ENDED:
        return opinion.detail
    since = time.strftime("%H:%M:%S", time.localtime(now.wall - (now.mono - watch.lease_mono)))
    if opinion.word in (QUEUED, RUNNING) and _taken(watch, opinion):
        return f"{opinion.detail}: its node was taken away"
    return f"unreachable since {since}: {watch.host or 'its node'} is silent; {opinion.detail}"


def _literally(path: Path) -> str:
    """A path in which SLURM finds no `%j` of its own to fill in."""
    return str(path).replace("%", "%%")
