"""The health of a live run: what the rules find in its reports, as stimuli."""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from mosaic.health import Finding, Monitor, known_curve
from mosaic.runs.opening import names_in
from mosaic.trainer.core.states import Run
from mosaic.trainer.core.stimuli import AlarmRaised

_DEFAULT_FOLDER = "checkpoints"
_LONGEST = 500
_TRAINS = ("train", "resume_training")
NO_PROGRESS = "no-progress"


class HealthWatch:
    """Listens to one run.

    A daemon that takes a run over begins to listen again: what is wrong is found a little later,
    what was found before is in the run's row and is not said twice.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._monitor: Monitor | None = None

    def metrics(
        self, run: Run, step: int, total: int, values: Mapping[str, float], mono: float
    ) -> Iterator[AlarmRaised]:
        """What one report shows to be wrong."""
        known = [alarm.rule for alarm in run.alarms]
        if self._monitor is None:
            # An evaluation counts episodes, not steps: no record of learning is its measure.
            trains = run.mode in _TRAINS
            self._monitor = Monitor(known_curve(run.algo, run.env_id) if trains else None)
        for finding in self._monitor.hear(step, total, values, mono, known):
            yield self.alarm(run, finding)

    def no_progress(self, run: Run, step: int, evidence: str) -> AlarmRaised:
        """The alarm of a run whose step does not move."""
        advice = "see what it waits for (mosaic logs), or cancel it and fork from its checkpoint"
        return self.alarm(run, Finding(NO_PROGRESS, step, evidence, advice))

    def said(self, run: Run, fields: Mapping[str, object]) -> AlarmRaised:
        """The alarm that a worker raised itself; its line has been checked."""
        step = fields.get("step")
        finding = Finding(
            str(fields["rule"])[:_LONGEST],
            step if isinstance(step, int) else 0,
            str(fields["evidence"])[:_LONGEST],
            str(fields.get("advice", ""))[:_LONGEST],
        )
        return self.alarm(run, finding)

    def alarm(self, run: Run, finding: Finding) -> AlarmRaised:
        """A finding, with the checkpoints that are still on the disk."""
        folders = {str(PurePosixPath(item.path).parent) for item in run.checkpoints}
        kept = tuple(
            f"{folder}/{name}"
            for folder in sorted({*folders, _DEFAULT_FOLDER})
            for name in sorted(names_in(self._run_dir, folder))
        )
        return AlarmRaised(finding.rule, finding.step, finding.evidence, finding.advice, kept)
