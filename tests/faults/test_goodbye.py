"""A daemon ends when asked, whatever state its runs and its disk are in."""

import os
import signal
import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from support.tiny_disk import tiny_disk
from support.trainer import Trainer, until

from mosaic.errors import StorageError
from mosaic.system.processes import marked_processes

MakeTrainer = Callable[..., Trainer]


@pytest.mark.parametrize("how", ["stop", "drain"])
def test_a_signal_ends_the_wait_for_runs(make_trainer: MakeTrainer, how: str) -> None:
    """Ctrl-C or SIGTERM ends a daemon that waits for runs; the next one has them all."""
    trainer = make_trainer(grace_s="600").start()
    run = trainer.stepping("deaf")
    trainer.client.shutdown(how)
    until(lambda: trainer.client.health().draining, "it waits for its run")
    os.kill(trainer.pid, signal.SIGTERM)
    assert trainer.wait_for_death() == 0
    taken = trainer.start().client.get(run.run_id)
    assert (taken.state, taken.pid) == ("EXEC", run.pid)


def test_a_later_call_changes_what_the_daemon_waits_for(trainer: Trainer) -> None:
    """`mosaic down --drain` and then `mosaic down --stop-runs`: the runs are stopped."""
    run = trainer.stepping()
    trainer.client.shutdown("drain")
    until(lambda: trainer.client.health().draining, "it waits for its run")
    trainer.client.shutdown("stop")
    assert trainer.wait_for_death() == 0
    assert trainer.start().client.get(run.run_id).outcome == "interrupted"


def test_runs_are_stopped_once_the_disk_takes_it_down(
    tmp_path: Path, make_trainer: MakeTrainer
) -> None:
    """On a full disk `--stop-runs` is repeated until it is recorded: no run is forgotten."""
    with tiny_disk(tmp_path / "disk") as disk:
        trainer = make_trainer("disk/home", min_free_disk_mb="1", grace_s="600").start()
        run = trainer.wait_for(trainer.submit("stuck"), "EXEC")
        disk.fill()
        _fill_the_last_page(trainer, run.run_id)
        trainer.client.shutdown("stop")
        until(lambda: trainer.client.health().draining, "it waits for its run")
        assert trainer.client.get(run.run_id).stopping == ""
        disk.empty()
        assert trainer.wait_for_death() == 0
        assert trainer.start().client.get(run.run_id).outcome == "interrupted"
        trainer.close()


def _fill_the_last_page(trainer: Trainer, run_id: str) -> None:
    """The event log has room left in the last block that the full disk gave it."""
    for size in (1000, 100, 1):
        for number in count():
            try:
                trainer.client.update(run_id, notes=str(number % 10) * size)
            except StorageError:
                break


def test_a_home_that_is_taken_away_keeps_no_daemon(
    tmp_path: Path, make_trainer: MakeTrainer
) -> None:
    """The disk of a home is detached while runs are being stopped: the daemon ends when told."""
    with tiny_disk(tmp_path / "disk") as disk:
        trainer = make_trainer("disk/home", grace_s="600").start()
        run = trainer.stepping("deaf")
        trainer.client.shutdown("stop")
        until(lambda: trainer.client.get(run.run_id).stopping, "its run is being stopped")
        subprocess.run(["umount", "--lazy", str(disk.path)], check=True)
        os.kill(trainer.pid, signal.SIGTERM)
        trainer.wait_for_death()
        for pid in marked_processes(run.run_id):
            os.kill(pid, signal.SIGKILL)
        # Put back, so that it can be detached once more.
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(disk.path)], check=True)


def test_a_daemon_that_hangs_at_its_end_is_ended(make_trainer: MakeTrainer) -> None:
    """Where a disk does not answer any more, the daemon ends too; its log says where it hung."""
    trainer = make_trainer().start(MOSAIC_FAULT="before_goodbye:sleep600")
    run = trainer.stepping()
    os.kill(trainer.pid, signal.SIGTERM)
    assert trainer.wait_for_death() == 1
    assert "in point" in trainer.log()
    assert trainer.start().wait_for(run.run_id, "EXEC").pid == run.pid
