"""Clocks that jump and machines that freeze: nothing is lost, ended or listed wrongly for it."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.trainer import Trainer, until

from mosaic.config.settings import Settings
from mosaic.errors import RunNotFoundError
from mosaic.runs.directory import RunDirectory
from mosaic.system.processes import ProcessKey, boot_id, start_time
from mosaic.trainer.core.decisions import Now
from mosaic.trainer.core.events import StoodStill
from mosaic.trainer.core.folding import evolve
from mosaic.trainer.core.states import Event, Run, State
from mosaic.trainer.core.stimuli import DeadlinePassed, FreezeEnded
from mosaic.trainer.launch.executor import LocalExecutor
from mosaic.trainer.loop.clock import Believed, believe
from mosaic.trainer.loop.observer import observe
from mosaic.trainer.loop.slots import SlotTable
from mosaic.trainer.loop.watch import Watch
from mosaic.trainer.sites.local import LocalSite
from mosaic.trainer.storage.registry import Vitals

HERE = LocalSite(LocalExecutor(), SlotTable(Settings()))

DAY = 86_400.0
MakeTrainer = Callable[..., Trainer]
_CLOCK = Path(__file__).parents[1] / "soak" / "clock"


class _Clock:
    """The wall clock of a trainer's daemons, as somebody may set it."""

    def __init__(self, trainer: Trainer, folder: Path) -> None:
        self._file = folder / "clock"
        path = trainer.environment()["PYTHONPATH"]
        self.variables = {"SOAK_CLOCK": str(self._file), "PYTHONPATH": f"{_CLOCK}:{path}"}

    def jump(self, seconds: float) -> None:
        self._file.write_text(str(seconds))


def _some_turns(trainer: Trainer) -> None:
    """A whole run: the daemon has looked at everything many times meanwhile."""
    assert trainer.ended(trainer.submit("short")).outcome == "completed"


def test_f18_a_clock_that_jumps_forward_empties_no_trash(
    make_trainer: MakeTrainer, tmp_path: Path
) -> None:
    """Eight days in half a minute are not eight days: what was deleted can be restored."""
    trainer = make_trainer()
    clock = _Clock(trainer, tmp_path)
    trainer.start(**clock.variables)
    run_id = trainer.submit("short")
    trainer.ended(run_id)
    trainer.client.delete(run_id)
    clock.jump(8 * DAY)
    # A daemon looks into the trash as soon as it has started.
    for _ in range(2):
        trainer.restart(**clock.variables)
        _some_turns(trainer)
    clock.jump(0)
    trainer.restart(**clock.variables)
    assert trainer.client.restore(run_id).run_id == run_id


def test_f18_the_trash_is_still_emptied(make_trainer: MakeTrainer) -> None:
    """What has been there for long enough goes, as before."""
    trainer = make_trainer(trash_days="0").start()
    run_id = trainer.submit("short")
    trainer.ended(run_id)
    trainer.client.delete(run_id)
    trainer.restart()

    def gone() -> bool:
        try:
            trainer.client.get(run_id)
        except RunNotFoundError:
            return not (trainer.home.trash / run_id).exists()
        return False

    until(gone, "it is purged")


def test_f30_the_newest_run_is_listed_first_after_the_clock_went_back(
    make_trainer: MakeTrainer, tmp_path: Path
) -> None:
    """Runs are listed in the order in which they were submitted, page by page."""
    trainer = make_trainer()
    clock = _Clock(trainer, tmp_path)
    trainer.start(**clock.variables)
    submitted = [trainer.submit("short")]
    for jump in (-DAY, DAY, -2 * DAY):
        clock.jump(jump)
        submitted.append(trainer.submit("short"))
    for run_id in submitted:
        trainer.ended(run_id)
    listed, token = list[str](), ""
    while True:
        page, token, _ = trainer.client.list_runs(page_size=3, page_token=token)
        listed += [run.run_id for run in page]
        if not token:
            break
    assert listed == submitted[::-1]


_MOMENT = st.floats(0, 100 * DAY)


@given(wall=_MOMENT, passed=st.floats(0, DAY), jump=st.floats(-50 * DAY, 50 * DAY))
def test_f18_one_jump_is_believed_no_faster_than_time_passes(
    wall: float, passed: float, jump: float
) -> None:
    """Whatever the wall clock shows, the believed time moves by at most twice what has passed."""
    before = Believed(wall, 10.0, "boot")
    seen = Believed(wall + passed + jump, 10.0 + passed, "boot")
    after = believe(before, seen)
    assert after.wall <= wall + 2 * passed + 1e-3
    assert after.wall <= seen.wall


