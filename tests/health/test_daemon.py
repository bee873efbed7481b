"""Alarms of real runs: raised by the daemon or the worker, kept, shown, with the way back."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.trainer import Trainer, trainers

MOSAIC = str(Path(sys.executable).with_name("mosaic"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, python_path: str) -> Iterator[Trainer]:
    """A daemon for these tests; each makes its own runs."""
    with trainers(tmp_path_factory.mktemp("health"), python_path) as make:
        yield make(warm_start="true").start()


def test_an_alarm_names_the_rule_the_evidence_and_pins_the_way_back(home: Trainer) -> None:
    """From the metric stream to `mosaic show`, with the last checkpoint from before it began."""
    run = home.ended(home.submit("diverges"))
    assert run.completed
    (alarm,) = run.alarms
    assert (alarm.rule, alarm.step) == ("kl-explosion", 800)
    assert "KL divergence of 5" in alarm.evidence
    assert (alarm.checkpoint, alarm.checkpoint_step) == ("checkpoints/step-500.json", 500)
    assert Path(run.run_dir, "checkpoints", "step-500.pin").exists()
    assert [event.kind for event in home.client.events(run.run_id)].count("alarm") == 1
    shown = subprocess.run(
        [MOSAIC, "show", run.run_id],
        env=home.environment(MOSAIC_HOME=str(home.home.root)),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "kl-explosion since step 800: the policy moves by a KL divergence of 5" in shown
    assert "try: lower learning_rate" in shown
    assert "--at 500" in shown


def test_a_run_that_becomes_not_a_number_says_so_before_it_fails(home: Trainer) -> None:
    """The reason of the failure is an alarm too, with where it began."""
    settings = {"num_envs": 2, "num_steps": 64, "learning_rate": 1e30}
    run = home.client.train("ppo", total_timesteps=2048, **settings)
    ended = home.client.wait(run.run_id)
    assert ended.outcome == "failed"
    (alarm,) = ended.alarms
    assert alarm.rule == "not-a-number"
    assert "losses/" in alarm.evidence


def test_a_run_that_will_never_learn_says_so_at_once(home: Trainer) -> None:
    """A short run with the default `learning_starts` is no error, but hardly what is meant."""
    run = home.client.train("dqn", total_timesteps=400, buffer_size=400)
    ended = home.client.wait(run.run_id)
    assert ended.completed
    (alarm,) = ended.alarms
    assert (alarm.rule, alarm.step) == ("never-learns", 0)
    assert "learning_starts is 10,000 and the run has 400 steps" in alarm.evidence
