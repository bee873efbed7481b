"""Driving a sweep whose trials are members of one run: one program trains them all."""

import math
from collections.abc import Callable
from statistics import fmean

from optuna.trial import Trial

from mosaic.client import TrainerClient
from mosaic.curves.members import Member
from mosaic.curves.names import DIVERGED
from mosaic.errors import DaemonNotRunningError
from mosaic.records import RunRecord
from mosaic.sweep.plan import trouble
from mosaic.sweep.reading import read_curve
from mosaic.sweep.study import SweepStudy

# As for any sweep: waiting two minutes costs less than a sweep that ends overnight.
_PATIENCE_S = 120.0


class JointRunner:
    """Waits for the one run of a sweep, and gives each trial its value.

    Args:
        trainer: The daemon.
        study: The study; `mosaic.sweep.runner.begin` has submitted the run with it.
        say: Tells the user something.
    """

    def __init__(
        self, trainer: TrainerClient, study: SweepStudy, say: Callable[[str], None]
    ) -> None:
        self._trainer, self._study, self._say = trainer, study, say
        self._plan = study.plan

    def run(self) -> None:
        """Run until every trial has ended; an interruption loses nothing.

        Raises:
            DaemonNotRunningError: The daemon went away and did not come back.
        """
        self._study.unhalt()
        trials = self._trials()
        if not trials:
            return
        # The sweep has the id of its first run, and this is its only one.
        run_id = self._study.sweep_id
        for trial in trials:
            self._study.note_runs(trial, [run_id])
        self._say(f"run {run_id} trains all {len(trials)} trials at once")
        record = self._ended(run_id)
        for trial in trials:
            self._settle(trial, record)

    def _trials(self) -> list[Trial]:
        """Every trial that has not ended; they begin and end together."""
        begun = self._study.running()
        missing = self._plan.trials - self._study.started()
        return [*begun, *(self._study.ask() for _ in range(missing))]

    def _ended(self, run_id: str) -> RunRecord:
        while True:
            try:
                return self._trainer.wait(run_id)
            except DaemonNotRunningError as error:
                self._say(f"{error}; waiting for it")
                self._trainer.reconnect(_PATIENCE_S)

    def _settle(self, trial: Trial, record: RunRecord) -> None:
        reason = trouble([record])
        members = self._plan.members_of(trial.params)
        values = [] if reason else [self._value(record.run_id, member) for member in members]
        numbers = [value for value in values if value is not None and math.isfinite(value)]
        if len(numbers) < len(members):
            reason = reason or self._why_no_value(record.run_id, members)
            self._study.fail(trial, reason)
            self._say(f"trial {trial.number}: failed, {reason}")
            return
        self._study.complete(trial, fmean(numbers))
        self._say(f"trial {trial.number}: {fmean(numbers):,.4g}")

    def _value(self, run_id: str, member: Member) -> float | None:
        if read_curve(self._trainer, run_id, member.tag(DIVERGED)).steps:
            return None
        objective = self._plan.objective
        return objective.score(read_curve(self._trainer, run_id, member.tag(objective.curve_tag)))

    def _why_no_value(self, run_id: str, members: list[Member]) -> str:
        for member in members:
            ends = read_curve(self._trainer, run_id, member.tag(DIVERGED)).steps
            if ends:
                return f"{member} diverged at step {ends[0]:,}"
        return f"run {run_id} has no finite {self._plan.objective.tag} for {members[0]}"
