"""The study of a sweep: Optuna proposes, remembers and says which trials to prune.

It is `optuna.db` in the directory of the sweep's first run, whose id is the sweep's id and
the study's name; that is where the window looks for it.
"""

import fcntl
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)
from optuna.exceptions import ExperimentalWarning
from optuna.trial import FrozenTrial, Trial, TrialState

from mosaic.errors import RunNotFoundError, SweepBusyError
from mosaic.sweep.plan import Settled, SweepPlan
from mosaic.sweep.results import TrialRecord
from mosaic.sweep.space import Choices, Dimension, Point, Scalar, grid

FILE_NAME = "optuna.db"
_PLAN, _RUNS, _REASON, _STOPPING = "mosaic_sweep", "runs", "reason", "stopping"
# How long the runs of a failed trial lived; why the whole sweep starts no more trials.
_LIVED, _HALTED, _HALT = "lived_s", "halted", "halt_wanted"
_CONFIRMED = "confirmed"
# Made before there are results, and shown by the dry run.
_FIRST_PROPOSALS = 5
# How often, for each trial, a proposal is asked for that was not made before.
_MOST_ASKED = 20
# Below a fifth of the way every agent still looks alike. The first rung that may prune.
_WARM_UP_RUNGS = 2

optuna.logging.set_verbosity(optuna.logging.WARNING)


@dataclass(frozen=True)
class StudyFacts:
    """Everything that a study holds, as plain data.

    Attributes:
        trials: Those that have begun, best first, those without a value last.
        halted: Why no more trials start; empty while they do.
        confirmed: The confirmation of the best trials, as it was kept.
        distributions: What each parameter is chosen from, as Optuna writes it.
    """

    plan: SweepPlan
    trials: list[TrialRecord]
    halted: str
    confirmed: object
    distributions: dict[str, str]


def facts_of(study: optuna.Study) -> StudyFacts:
    """What a study holds now.

    Raises:
        KeyError: It is not the study of a sweep.
        ValueError: It was written by a newer MOSAIC.
    """
    plan = SweepPlan.from_dict(study.user_attrs[_PLAN])
    sign = -1 if plan.maximise else 1
    frozen = study.get_trials(deepcopy=False)
    begun = [_record(trial) for trial in frozen if trial.state != TrialState.WAITING]
    return StudyFacts(
        plan=plan,
        trials=sorted(begun, key=lambda trial: _order(trial, sign)),
        halted=str(study.user_attrs.get(_HALTED, "")),
        confirmed=study.user_attrs.get(_CONFIRMED),
        distributions={
            name: distribution_to_json(kind) for name, kind in _distributions(plan).items()
        },
    )


def propose(plan: SweepPlan) -> list[Point]:
    """The first proposals, which need no results: a few, or all of a grid or of one program."""
    if plan.sampler == "grid":
        return grid(plan.space)[: plan.trials]
    # Without results every sampler draws at random, this one in less time.
    sampler = optuna.samplers.RandomSampler(plan.seed(0)) if plan.together else _sampler(plan, 0)
    study = optuna.create_study(sampler=sampler)
    distributions = _distributions(plan)
    if not plan.together:
        count = min(_FIRST_PROPOSALS, plan.trials)
        return [dict(study.ask(distributions).params) for _ in range(count)]
    # All at once, and each only once: one program has room for no later proposals, and two
    # members with the same settings and seed would be the same training.
    found: dict[str, Point] = {}
    for _ in range(_MOST_ASKED * plan.trials):
        params = dict(study.ask(distributions).params)
        found.setdefault(repr(params), params)
        if len(found) == plan.trials:
            break
    return list(found.values())


def write_study(
    folder: Path, sweep_id: str, plan: SweepPlan, first: Sequence[Mapping[str, Scalar]]
) -> Path:
    """A new study whose first proposals have been made already, as a file in `folder`."""
    study = optuna.create_study(
        storage=_address(folder),
        study_name=sweep_id,
        direction="maximize" if plan.maximise else "minimize",
    )
    study.set_user_attr(_PLAN, plan.to_dict())
    for params in first:
        study.enqueue_trial(dict(params))
    # Optuna has no public way to close its file, which is moved as soon as it is written.
    study._storage.remove_session()
    return folder / FILE_NAME


