"""`TrainerClient`: everything the daemon can do, as plain Python.

from mosaic.client import TrainerClient

with TrainerClient.connect() as trainer:
    run = trainer.submit({"algo": "ppo", "env_id": "CartPole-v1", "total_timesteps": 50_000})
    print(trainer.wait(run.run_id).outcome)
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.client import archives, connection
from mosaic.client.calls import Calls
from mosaic.client.runs import RunCalls, RunPage
from mosaic.config.paths import Home
from mosaic.connect.channel import open_channel
from mosaic.connect.elsewhere import SCHEME, Elsewhere, find_way, named_elsewhere
from mosaic.connect.endpoint import Address, find_endpoint
from mosaic.connect.starting import start_daemon
from mosaic.errors import DaemonNotRunningError, InvalidConfigError, MosaicError
from mosaic.records import CheckpointRecord, ExportResult, ImportedRun, RunRecord
from mosaic.records.daemon import Health, Resources, WorkerInfo
from mosaic.records.messages import (
    read_health,
    read_imported,
    read_resources,
    read_worker,
)
from mosaic.wire import trainer_pb2 as pb

if TYPE_CHECKING:
    from pydantic import JsonValue

    from mosaic.client.lineage import Branch
    from mosaic.config.model import Parameters

__all__ = ["RunPage", "TrainerClient"]

_SHUTDOWN = {
    "leave": pb.ShutdownRequest.LEAVE,
    "stop": pb.ShutdownRequest.STOP,
    "drain": pb.ShutdownRequest.DRAIN,
}


def _open(home: Home) -> Calls:
    """A connection to the daemon of a home, wherever it listens now."""
    return _proved(find_endpoint(home).address, connection.read_token(home))


def _proved(address: Address, token: bytes) -> Calls:
    """A connection to a daemon that has proved to know the token."""
    channel = open_channel(address)
    try:
        connection.prove(channel, token)
    except MosaicError:
        channel.close()
        raise
    return Calls(channel, token)


def _invited(way: Elsewhere) -> Calls:
    """A connection to a daemon elsewhere, at the address where it is reached now."""
    invitation = way.reach()
    return _proved(invitation.address, invitation.token)


class TrainerClient(RunCalls):
    """A connection to the daemon of one home. It returns typed records.

    Attributes:
        home: The daemon's home; for a daemon elsewhere, where this client keeps files of its own.
        elsewhere: How a daemon is reached whose files this process cannot read; None here.
    """

    def __init__(
        self,
        home: Home,
        open_calls: Callable[[], Calls],
        way: Elsewhere | None = None,
    ) -> None:
        super().__init__(open_calls)
        self.home = home
        self.elsewhere = way
        self._on_close: Callable[[], None] | None = None

    def kept_checkpoints(self, run_id: str, kind: str = "full") -> list[CheckpointRecord]:
        """The checkpoints of a run that it still keeps.

        Args:
            run_id: The run.
            kind: `full` for those that `fork` can continue from, `policy` for those that act.
        """
        from mosaic.client.forking import kept_checkpoints

        return kept_checkpoints(self, self.get(run_id).run_id, kind)

    def fork(
        self,
        /,
        run_id: str,
        at: int,
        *,
        name: str = "",
        notes: str = "",
        keep: str | None = None,
        total_timesteps: int | None = None,
        priority: int = 0,
        **parameters: "JsonValue",
    ) -> RunRecord:
        """Continue a run from one of its kept checkpoints, as a new run.

        trainer.fork(run.run_id, 40_000, learning_rate=1e-4)

        Args:
            run_id: The run to fork.
            at: The step of one of its kept checkpoints; see `kept_checkpoints`.
            name: Name of the fork.
            notes: Notes.
            keep: Which checkpoints the fork keeps, such as `every:10000,best`.
            total_timesteps: Steps in all, counted from the first run's beginning.
            priority: Higher starts first.
            parameters: The algorithm's own arguments that change. Without any, the fork trains to
                the same weights as the run, to the last bit.

        Raises:
            InvalidArgumentError: The run keeps no checkpoint at this step.
            InvalidConfigError: With every problem.
        """
        # Here: most users of a client ask about runs and need none of the workers' descriptions.
        from mosaic.client.forking import algorithm_of, fork
        from mosaic.client.training import checked_parameters

        base = self.get(run_id)
        given: Parameters = dict(parameters)
        if parameters:
            given, problems = checked_parameters(algorithm_of(base), parameters)
            if problems:
                raise InvalidConfigError(problems)
        return fork(
            self,
            base,
            at,
            given,
            name=name,
            notes=notes,
            keep=keep,
            total_timesteps=total_timesteps,
            priority=priority,
        )

    def play_with(
        self, run_id: str, *, seed: int = 1, script: str = "", fps: float | None = None
    ) -> RunRecord:
        """Let the newest policy of a run play, with a person who takes over and hands back.

        session = trainer.play_with(run.run_id)

        Args:
            run_id: A run that trains or has trained, or an evaluation. It is not affected.
            seed: The seed of the first episode; each further one adds 1.
            script: A key script, in which `policy` is a step of the policy's; empty for a person
                at the keys, who uses `mosaic.client.play.PlayClient` or the window.
            fps: Steps per second; the environment's own by default.

        Raises:
            InvalidConfigError: The run has saved no policy, or its policy cannot be played.
        """
        from mosaic.client.taking_over import play_with

        return play_with(self, run_id, seed=seed, script=script, fps=fps)

    def lineage(self, run_id: str) -> "Branch":
        """The tree of runs that a run belongs to, from its first ancestor down."""
        from mosaic.client.lineage import lineage

        return lineage(self, run_id)

    @classmethod
    def connect(cls, home: Home | str | None = None, start: bool = False) -> "TrainerClient":
        """Connect to the daemon of a home, after it has proved that it belongs to it.

        Args:
            home: The home; MOSAIC_HOME or the project's `var/` by default. On another machine:
                `ssh://user@host:port/home`. Without a home, MOSAIC_CONNECT may name such an
                address, or the file of an invitation.
            start: Start a daemon if none is running.

        Raises:
            DaemonNotRunningError: None is running.
            NotOurDaemonError: Something else answers.
            UnreachableError: The other machine cannot be reached.
        """
        if isinstance(home, str) and home.startswith(SCHEME):
            return cls._connect_elsewhere(home, start)
        if home is None and (named := named_elsewhere()):
            return cls._connect_elsewhere(named, start)
        place = home if isinstance(home, Home) else Home.locate(home)
        try:
            return cls(place, partial(_open, place))
        except DaemonNotRunningError:
            if not start:
                raise
        start_daemon(place)
        return cls(place, partial(_open, place))

    @classmethod
    def _connect_elsewhere(cls, named: str, start: bool) -> "TrainerClient":
        way = find_way(named)
        try:
            if start:
                way.reach(start=True)
            client = cls.accept(way)
        except BaseException:
            way.release()
            raise
        client._on_close = way.release
        return client

    @classmethod
    def accept(cls, invitation: Elsewhere, home: Home | str | None = None) -> "TrainerClient":
        """Connect to a daemon whose home this client cannot read.

        Args:
            invitation: Made where the daemon runs, by `mosaic invite FILE`; or a tunnel, which
                stays open when this client is closed.
            home: Where this client keeps files of its own.

        Raises:
            DaemonNotRunningError: It does not answer.
            NotOurDaemonError: Something else answers.
        """
        place = home if isinstance(home, Home) else Home.locate(home)
        return cls(place, partial(_invited, invitation), invitation)

    def close(self) -> None:
        """End the connection; runs and daemon continue."""
        self._closed = True
        self._calls.close()
        # Once: a tunnel that others still use must not be given up twice.
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()

    def __enter__(self) -> "TrainerClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ the daemon

    def health(self) -> Health:
        """The daemon's own state."""
        return read_health(self._calls.unary("GetHealth", pb.GetHealthRequest()))

    def resources(self) -> Resources:
        """Slots, memory, disk and load."""
        return read_resources(self._calls.unary("GetResources", pb.GetResourcesRequest()))

    def workers(self) -> list[WorkerInfo]:
        """Every worker, with its capabilities or the reason why it cannot be used."""
        reply = self._calls.unary("ListWorkers", pb.ListWorkersRequest())
        return [read_worker(worker) for worker in reply.workers]

    def shutdown(self, runs: str = "leave") -> int:
        """Stop the daemon; `runs` is `leave`, `stop` or `drain`. Returns the live runs' number."""
        reply = self._calls.unary("Shutdown", pb.ShutdownRequest(runs=_SHUTDOWN[runs]))
        return int(reply.live_runs)

    # ------------------------------------------------------------ archives

    def export_runs(
        self,
        run_ids: Sequence[str],
        target: Path,
        *,
        checkpoints: bool = True,
        overwrite: bool = False,
    ) -> ExportResult:
        """Write ended runs into one file.

        Raises:
            ArchiveError: A run has not ended, or the file exists.
        """
        request = pb.ExportRunsRequest(run_ids=run_ids, without_checkpoints=not checkpoints)
        return archives.write(self._calls.stream("ExportRuns", request), target, overwrite)

    def import_runs(self, file: Path, *, as_new: bool = False) -> list[ImportedRun]:
        """Import the runs of an archive.

        Raises:
            ArchiveError: The file is damaged, hostile or not ours; nothing was changed.
            RunExistsError: The home has other runs with these ids.
        """
        with archives.open_archive(file) as content:
            chunks = archives.send(content, as_new)
            # No limit: how long it takes depends on the size of the runs.
            reply = self._calls.unary("ImportRuns", chunks, timeout_s=None)
        return [read_imported(item) for item in reply.runs]
