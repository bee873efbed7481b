"""Several seeds in one run, as the daemon's clients see them."""

from __future__ import annotations

from collections.abc import Callable

from support.trainer import Trainer

from mosaic.client.comparing import compare_runs
from mosaic.config import build
from mosaic.curves.names import RETURN, TAGS, seed_tag


def test_seeds_of_one_run_are_curves_of_their_own_and_compared_as_seeds(
    make_trainer: Callable[..., Trainer],
) -> None:
    """A run of three seeds has three stored curves and their mean, `mosaic compare` treats them as
    three seeds of one configuration, and an evaluation plays the seed it is asked for."""
    trainer = make_trainer(warm_start="true").start()
    worker = {
        "type": "cleanrl",
        "config": {
            "algo": "ppo_ondevice",
            "env_id": "CartPole-v1",
            "seed": 5,
            "total_timesteps": 4096,
            "extras": {"algo_params": {"num_seeds": 3}, "minimal_telemetry": True},
        },
    }
    submitted = {"artifacts": {}, "metadata": {"worker": worker}}
    run_id = trainer.client.submit(submitted).run_id
    record = trainer.client.wait(run_id)
    assert record.completed
    curves = {batch.tag: batch.values for batch in trainer.client.metrics(run_id)}
    own = [curves[seed_tag(TAGS[RETURN], seed)] for seed in (5, 6, 7)]
    assert len({tuple(values) for values in own}) == 3
    last = [values[-1] for values in own]
    assert abs(curves[TAGS[RETURN]][-1] - sum(last) / 3) < 1e-6
    (cell,) = compare_runs(trainer.client, [run_id]).cells
    assert [(run.seed, run.score) for run in cell.runs] == list(zip((5, 6, 7), last, strict=True))
    played = trainer.client.submit(build.evaluate(record, episodes=2, policy_seed=6))
    assert trainer.client.wait(played.run_id).completed
