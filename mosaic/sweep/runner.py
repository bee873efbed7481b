"""Driving a sweep: trials become runs of the daemon, curves become values, hopeless runs end."""

import math
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from optuna.trial import Trial

from mosaic.client import TrainerClient
from mosaic.config import build
from mosaic.config.model import TrainRunConfig
from mosaic.config.suggest import did_you_mean
from mosaic.curves.names import RETURN
from mosaic.errors import (
    DaemonNotRunningError,
    InvalidArgumentError,
    InvalidConfigError,
    RunNotFoundError,
)
from mosaic.records import RunRecord
from mosaic.runs.ids import new_run_id
from mosaic.sweep.objective import RUNGS, Curve, joint_rungs, passed_rungs, rungs
from mosaic.sweep.plan import SweepPlan, all_ended, hopeless, run_key, trouble
from mosaic.sweep.reading import read_curve
from mosaic.sweep.study import SweepStudy, propose, write_study

# Longer than for a single run: a sweep that ends overnight costs more than two minutes of waiting.
_PATIENCE_S = 120.0


Say = Callable[[str], None]


@dataclass
class ActiveTrial:
    """A trial whose runs have not all ended."""

    trial: Trial
    runs: list[str]
    evaluations: list[str] = field(default_factory=list)
    seen_rung: int = 0

    @property
    def all_runs(self) -> tuple[str, ...]:
        """Its runs, then those that evaluate them."""
        return (*self.runs, *self.evaluations)


def begin(trainer: TrainerClient, plan: SweepPlan) -> SweepStudy:
    """Submit the first run of a new sweep with the study in its directory.

    Secrets of the configuration go to the daemon with this run; the study and the later runs
    name them by reference.

    Raises:
        InvalidConfigError: The daemon refuses the configuration; nothing was started.
        InvalidArgumentError: The daemon is elsewhere: a sweep is driven beside its study.
    """
    if trainer.elsewhere is not None:
        raise InvalidArgumentError(
            f"a sweep is driven on the machine of its daemon ({trainer.elsewhere.title}), where "
            "its study is; run it there: mosaic --connect ssh://USER@HOST sweep ..."
        )
    first = propose(plan)
    sweep_id = new_run_id()
    if plan.together:
        # Of a small space there may be fewer different proposals than trials were asked for.
        plan = replace(plan, trials=len(first))
        config = plan.joint_config(sweep_id, first)
    else:
        config = plan.run_config(sweep_id, 0, 0, first[0])
    problems = trainer.validate(config)
    if problems:
        raise InvalidConfigError(problems)
    kept = replace(plan, config=build.without_secrets(plan.config))
    # The study is ready before the run begins: an interruption leaves both or neither.
    with tempfile.TemporaryDirectory(prefix="sweep-", dir=trainer.home.cache) as folder:
        study = write_study(Path(folder), sweep_id, kept, first)
        run = trainer.submit(config, idempotency_key=run_key(sweep_id, 0, 0))
        run_dir = Path(run.run_dir)
        os.replace(study, run_dir / study.name)
    return SweepStudy.load(run_dir)


