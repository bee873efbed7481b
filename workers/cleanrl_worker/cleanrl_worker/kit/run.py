"""The companion of a training loop: device, environments, resume, safe points, numbers.

An algorithm file uses five things of it: `run.rng`, `run.device`, `run.make_envs`, `run.remember`
and `for step in run.steps(stride)`; see the package's documentation.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cleanrl_worker.kit import spaces
from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.device import choose_device, limit_threads, seed_everything
from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.types import Batch, EndedEpisode, Stateful
from cleanrl_worker.running import presentation
from cleanrl_worker.running.beside import Evaluated, SideEvaluator
from cleanrl_worker.running.bridge import Bridge
from cleanrl_worker.running.checkpointing import Checkpointer
from cleanrl_worker.running.control import Control
from cleanrl_worker.running.facts import environment_facts
from cleanrl_worker.running.logger import Logger, MemberEpisodes
from cleanrl_worker.running.memory import keep_freed_memory
from cleanrl_worker.running.schema import ScriptSchema
from cleanrl_worker.wrappers.curriculum import schedule_in_force
from mosaic.curves.episodes import EpisodesByMember, NewestEpisodes
from mosaic.curves.members import Member
from mosaic.curves.names import EPISODES, RETURN


class Run:
    """One run of one algorithm file.

    Attributes:
        args: The script's arguments.
        step: The environment step that has been reached.
        total: The environment steps of the whole schedule.
        device: Where torch computes.
        rng: The generator for everything the algorithm draws with NumPy.
        run_dir: Where the run's files go.
        bridge: The line to the worker.
    """

    def __init__(self, args: RunArgs, schema: ScriptSchema) -> None:
        self.args = args
        self.name = schema.path.stem
        self.algorithm = schema.algorithm
        # Every algorithm file declares these two itself, each with defaults of its own.
        own = vars(args)
        self._env_id, self.total = str(own["env_id"]), int(own["total_timesteps"])
        presentation.refuse_upload_in_vain(args)
        self.step = 0
        self.bridge = Bridge()
        self.run_dir = Path(args.run_dir or _default_run_dir(args, self._env_id))
        self.device = choose_device(args, schema.algorithm["requires"])
        seed_everything(args.seed, deterministic=args.torch_deterministic)
        limit_threads(args.torch_threads)
        keep_freed_memory()
        self.rng = Random(args.seed)
        self._checkpointer = Checkpointer(
            args, self._env_id, self.name, self.run_dir, self.bridge, self._tell, self._return
        )
        self._beside = SideEvaluator(args, self.run_dir, self._tell) if args.eval_every else None
        hold = self._beside.hold if self._beside is not None else (lambda _on: None)
        self._control = Control(self.bridge, self._save, self._report, lambda: self.step, hold)
        self._logger: Logger | None = None
        self._newest: NewestEpisodes | EpisodesByMember = NewestEpisodes()
        self._members = 1
        self._shown: Mapping[str, Stateful] = {}

    def make_envs(self, num_envs: int) -> Envs:
        """Build the environments and refuse those that the algorithm cannot act in."""
        envs: Envs
        if stages := schedule_in_force():
            from cleanrl_worker.wrappers.tasks import CurriculumEnvs

            envs = CurriculumEnvs(stages, num_envs, self._tell_stage, video_dir=self.video_dir)
        else:
            envs = Envs(self._env_id, num_envs, video_dir=self.video_dir)
        self.check_spaces(envs)
        return envs

    @property
    def video_dir(self) -> str | None:
        """Where videos go, or None when none are wanted."""
        return str(self.run_dir / "videos") if self.args.capture_video else None

    def check_spaces(self, envs: Batch) -> None:
        """Refuse environments whose spaces do not fit the algorithm's declaration."""
        problem = spaces.fit_problem(
            self.name,
            self.algorithm,
            self._env_id,
            envs.single_observation_space,
            envs.single_action_space,
        )
        if problem:
            raise UsageError(problem)
        self.bridge.send("facts", environment=environment_facts(self._env_id, envs))

    def show(self, **judges: Stateful) -> None:
        """Let the policy file show judges that one of the remembered objects saves."""
        self._shown = judges

    def remember(
        self,
        policy: Mapping[str, Stateful],
        judges: Mapping[str, Stateful] | None = None,
        **objects: Stateful,
    ) -> None:
        """Name everything that a checkpoint must hold; on `--resume` it is restored here.

        Args:
            policy: What is needed to act; it also goes into the policy file.
            judges: What judges actions; it goes there too, so that people can see its values.
            objects: Everything else: optimisers, environments, memory, statistics.
        """
        kept = {**objects, "rng": self.rng, EPISODES: self._newest}
        self._checkpointer.remember(policy, kept, judges or {}, self._shown)
        if self.args.resume:
            self.step = self._checkpointer.restore(Path(self.args.resume))

    @property
    def resumed(self) -> bool:
        """Whether this run continues from a checkpoint."""
        return bool(self.args.resume)

    def steps(self, stride: int) -> Iterator[int]:
        """Yield the environment step before each turn of the loop.

        Between two turns everything that is not the algorithm happens: commands from the
        worker, signals, metrics, checkpoints.

        Args:
            stride: How many environment steps one turn takes.
        """
        if self.step + stride > self.total:
            raise UsageError(
                f"--total-timesteps {self.total} leaves no room for one turn of {stride} steps "
                f"after step {self.step}; use at least --total-timesteps {self.step + stride}."
            )
        self.run_dir.mkdir(parents=True, exist_ok=True)
        logger = self._logger = Logger(
            self.args, self.run_dir, self.bridge, self.total, self._newest, self._members
        )
        control = self._control
        control.start()
        self._warn_of_learning_in_vain()
        logger.start(self.step)
        self._checkpointer.start(self.step)
        if self._beside is not None:
            self._beside.start(self.step)
        # What exists now stays: the collector need not look through all of torch again and again.
        gc.freeze()
        stopped = False
        # Worked out once: the quickest loops take this turn ten thousand times a second.
        last = self._last_start(stride)
        while self.step <= last:
            yield self.step
            self.step += stride
            # At the very step, not at the next look at the clock: the same run keeps the same
            # checkpoints, however busy the machine.
            if self._checkpointer.passed_mark(self.step):
                self._save()
            if self._beside is not None and self._beside.passed_mark(self.step):
                self._have_judged(self._beside)
            if control.due:
                self._look_up(logger)
                if stopped := control.stopping:
                    break
        # A signal that arrives after the last turn changes nothing: the run is complete.
        self._finish(stopped=stopped)

    def _warn_of_learning_in_vain(self) -> None:
        starts = vars(self.args).get("learning_starts", 0)
        if starts >= self.total:
            self.bridge.send(
                "alarm",
                rule="never-learns",
                step=self.step,
                evidence=f"learning_starts is {starts:,} and the run has {self.total:,} steps: "
                "it only acts at random",
                advice="lower learning_starts or raise total_timesteps",
            )

    def turns_left(self, stride: int) -> int:
        """How many turns of so many steps the loop over `steps` still has."""
        return (self._last_start(stride) - self.step) // stride + 1

    def _last_start(self, stride: int) -> int:
        """The last step at which a turn may begin.

        The last turn may pass --stop-at, never the end of the schedule.
        """
        stop_at = min(self.total, self.args.stop_at or self.total)
        return min(stop_at - 1, self.total - stride)

    def turns_until_due(self, stride: int) -> int:
        """How many turns may be taken at once before something is due at a step.

        A compiled loop is looked at between its calls only. What is saved or judged at every N-th
        step would otherwise depend on how many turns the machine manages in one call.
        """
        marks = [self._checkpointer.mark, self._beside.mark if self._beside is not None else None]
        ahead = [-((self.step - mark) // stride) for mark in marks if mark is not None]
        return min([self.turns_left(stride), *(turns for turns in ahead if turns > 0)])

    def took_more(self, steps: int) -> None:
        """Count what this turn of the loop has taken beyond one stride.

        A compiled loop takes many strides in one turn and cannot be interrupted in between.
        """
        self.step += steps

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log named numbers, such as `losses/value_loss`."""
        assert self._logger is not None, "numbers are logged inside the loop over run.steps"
        self._logger.scalars(step, values)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Tell every second what keeps the run from its first step, and for how long."""
        over, began = threading.Event(), time.monotonic()

        def tell() -> None:
            while not over.wait(1.0):
                self.bridge.send("doing", text=f"{what}, {time.monotonic() - began:.0f} s")

        # A thread, because the compiler returns to Python only at its end.
        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()
            self.bridge.send("doing", text="")

    def count_by_member(self, members: Sequence[Member]) -> None:
        """Say, before `remember`, that this run trains several members side by side."""
        self._newest, self._members = EpisodesByMember(members), len(members)

    def log_members(self, step: int, ended: Mapping[Member, MemberEpisodes]) -> None:
        """Log the episodes of several members, as `count_by_member` announced."""
        assert self._logger is not None, "episodes are logged inside the loop over run.steps"
        self._logger.episodes_by_member(step, ended)

    def give_up(self, step: int, member: Member, why: str) -> None:
        """Log no more of a member whose numbers are no longer finite; the others continue."""
        assert self._logger is not None, "numbers are logged inside the loop over run.steps"
        self._logger.give_up(step, member, why)

    @property
    def given_up(self) -> Collection[Member]:
        """The members that `give_up` was called for, before a resume too."""
        return self._by_member.given_up

    def member_returns(self) -> dict[Member, float]:
        """The return of each member until now; one that has finished no episode has none."""
        episodes = self._by_member
        found = ((member, newest.means()) for member, newest in episodes.by_member.items())
        return {
            member: means[RETURN]
            for member, means in found
            if means and member not in episodes.given_up
        }

    @property
    def _by_member(self) -> EpisodesByMember:
        assert isinstance(self._newest, EpisodesByMember), "this run trains one member"
        return self._newest

    def log_episodes(
        self, step: int, info: Mapping[str, list[EndedEpisode]], older: int = 0
    ) -> None:
        """Log the episodes that ended in a step, as its `info` says; `older` ended before them."""
        assert self._logger is not None, "episodes are logged inside the loop over run.steps"
        self._logger.episodes(step, info["episodes"], older)

    def close(self) -> None:
        """Write out what is still buffered."""
        if self._logger is not None:
            self._logger.close(self.step)
            self._logger = None

    def _look_up(self, logger: Logger) -> None:
        """Everything that is not the algorithm, at most every twentieth of a second."""
        if self._beside is not None:
            for one in self._beside.results():
                self._take_result(logger, one)
        logger.report(self.step)
        logger.paused(self._control.obey())
        if not self._control.stopping and self._checkpointer.due:
            self._save()

    def _have_judged(self, beside: SideEvaluator) -> None:
        """Have the policy of this step evaluated by another process."""
        if self._checkpointer.keeps_best:
            # Before the save, which removes what is not to be kept.
            self._checkpointer.await_score(self.step)
            self._save()
        beside.offer(self.step, self._checkpointer.policy(self.step))

    def _take_result(self, logger: Logger, result: Evaluated) -> None:
        logger.evaluated(result.step, result.values, result.best)
        self._checkpointer.take_score(result.step, result.score)
        self.bridge.send("note", text=f"step {result.step:,} evaluated: {result.score:.2f}")

    def _finish_judging(self, beside: SideEvaluator) -> None:
        """Have the last policy evaluated too, and wait until all have been."""
        assert self._logger is not None
        began = time.monotonic()
        beside.offer(self.step, self._checkpointer.policy(self.step))
        for one in beside.finish(self._may_wait):
            self._take_result(self._logger, one)
        self._checkpointer.decide()
        # Nothing was trained meanwhile: the speed is that of training.
        self._logger.paused(time.monotonic() - began)

    def _save(self) -> str:
        self._write_numbers()
        return self._checkpointer.try_save(self.step)

    def _write_numbers(self) -> None:
        """Put the numbers until here on the disk before a checkpoint of this step is there.

        A run that is killed continues from the checkpoint, and would never log them again.
        """
        if self._logger is not None:
            self._logger.write()

    def _return(self) -> float | None:
        """The mean return of the newest episodes, over all seeds; None before any has ended."""
        return self._newest.means().get(RETURN)

    def _report(self) -> None:
        if self._logger is not None:
            self._logger.report(self.step, force=True)

    def _finish(self, *, stopped: bool) -> None:
        if stopped:
            self._save()
            if self._beside is not None:
                self._beside.stop()
            self.close()
            raise self._control.stopped()
        try:
            policy = self._save_the_end()
        except OSError:
            if self._control.stopping:
                self.close()
                raise self._control.stopped() from None
            raise
        if self._beside is not None:
            self._finish_judging(self._beside)
            if self._control.stopping:
                self.close()
                raise self._control.stopped()
        if policy is not None:
            self._present(policy)
        self.close()

    def _save_the_end(self) -> Path | None:
        """Write the last checkpoint, and the policy where it is asked for.

        Not `_save`: a run that reached its end without a policy to show for it has failed. So a
        full disk is waited for, unless the run is asked to stop.
        """
        self._write_numbers()
        write = self._checkpointer.wait_for_room
        write(lambda: self._checkpointer.save(self.step), self._may_wait)
        if not self.args.save_model:
            return None
        return write(lambda: self._checkpointer.export_policy(self.step), self._may_wait)

    def _may_wait(self) -> bool:
        self._control.obey()
        return not self._control.stopping

    def _present(self, policy: Path) -> None:
        """Show what the saved policy can do, as CleanRL does after `--save-model`."""
        assert self._logger is not None
        returns = presentation.evaluate_saved(policy, self._control.safe_point, self._tell)
        if returns:
            self._logger.evaluation(returns)
        if self.args.upload_model:
            self._tell(presentation.upload(policy, self.args, self._env_id, returns))

    def _tell(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        self.bridge.send("note", text=text)

    def _tell_stage(self, stage: Mapping[str, object]) -> None:
        # The step of the run, where charts mark it; the stage's own counters are those of episodes.
        self.bridge.send("curriculum_stage", step=self.step, **stage)


def _default_run_dir(args: RunArgs, env_id: str) -> str:
    env = env_id.replace("/", "_")
    return os.path.join("runs", f"{env}__{args.exp_name}__{args.seed}__{int(time.time())}")
