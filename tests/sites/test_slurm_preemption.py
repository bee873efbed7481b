"""What SLURM takes away it gives back: a preempted or timed-out run loses nothing it had saved."""

from collections.abc import Callable

import pytest
from support.equal_runs import STROLLING, assert_equal, ppo_config
from support.slurm import SlurmCluster
from support.trainer import Trainer, until

from mosaic.records import Outcome

MakeTrainer = Callable[..., Trainer]
pytestmark = pytest.mark.prove


def test_a_preempted_run_equals_the_undisturbed_one(slurm: SlurmCluster, lab: Trainer) -> None:
    """Weights, optimizer, random states and curve agree to the last bit; the run has one id."""
    run_id = lab.client.submit(ppo_config("slurm:low", env_id=STROLLING)).run_id
    until(lambda: lab.client.get(run_id).progress.step > 10_000, "it trains")
    slurm.command("sbatch", "-p", "high", "-c", "2", "--output=/dev/null", "--wrap=sleep 3")
    until(lambda: lab.client.get(run_id).attempt == 2, "its node was taken away")
    preempted = lab.ended(run_id)
    assert (preempted.outcome, preempted.attempt) == (Outcome.COMPLETED, 2)
    whole = lab.ended(lab.client.submit(ppo_config("local")).run_id)
    assert_equal(lab, preempted, whole)


def test_the_time_limit_of_a_job_is_announced(
    slurm: SlurmCluster, make_trainer: MakeTrainer
) -> None:
    """A worker is told before SLURM ends its job; it saves, and the run says `time_limit`."""
    lab = make_trainer(
        site="slurm:debug", lost_after_s="5", site_poll_s="0.5", slurm_options="--time=1"
    ).start()
    record = lab.stepping()
    ended = lab.ended(record.run_id)
    assert ended.outcome is Outcome.TIME_LIMIT
    assert ended.exit_code == 143
