"""The part of the SDK that starts runs, looks at them, waits for them and handles them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Union

from mosaic.client import following
from mosaic.client.calls import Calls
from mosaic.client.content import RunContent
from mosaic.client.following import PATIENCE_S
from mosaic.connect.failures import LIST_IS_CUT, read_problems
from mosaic.errors import DaemonNotRunningError, InvalidConfigError, Problem
from mosaic.records import RunChange, RunEvent, RunRecord
from mosaic.records.messages import read_change, read_event
from mosaic.records.wire import read_run
from mosaic.wire import trainer_pb2 as pb

if TYPE_CHECKING:
    from pydantic import JsonValue

    from mosaic.config.model import TrainRunConfig

# A checked configuration (`mosaic.config.build`); a document or JSON text from anyone else.
Config = Union["TrainRunConfig", Mapping[str, object], str]


class RunPage(NamedTuple):
    """A page of runs, the token of the next page, and the number of all matching runs."""

    runs: list[RunRecord]
    next_page_token: str
    total: int


class RunCalls(RunContent):
    """Calls about runs. It returns typed records."""

    def __init__(self, open_calls: Callable[[], Calls]) -> None:
        super().__init__(open_calls())
        self._open_calls = open_calls
        # Closed by its owner: a thread that still waits must not open it again.
        self._closed = False

    def reconnect(self, patience_s: float = PATIENCE_S) -> None:
        """Find the daemon again, which may listen somewhere else after a restart.

        Raises:
            DaemonNotRunningError: It is not back within `patience_s`.
        """

        if self._closed:
            raise DaemonNotRunningError("this client is closed; connect again")

        def replace() -> None:
            # The new connection first: if it fails, the old one stays usable for the next try.
            fresh = self._open_calls()
            self._calls.close()
            self._calls = fresh

        following.find_again(replace, patience_s)

    # ------------------------------------------------------------ runs

    def validate(self, config: Config) -> list[Problem]:
        """Every problem of a configuration; nothing is started."""
        request = pb.SubmitRunRequest(config_json=_as_json(config))
        reply = self._calls.unary_while_alive("ValidateRun", request)
        return read_problems(reply)

    def submit(
        self,
        config: Config,
        *,
        idempotency_key: str = "",
        priority: int = 0,
        cold: bool = False,
        parent_run_id: str = "",
        parent_step: int | None = None,
    ) -> RunRecord:
        """Submit a run.

        Args:
            config: A configuration built by `mosaic.config.build`, or a document or JSON text in
                the nested or the flat shape.
            idempotency_key: The same key gives the same run; a ULID becomes its id.
            priority: Higher starts first.
            cold: Start a fresh interpreter instead of a warm fork.
            parent_run_id: The run that this one continues, repeats or evaluates.
            parent_step: The step of its checkpoint that this one starts from.

        Raises:
            InvalidConfigError: With every problem.
        """
        request = pb.SubmitRunRequest(
            config_json=_as_json(config),
            idempotency_key=idempotency_key,
            priority=priority,
            cold=cold,
            parent_run_id=parent_run_id,
            parent_step=parent_step,
        )
        try:
            return read_run(self._calls.unary_while_alive("SubmitRun", request).run)
        except InvalidConfigError as error:
            if error.problems[-1].code != LIST_IS_CUT:
                raise
        # Errors travel in a trailer of limited size; a reply has room for all problems.
        raise InvalidConfigError(self.validate(config))

    def train(
        self,
        /,
        algo: str,
        *,
        env_id: str | None = None,
        total_timesteps: float | None = None,
        seed: int = 1,
        worker: str = "",
        name: str = "",
        tags: Sequence[str] = (),
        notes: str = "",
        cpus: int = 1,
        gpus: int = 0,
        max_minutes: float | None = None,
        site: str | None = None,
        keep: str | None = None,
        wandb: bool = False,
        capture_video: bool = False,
        curriculum: str | None = None,
        smoke: bool = False,
        priority: int = 0,
        **parameters: "JsonValue",
    ) -> RunRecord:
        """Train an algorithm; its own arguments are given by name and checked here.

        trainer.train("ppo", env_id="CartPole-v1", total_timesteps=5e4, num_envs=8)

        Args:
            algo: An algorithm's name, `worker:name`, or a worker's type.
            env_id: The environment; the algorithm's own by default.
            total_timesteps: Steps to train; the algorithm's own by default.
            seed: Random seed.
            worker: The worker, if several have the algorithm.
            name: Name of the run.
            tags: Tags of the run.
            notes: Notes.
            cpus: CPU slots to use.
            gpus: GPUs to use.
            max_minutes: Stop after so many minutes.
            site: Where to run: `local`, `slurm:PARTITION` or `ssh://USER@HOST`; the daemon's
                setting if None.
            keep: Checkpoints to keep, such as `every:100000,best,last:3`.
            wandb: Track with Weights & Biases.
            capture_video: Record videos of the first environment.
            curriculum: A preset's name, or a JSON file of stages.
            smoke: Use the algorithm's settings for a quick proof.
            priority: Higher starts first.
            parameters: The algorithm's own arguments, such as `num_envs=8`.

        Raises:
            InvalidConfigError: With every problem, those of the arguments and those of the daemon.
        """
        # Here, because only this method needs the workers' own descriptions.
        from mosaic.client.training import (
            TrainOptions,
            checked_parameters,
            fresh_config,
            with_run_directories,
        )
        from mosaic.workers.algorithms import find_algorithm

        algorithm = find_algorithm(algo, worker)
        given, problems = checked_parameters(algorithm, parameters)
        given = with_run_directories(algorithm, given, self.get)
        options = TrainOptions(
            env_id=env_id,
            total_timesteps=total_timesteps,
            seed=seed,
            name=name,
            tags=tags,
            notes=notes,
            cpus=cpus,
            gpus=gpus,
            max_minutes=max_minutes,
            site=site,
            keep=keep,
            wandb=wandb,
            capture_video=capture_video,
            curriculum=curriculum,
            smoke=smoke,
        )
        config = fresh_config(algorithm, options, given)
        if problems:
            # The daemon is asked as well, so that one correction is enough; what was said here is
            # not repeated.
            told = {problem.pointer for problem in problems}
            more = [
                item
                for item in self.validate(config)
                if item.pointer.rpartition("/")[2] not in told
            ]
            raise InvalidConfigError([*problems, *more])
        return self.submit(config, priority=priority)

    def get(self, run_id: str) -> RunRecord:
        """One run, by id, unique prefix or `last`."""
        return read_run(self._calls.unary("GetRun", pb.GetRunRequest(run_id=run_id)))

    def list_runs(
        self,
        *,
        page_size: int = 0,
        page_token: str = "",
        states: Sequence[str] = (),
        outcomes: Sequence[str] = (),
        worker: str = "",
        algo: str = "",
        env_id: str = "",
        text: str = "",
        sort: str = "",
        deleted: bool = False,
    ) -> RunPage:
        """One page of runs, newest first.

        Args:
            page_size: 1 to 500; 50 by default.
            page_token: `next_page_token` of the page before.
            states: Only runs in one of these states.
            outcomes: Only runs with one of these outcomes.
            worker: Only runs of this worker.
            algo: Only runs of this algorithm.
            env_id: Only runs in this environment.
            text: Found in name, id, parent, algorithm, environment, tags or notes.
            sort: created_at, finished_at, run_name, algo, env_id or state; `-` in front reverses.
            deleted: List the trash instead.

        Raises:
            InvalidArgumentError: Runs cannot be sorted by that.
        """
        request = pb.ListRunsRequest(
            page_size=page_size,
            page_token=page_token,
            states=states,
            outcomes=outcomes,
            worker=worker,
            algo=algo,
            env_id=env_id,
            text=text,
            sort=sort,
            deleted=deleted,
        )
        reply = self._calls.unary("ListRuns", request)
        runs = [read_run(run) for run in reply.runs]
        return RunPage(runs, reply.next_page_token, int(reply.total))

    def watch(
        self,
        generation: str = "",
        since: int = 0,
        *,
        run_ids: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> Iterator[RunChange]:
        """The runs as they are, then every change as the daemon pushes it.

        Args:
            generation: Of the last change seen; with `since`, only what is newer is sent.
            since: `sequence` of the last change seen.
            run_ids: Only these runs.
            timeout_s: End with TimeoutError after this long.
        """
        request = pb.WatchRunsRequest(generation=generation, since=since, run_ids=run_ids)
        yield from map(read_change, self._calls.stream("WatchRuns", request, timeout_s))

    def update(
        self,
        run_id: str,
        *,
        run_name: str | None = None,
        notes: str | None = None,
        tags: Sequence[str] | None = None,
        priority: int | None = None,
    ) -> RunRecord:
        """Change what people wrote about a run, or how soon it starts."""
        request = pb.UpdateRunRequest(
            run_id=run_id,
            run_name=run_name,
            notes=notes,
            tags=tags or (),
            set_tags=tags is not None,
            priority=priority,
        )
        return read_run(self._calls.unary("UpdateRun", request))

    def cancel(self, run_id: str, grace_s: float | None = None, *, reason: str = "") -> RunRecord:
        """End a run; its process group is dead when its state is TERM.

        Args:
            run_id: The run.
            grace_s: How long its worker may take to save; the daemon's setting when it is None.
            reason: Why, for people who look at the run; that a user wished it when empty.
        """
        request = pb.CancelRunRequest(run_id=run_id, grace_s=grace_s, reason=reason)
        return read_run(self._calls.unary("CancelRun", request))

    def pause(self, run_id: str, release: bool = False) -> RunRecord:
        """Pause a run at its next safe point; with `release` it frees its slots."""
        request = pb.PauseRunRequest(run_id=run_id, release=release)
        return read_run(self._calls.unary("PauseRun", request))

    def resume(self, run_id: str) -> RunRecord:
        """Resume a paused run."""
        return read_run(self._calls.unary("ResumeRun", pb.ResumeRunRequest(run_id=run_id)))

    def checkpoint(self, run_id: str) -> RunRecord:
        """Ask a run to save now; the events after the record's `version` bring the answer.

        The answer is `checkpoint_confirmed` (the newest of the record's `checkpoints` is of this
        moment) or `checkpoint_refused` with a `reason`.

        Raises:
            InvalidTransitionError: It does not run, or its worker cannot save on request.
        """
        return read_run(self._calls.unary("CheckpointRun", pb.CheckpointRunRequest(run_id=run_id)))

    def delete(self, run_id: str, purge: bool = False) -> None:
        """Move an ended run to the trash, or delete it permanently."""
        self._calls.unary("DeleteRun", pb.DeleteRunRequest(run_id=run_id, purge=purge))

    def restore(self, run_id: str) -> RunRecord:
        """Restore a run from the trash."""
        return read_run(self._calls.unary("RestoreRun", pb.RestoreRunRequest(run_id=run_id)))

    def events(self, run_id: str, after: int = 0) -> list[RunEvent]:
        """What happened to a run, in order; `after` skips events up to that number."""
        request = pb.ListRunEventsRequest(run_id=run_id, after=after)
        return [read_event(event) for event in self._calls.unary("ListRunEvents", request).events]

    def follow(
        self, *run_ids: str, timeout_s: float | None = None, patience_s: float = PATIENCE_S
    ) -> Iterator[RunRecord]:
        """Runs as they are, then each again whenever it changes, until all have ended.

        The daemon pushes the changes. If it is restarted, the client finds it again.

        Args:
            run_ids: Ids or unique prefixes.
            timeout_s: Give up after this long.
            patience_s: How long to wait for a daemon that went away; 0 does not wait.

        Raises:
            RunNotFoundError: There is no such run, or it was deleted.
            DaemonNotRunningError: The daemon went away and did not come back.
            TimeoutError: The runs have not ended in time.
        """

        def watch(left_s: float | None) -> Iterator[RunChange]:
            return self.watch(run_ids=run_ids, timeout_s=left_s)

        yield from following.follow(watch, lambda: self.reconnect(patience_s), run_ids, timeout_s)

    def wait(self, run_id: str, timeout_s: float | None = None) -> RunRecord:
        """Block until a run has ended.

        Raises:
            RunNotFoundError: There is no such run, or it was deleted.
            DaemonNotRunningError: The daemon went away and did not come back.
            TimeoutError: The run has not ended within `timeout_s`.
        """
        for record in self.follow(run_id, timeout_s=timeout_s):
            newest = record
        return newest

    def wait_all(self, run_ids: Sequence[str], timeout_s: float | None = None) -> list[RunRecord]:
        """Block until all of the runs have ended; their records, in the order given.

        Raises:
            RunNotFoundError: There is no such run, or one was deleted.
            DaemonNotRunningError: The daemon went away and did not come back.
            TimeoutError: One has not ended within `timeout_s`.
        """
        ids = [self.get(run_id).run_id for run_id in run_ids]
        newest = {record.run_id: record for record in self.follow(*ids, timeout_s=timeout_s)}
        return [newest[run_id] for run_id in ids]

    def as_completed(
        self, run_ids: Sequence[str], timeout_s: float | None = None
    ) -> Iterator[RunRecord]:
        """The records of runs, each once, as soon as it has ended, however it ended.

        Raises:
            RunNotFoundError: There is no such run, or one was deleted.
            DaemonNotRunningError: The daemon went away and did not come back.
            TimeoutError: One has not ended within `timeout_s`.
        """
        told: set[str] = set()
        ids = [self.get(run_id).run_id for run_id in run_ids]
        for record in self.follow(*ids, timeout_s=timeout_s):
            if record.ended and record.run_id not in told:
                told.add(record.run_id)
                yield record


def _as_json(config: Config) -> str:
    if isinstance(config, str):
        return config
    # Not `isinstance` of the model: `mosaic runs` should not wait for pydantic's import.
    document = config if isinstance(config, Mapping) else config.document()
    return json.dumps(document)
