"""Which points a curve has, and where the phases of a script go in it."""

from pathlib import Path

from mosaic.curves.pace import next_mark
from mosaic.runs.metric_writer import MetricWriter
from mosaic.runs.metrics import MetricReader


def _steps(run_dir: Path, tag: str) -> list[int]:
    return [int(step) for step in MetricReader(run_dir).read(tag)["step"]]


def _phase(run_dir: Path, *steps: int, tag: str = "charts/episodic_return") -> None:
    with MetricWriter(run_dir) as writer:
        for step in steps:
            writer.add(tag, step, 1.0)


def test_phases_follow_each_other_and_never_run_backwards(tmp_path: Path) -> None:
    """A phase that counts from the beginning starts where the one before it ended."""
    _phase(tmp_path, 100, 200)
    _phase(tmp_path, 50, 150, 250)
    _phase(tmp_path, 10, tag="losses/value_loss")
    assert _steps(tmp_path, "charts/episodic_return") == [100, 200, 250, 350, 450]
    assert _steps(tmp_path, "losses/value_loss") == [460]


def test_a_phase_that_continues_keeps_its_steps(tmp_path: Path) -> None:
    """So does one that resumes; evaluations count their episodes on their own."""
    _phase(tmp_path, 100, 200)
    _phase(tmp_path, 300, 400)
    _phase(tmp_path, 1, 2, tag="eval/episodic_return")
    assert _steps(tmp_path, "charts/episodic_return") == [100, 200, 300, 400]
    assert _steps(tmp_path, "eval/episodic_return") == [1, 2]


def test_the_daemon_adds_nothing(tmp_path: Path) -> None:
    """The lines that it stores for a worker count the steps of all phases already."""
    for steps in ((100, 200), (150,)):
        with MetricWriter(tmp_path, for_worker=True) as writer:
            for step in steps:
                writer.add("charts/x", step, 1.0)
    assert _steps(tmp_path, "charts/x") == [100, 200, 150]


def test_a_curve_grows_soon_and_stays_short() -> None:
    """A run of days has points after seconds, and no run has many more than 2,000."""
    for total in (1000, 50_000_000, 0):
        step, steps = 0, []
        while step < (total or 10_000_000):
            step = next_mark(step, total)
            steps.append(step)
        assert len(steps) < 6000, total
        assert len([early for early in steps if early <= 1000]) >= 100