def test_f18_a_restart_of_the_machine_counts_a_day_at_most() -> None:
    """How long a machine was off only the wall clock says, and it may be wrong."""
    before = Believed(0.0, 500.0, "first")
    assert believe(before, Believed(3600.0, 1.0, "second")).wall == 3600.0
    assert believe(before, Believed(30 * DAY, 1.0, "second")).wall == DAY
    assert believe(None, Believed(30 * DAY, 1.0, "second")).wall == pytest.approx(30 * DAY)


def test_f31_a_freeze_is_not_part_of_the_grace_period(make_trainer: MakeTrainer) -> None:
    """A worker that was asked to stop and then frozen still saves what it has.

    So it does under the next daemon, which was not there when everything stood still.
    """
    trainer = make_trainer(grace_s="8").start()
    # Saving takes longer than a daemon's start: the new one finds the worker at it.
    run = trainer.stepping("slow_save", extras={"seconds": 3.0})
    trainer.client.cancel(run.run_id)
    until(lambda: trainer.client.get(run.run_id).stopping, "it is being stopped")
    frozen = (run.pid, trainer.pid)
    for pid in frozen:
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
    # Longer than the whole grace period, as a paused container or a closed lid takes.
    time.sleep(9.0)
    for pid in frozen[::-1]:
        assert pid is not None
        os.kill(pid, signal.SIGCONT)
    until(lambda: "stood_still" in trainer.kinds(run.run_id), "the freeze is on record")
    trainer.restart()
    ended = trainer.ended(run.run_id)
    assert ended.outcome == "cancelled"
    assert ended.exit_code == 143, "it ended by itself, not by SIGKILL"
    assert [item.path for item in ended.checkpoints] == ["checkpoints/final.json"]


def _watched(directory: Path, now: float) -> Watch:
    """A watch over a worker that lives, which is this process."""
    pid = os.getpid()
    started = start_time(pid)
    assert started is not None
    watch = Watch.of(RunDirectory(directory), Vitals())
    watch.forgive(now)
    watch.keys = [ProcessKey(pid, started, boot_id())]
    return watch


@pytest.mark.parametrize(("frozen", "limits"), [(0.0, 1), (950.0, 0), (940.0, 1)])
def test_f31_a_freeze_is_not_part_of_the_wall_clock_limit(
    tmp_path: Path, frozen: float, limits: int
) -> None:
    """A run may work for as long as it was given; a gap extends that by its own length at most."""
    run = Run("01ARZ3NDEKTSV4RRFFQ69G5FAV", State.EXEC, launched_mono=1.0, wallclock_s=100.0)
    run = evolve(run, Event(1, 1050.0, 1050.0, StoodStill(frozen)))
    # In a pause no limit counts anyway.
    paused = evolve(replace(run, state=State.PAUSE), Event(2, 1050.0, 1050.0, StoodStill(500.0)))
    run = replace(paused, state=State.EXEC, pid=os.getpid())
    watch = _watched(tmp_path, 1050.0)
    seen = list(observe(run, watch, Settings(), Now(1050.0, 1050.0), HERE))
    assert [item for item in seen if isinstance(item, DeadlinePassed)] == seen
    assert len(seen) == limits


def test_f31_a_freeze_is_on_record_before_any_limit_is_judged(tmp_path: Path) -> None:
    """A disk that refuses the record costs no run its life: the record is tried again first."""
    run = Run(
        "01ARZ3NDEKTSV4RRFFQ69G5FAV", State.EXEC, launched_mono=1.0, wallclock_s=1.0, stopping="x"
    )
    run, now = replace(run, pid=os.getpid(), kill_at_mono=2.0), Now(1050.0, 1050.0)
    watch = _watched(tmp_path, now.mono)
    watch.thaw(950.0, now.mono)
    for _ in range(2):
        refused = observe(run, watch, Settings(), now, HERE)
        assert next(refused) == FreezeEnded(950.0)
        # Nothing follows what could not be stored.
        refused.close()
    assert list(observe(run, watch, Settings(), now, HERE)) == [FreezeEnded(950.0)]
    assert list(observe(run, watch, Settings(), now, HERE)) == [DeadlinePassed("grace")]