class SweepStudy:
    """One study file, driven by one process at a time."""

    def __init__(self, study: optuna.Study, plan: SweepPlan, lock: int) -> None:
        self.plan = plan
        self._study = study
        self._lock = lock

    @classmethod
    def load(cls, run_dir: Path, **changes: int) -> "SweepStudy":
        """Open a study; `changes` replace parts of its plan.

        Raises:
            RunNotFoundError: There is no study in this directory.
            SweepBusyError: Another process is driving it.
        """
        if not (run_dir / FILE_NAME).is_file():
            raise RunNotFoundError(
                f"run {run_dir.name} belongs to no sweep; `mosaic runs --text sweep=` lists those "
                "that do"
            )
        lock = _hold(run_dir)
        try:
            study = optuna.load_study(study_name=run_dir.name, storage=_address(run_dir))
            facts = {**study.user_attrs[_PLAN], **changes}
            plan = SweepPlan.from_dict(facts)
        except (KeyError, TypeError, ValueError) as error:
            os.close(lock)
            raise RunNotFoundError(f"the study of {run_dir.name} cannot be read: {error}") from None
        study.set_user_attr(_PLAN, plan.to_dict())
        study.sampler = _sampler(plan, len(study.get_trials(deepcopy=False)))
        study.pruner = _pruner(plan)
        loaded = cls(study, plan, lock)
        loaded._drop_half_proposed()
        if plan.sampler == "grid":
            known = len(study.get_trials(deepcopy=False))
            for point in grid(plan.space)[known : plan.trials]:
                study.enqueue_trial(point)
        return loaded

    def runs_of(self, trial: Trial) -> list[str]:
        """The runs that a trial consists of so far."""
        return list(trial.user_attrs.get(_RUNS, ()))

    def close(self) -> None:
        """Let another process drive it."""
        self._study._storage.remove_session()
        os.close(self._lock)

    @property
    def sweep_id(self) -> str:
        """The id of the sweep, which is that of its first run."""
        return str(self._study.study_name)

    # ------------------------------------------------------------ trials

    def ask(self) -> Trial:
        """The next proposal, which counts as running from now on."""
        return self._study.ask(_distributions(self.plan))

    def running(self) -> list[Trial]:
        """Trials that an earlier process has begun and not ended."""
        return [
            Trial(self._study, trial._trial_id)
            for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        ]

    def started(self) -> int:
        """How many trials have been proposed so far."""
        return sum(trial.state != TrialState.WAITING for trial in self._frozen())

    def trials(self) -> list[TrialRecord]:
        """Every trial that has begun, best first, those without a value last."""
        return self.facts().trials

    def facts(self) -> StudyFacts:
        """Everything that it holds now."""
        return facts_of(self._study)

    def note_confirmed(self, confirmed: object) -> None:
        """Keep what fresh seeds said about the best trials."""
        self._study.set_user_attr(_CONFIRMED, confirmed)

    def best(self) -> TrialRecord | None:
        """The best of the complete trials."""
        return next((trial for trial in self.trials() if trial.state == "complete"), None)

    def settled(self) -> list[Settled]:
        """The trials that have ended, in the order in which they did."""
        ended = [trial for trial in self._frozen() if trial.datetime_complete is not None]
        ended.sort(key=lambda trial: (trial.datetime_complete, trial.number))
        return [
            Settled(
                trial.state.name.lower(),
                float(trial.user_attrs.get(_LIVED, 0.0)),
                str(trial.user_attrs.get(_REASON, "")),
            )
            for trial in ended
        ]

    def unhalt(self) -> None:
        """Start trials again: who drives a sweep wants it to continue."""
        for mark in (_HALTED, _HALT):
            self._study.set_user_attr(mark, "")

    def halt(self, reason: str) -> None:
        """Write down why no more trials start, for everyone who looks at the study."""
        self._study.set_user_attr(_HALTED, reason)

    @property
    def halted(self) -> str:
        """Why no more trials start; empty while they do."""
        return str(self._study.user_attrs.get(_HALTED, ""))

    @property
    def halt_wanted(self) -> bool:
        """Whether a user has asked, from anywhere, that no more trials start."""
        return bool(self._study.user_attrs.get(_HALT))

    def note_runs(self, trial: Trial, runs: list[str]) -> None:
        """Write down which runs a trial consists of."""
        trial.set_user_attr(_RUNS, runs)

    def note_stopping(self, trial: Trial, state: str, reason: str) -> None:
        """Write down why a trial's runs are being stopped, before they are."""
        trial.set_user_attr(_STOPPING, state)
        trial.set_user_attr(_REASON, reason)

    def stopping(self, trial: Trial) -> str:
        """`pruned` or `fail` if the trial's runs are being stopped."""
        return str(trial.user_attrs.get(_STOPPING, ""))

    def reason(self, trial: Trial) -> str:
        """Why a trial's runs were stopped."""
        return str(trial.user_attrs.get(_REASON, ""))

    def should_prune(self, trial: Trial, values: Mapping[int, float]) -> int | None:
        """Report what is new; the rung at which the trial falls behind the others."""
        frozen = self._study._storage.get_trial(trial._trial_id)
        for rung, value in values.items():
            if rung in frozen.intermediate_values:
                continue
            trial.report(value, rung)
            if trial.should_prune():
                return rung
        return None

    def complete(self, trial: Trial, value: float) -> None:
        """A trial ended with this value."""
        self._study.tell(trial, value)

    def prune(self, trial: Trial) -> None:
        """A trial was pruned."""
        self._study.tell(trial, state=TrialState.PRUNED)

    def fail(self, trial: Trial, reason: str, lived_s: float = 0.0) -> None:
        """A trial has no value, for this reason, after its runs lived so long."""
        trial.set_user_attr(_REASON, reason)
        trial.set_user_attr(_LIVED, lived_s)
        self._study.tell(trial, state=TrialState.FAIL)

    def _frozen(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _drop_half_proposed(self) -> None:
        """Fail trials whose proposal was interrupted before it was whole."""
        for trial in self.running():
            if set(trial.params) != set(self.plan.space):
                self.fail(trial, "interrupted while it was being proposed")


def ask_to_halt(run_dir: Path) -> None:
    """Let whichever process drives the sweep in this directory start no more trials."""
    study = optuna.load_study(study_name=run_dir.name, storage=_address(run_dir))
    study.set_user_attr(_HALT, "yes")
    study._storage.remove_session()


def _record(trial: FrozenTrial) -> TrialRecord:
    value = trial.value if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) else None
    return TrialRecord(
        number=trial.number,
        state=trial.state.name.lower(),
        value=value,
        params=dict(trial.params),
        runs=list(trial.user_attrs.get(_RUNS, ())),
        reason=str(trial.user_attrs.get(_REASON, "")),
    )


