"""F16 of the reliability review: progress is watched, not only the pulse."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.trainer import Trainer, until

from mosaic.trainer.loop.watch import Movement
from mosaic.workers.lifecycle import LifecycleLine

MakeTrainer = Callable[..., Trainer]


def test_f16_a_run_that_does_not_move_is_shown_with_where_it_stands(
    make_trainer: MakeTrainer,
) -> None:
    """Heartbeats alone keep no run from being shown as stalled; a step that moves frees it. What
    the worker says it is doing is shown until it says something else."""
    trainer = make_trainer(stall_after_s="1").start()
    run_id = trainer.submit("stuck")
    until(lambda: trainer.client.get(run_id).stalled, "it is shown as stalled")
    (stalled,) = [event for event in trainer.client.events(run_id) if event.kind == "stalled"]
    assert "no progress since step 7" in str(stalled.data["detail"])
    assert "buffer.py:12 draw" in str(stalled.data["detail"])
    (alarm,) = trainer.client.get(run_id).alarms
    assert (alarm.rule, alarm.step) == ("no-progress", 7)
    command = [str(Path(sys.executable).with_name("mosaic")), "show", run_id]
    home = trainer.environment(MOSAIC_HOME=str(trainer.home.root))
    shown = subprocess.run(command, env=home, capture_output=True, text=True, check=True).stdout
    assert "no progress since step 7" in shown
    assert "buffer.py:12 draw" in shown
    assert "compiling, 6 s" in shown
    assert trainer.client.get(run_id).wait_reason == "compiling, 6 s"
    (trainer.directory(run_id).path / "move").touch()
    until(lambda: "recovered" in trainer.kinds(run_id), "it recovers")
    assert trainer.client.get(run_id).reason is None
    until(lambda: trainer.client.get(run_id).wait_reason is None, "it does nothing else")
    # Ten heartbeats came while it stood: none of them counted as a sign of progress.
    kinds = trainer.kinds(run_id)
    assert kinds.index("stalled") < kinds.index("recovered")
    assert kinds[: kinds.index("recovered")].count("stalled") == 1


@pytest.mark.parametrize(
    ("lines", "stuck"),
    [
        ([("heartbeat", {})], False),
        ([("metrics", {"step": 3})], False),
        ([("heartbeat", {"step": 3})], True),
        ([("heartbeat", {"step": 3}), ("metrics", {"step": 3})], True),
    ],
)
def test_f16_only_work_that_counts_its_steps_can_stand_still(
    lines: list[tuple[str, dict[str, int]]], stuck: bool
) -> None:
    """A script that reports nothing for hours, or a person who thinks, is not called stalled."""
    progress = Movement(since=0.0)
    for number, (event, fields) in enumerate(lines, start=1):
        progress.hear(LifecycleLine(event, number, dict(fields)), 10.0)
    assert not progress.stuck(20.0, 15.0)
    assert progress.stuck(30.0, 15.0) is stuck
    progress.hear(LifecycleLine("metrics", 9, {"step": 4}), 30.0)
    assert not progress.stuck(31.0, 15.0)