class SweepRunner:
    """Keeps a study and the daemon's runs in step until every trial has ended."""

    def __init__(self, trainer: TrainerClient, study: SweepStudy, say: Say) -> None:
        self._trainer = trainer
        self._study = study
        self._plan = study.plan
        self._say = say
        self._active: list[ActiveTrial] = []

    def run(self) -> None:
        """Run until all trials have ended or none can succeed; an interruption loses nothing.

        Raises:
            DaemonNotRunningError: The daemon went away and did not come back.
        """
        self._study.unhalt()
        while True:
            try:
                self._until_done()
                return
            except DaemonNotRunningError as error:
                self._say(f"{error}; waiting for it")
                self._trainer.reconnect(_PATIENCE_S)

    def _until_done(self) -> None:
        # Launched again under the same keys: the daemon answers with the runs that exist already.
        self._active = []
        for trial in self._study.running():
            self._launch(trial)
        while True:
            self._fill()
            if not self._active:
                return
            try:
                self._follow()
            except RunNotFoundError:
                self._active = [active for active in self._active if not self._deleted(active)]

    def _follow(self) -> None:
        """Follow the runs of all trials until one of these ends or has other runs."""
        followed = [active.all_runs for active in self._active]
        owners = {run_id: active for active in self._active for run_id in active.all_runs}
        records: dict[str, RunRecord] = {}
        # Without patience: when the daemon goes away, `run` says so and waits for it.
        for record in self._trainer.follow(*owners, patience_s=0.0):
            records[record.run_id] = record
            active = owners[record.run_id]
            known = [records[run_id] for run_id in active.all_runs if run_id in records]
            if len(known) == len(active.all_runs) and self._settled(active, known):
                self._active.remove(active)
            # Another set of runs needs another stream.
            if [active.all_runs for active in self._active] != followed:
                return

    def _deleted(self, active: ActiveTrial) -> bool:
        """Fail a trial one of whose runs is gone."""
        try:
            for run_id in active.all_runs:
                self._trainer.get(run_id)
        except RunNotFoundError as error:
            self._fail(active.trial, str(error))
            return True
        return False

    # ------------------------------------------------------------ starting

    def _fill(self) -> None:
        while (
            len(self._active) < self._plan.parallel
            and self._study.started() < self._plan.trials
            and not self._halted()
        ):
            trial = self._study.ask()
            shown = ", ".join(f"{name}={_short(value)}" for name, value in trial.params.items())
            self._say(f"trial {trial.number}: {shown}")
            self._launch(trial)

    def _halted(self) -> bool:
        """Whether no more trials start: none can succeed, or a user asked for it."""
        if self._study.halted:
            return True
        reason = hopeless(self._study.settled())
        if self._study.halt_wanted:
            reason = "stopped by a user"
        if reason:
            self._study.halt(reason)
            self._say(f"no more trials: {reason}")
        return bool(reason)

    def _launch(self, trial: Trial) -> None:
        try:
            self._active.append(self._launched(trial))
        except InvalidConfigError as error:
            self._fail(trial, error.problems[0].message)

    def _launched(self, trial: Trial) -> ActiveTrial:
        """The runs of a trial; those that were submitted before an interruption are found again."""
        # In a race the seeds come one after the other.
        count = self._plan.seeds
        if self._plan.race:
            count = max(1, len(self._study.runs_of(trial)))
        active = ActiveTrial(trial, [])
        for _ in range(count):
            self._add_seed(active)
        return active

    def _add_seed(self, active: ActiveTrial) -> None:
        """Train a trial's settings with its next seed."""
        trial, number = active.trial, len(active.runs)
        key = run_key(self._study.sweep_id, trial.number, number)
        config = self._plan.run_config(self._study.sweep_id, trial.number, number, trial.params)
        parent = "" if key == self._study.sweep_id else self._study.sweep_id
        active.runs.append(self._submit(config, key, parent))
        self._study.note_runs(trial, active.runs)

    def _submit(self, config: TrainRunConfig, key: str, parent: str) -> str:
        record = self._trainer.submit(config, idempotency_key=key, parent_run_id=parent)
        return str(record.run_id)

    # ------------------------------------------------------------ watching

    def _settled(self, active: ActiveTrial, records: list[RunRecord]) -> bool:
        """Act on the state of a trial's runs; True when it has ended."""
        reason = trouble(records)
        stopping = self._study.stopping(active.trial)
        # A run that completed before the order reached it counts like any other.
        if stopping and (reason or not all_ended(records)):
            return all_ended(records) and self._stopped(active, records, stopping)
        if reason:
            self._stop(active, records, "fail", reason)
            # Nothing more will be pushed about runs that have all ended.
            return all_ended(records) and self._stopped(active, records, "fail")
        if all_ended(records):
            return self._judge(active, records)
        if self._plan.pruner != "none" and not active.evaluations:
            self._maybe_prune(active, records)
        return False

    def _judge(self, active: ActiveTrial, records: list[RunRecord]) -> bool:
        """Every run has ended well: the value of the trial, unless more seeds follow."""
        if self._plan.objective.evaluates:
            if len(active.evaluations) < len(active.runs):
                return self._evaluate(active, records)
            played = [record.metrics.get(RETURN) for record in records]
            values = played[len(active.runs) :]
        else:
            objective = self._plan.objective
            values = [objective.score(self._curve(run_id)) for run_id in active.runs]
        numbers = [value for value in values if value is not None and math.isfinite(value)]
        if len(numbers) < len(values):
            self._fail(active.trial, self._why_no_value(active.runs[0]), _lived(records))
            return True
        value = fmean(numbers)
        if len(active.runs) < self._plan.seeds:
            return self._next_seed(active, value)
        self._study.complete(active.trial, value)
        best = self._study.best()
        beside = f"; best so far {best.value:,.4g} (trial {best.number})" if best else ""
        self._say(f"trial {active.trial.number}: {value:,.4g}{beside}")
        return True

    def _next_seed(self, active: ActiveTrial, value: float) -> bool:
        """In a race: train another seed, unless the mean so far is behind the others'.

        Returns:
            Whether the trial has ended.
        """
        done = len(active.runs)
        # After the rungs of the first seed; each seed is compared with as many seeds of others.
        if self._study.should_prune(active.trial, {done * RUNGS: value}) is not None:
            reason = f"behind the median of the others after {done} of {self._plan.seeds} seeds"
            self._study.note_stopping(active.trial, "pruned", reason)
            self._study.prune(active.trial)
            self._say(f"trial {active.trial.number}: pruned, {reason}")
            return True
        self._add_seed(active)
        return False

    def _evaluate(self, active: ActiveTrial, records: list[RunRecord]) -> bool:
        try:
            for number, record in enumerate(records[: len(active.runs)]):
                if number < len(active.evaluations):
                    continue
                config = build.evaluate(record, episodes=self._plan.episodes, tags=record.tags)
                key = run_key(self._study.sweep_id, active.trial.number, number, evaluation=True)
                active.evaluations.append(self._submit(config, key, record.run_id))
        except InvalidConfigError as error:
            self._fail(active.trial, error.problems[0].message)
            return True
        return False

    def _maybe_prune(self, active: ActiveTrial, records: list[RunRecord]) -> None:
        if len(active.runs) > 1 and self._plan.race:
            return  # the other trials' rungs are of their first seed
        reached = min(passed_rungs(record.progress) for record in records)
        if reached <= active.seen_rung:
            return
        objective = self._plan.objective
        passed = [
            rungs(self._curve(record.run_id), record.progress.total, reached, objective)
            for record in records
        ]
        joint = joint_rungs(passed)
        active.seen_rung = max(joint, default=active.seen_rung)
        rung = self._study.should_prune(active.trial, joint)
        if rung is not None:
            reason = f"behind the median of the others at {rung * 100 // RUNGS} %"
            self._stop(active, records, "pruned", reason)

    # ------------------------------------------------------------ ending

    def _stop(self, active: ActiveTrial, records: list[RunRecord], state: str, reason: str) -> None:
        # Written before the runs are cancelled: after a crash in between they would look as if a
        # user had cancelled them.
        self._study.note_stopping(active.trial, state, reason)
        for record in records:
            if record.live:
                self._trainer.cancel(record.run_id, reason=f"{state}: {reason}")

    def _stopped(self, active: ActiveTrial, records: list[RunRecord], state: str) -> bool:
        reason = self._study.reason(active.trial)
        if state == "pruned":
            for record in records:
                self._trainer.update(record.run_id, tags=[*record.tags, state])
            self._study.prune(active.trial)
            self._say(f"trial {active.trial.number}: pruned, {reason}")
        else:
            self._fail(active.trial, reason, _lived(records))
        return True

    def _fail(self, trial: Trial, reason: str, lived_s: float = 0.0) -> None:
        self._study.fail(trial, reason, lived_s)
        self._say(f"trial {trial.number}: failed, {reason}")

    # ------------------------------------------------------------ reading

    def _curve(self, run_id: str) -> Curve:
        return read_curve(self._trainer, run_id, self._plan.objective.curve_tag)

    def _why_no_value(self, run_id: str) -> str:
        tag = self._plan.objective.tag
        written = sorted({batch.tag for batch in self._trainer.metrics(run_id, max_points=2)})
        hint = did_you_mean(tag, written)
        return f"run {run_id} has no finite {tag}{hint}; it wrote {', '.join(written) or 'nothing'}"


def _lived(records: Sequence[RunRecord]) -> float:
    """How long the longest of these runs trained, in seconds."""
    spans = [
        record.finished_at - record.started_at
        for record in records
        if record.finished_at and record.started_at
    ]
    return max(spans, default=0.0)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