def _order(trial: TrialRecord, sign: int) -> tuple[bool, bool, float, int]:
    return (
        trial.value is None,
        trial.state != "complete",
        sign * (trial.value or 0.0),
        trial.number,
    )


def _address(run_dir: Path) -> str:
    return f"sqlite:///{run_dir / FILE_NAME}"


def _hold(run_dir: Path) -> int:
    """Lock a sweep for this process; the descriptor that holds the lock."""
    # A lock of the kernel, on the folder: it goes with the process, however that ends, and leaves
    # no file behind.
    descriptor = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise SweepBusyError(
            f"another process is driving the sweep {run_dir.name}; stop it with Ctrl-C and try "
            "again"
        ) from None
    return descriptor


def _distributions(plan: SweepPlan) -> dict[str, BaseDistribution]:
    return {name: _distribution(dimension) for name, dimension in plan.space.items()}


def _distribution(dimension: Dimension) -> BaseDistribution:
    if isinstance(dimension, Choices):
        return CategoricalDistribution(dimension.values)
    if dimension.integer:
        step = int(dimension.step or 1)
        low, high = int(dimension.low), int(dimension.high)
        return IntDistribution(low, high - (high - low) % step, log=dimension.log, step=step)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log, step=dimension.step)


def _sampler(plan: SweepPlan, trials: int) -> optuna.samplers.BaseSampler:
    # Another seed after an interruption, or the same proposals would be made again.
    seed = plan.seed(0) * 1_000_003 + trials
    if plan.sampler == "tpe":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            # Otherwise trials that run side by side would be proposed nearly the same settings.
            return optuna.samplers.TPESampler(seed=seed, constant_liar=plan.parallel > 1)
    return optuna.samplers.RandomSampler(seed=seed)


def _pruner(plan: SweepPlan) -> optuna.pruners.BasePruner:
    if plan.pruner == "none":
        return optuna.pruners.NopPruner()
    return optuna.pruners.MedianPruner(
        n_startup_trials=plan.prune_after, n_warmup_steps=_WARM_UP_RUNGS
    )
