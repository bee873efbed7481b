"""Several seeds and settings in one run, as the daemon's clients see them: `--vmap-sweep`."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.conftest import Command
from support.trainer import Trainer

from mosaic.client.comparing import compare_runs
from mosaic.config import build
from mosaic.curves.members import Member
from mosaic.curves.names import RETURN, TAGS

SWEEP = (
    *("ppo_ondevice", "--vmap-sweep", "--param", "learning-rate=1e-3,1e30", "--seeds", "2"),
    *("--seed", "5", "--total-timesteps", "4096", "--no-anneal-lr"),
)


@pytest.mark.prove
def test_trials_of_one_program_have_their_own_curves_and_values(
    make_trainer: Callable[..., Trainer],
) -> None:
    """One run trains all seeds of all trials. Each has its own stored curve, a trial's value is the
    mean over its seeds, and one that diverges fails and says where. A comparison treats the trials
    as configurations with their seeds, and an evaluation plays the seed it is asked for."""
    trainer = make_trainer(warm_start="true").start()
    mosaic = Command(trainer.environment(MOSAIC_HOME=str(trainer.home.root)))
    done = mosaic.json("sweep", *SWEEP)
    good, bad = sorted(done["trials"], key=lambda trial: trial["number"])
    assert [trial["state"] for trial in (good, bad)] == ["complete", "fail"]
    assert "diverged at step" in bad["reason"]
    assert good["runs"] == bad["runs"] == [done["sweep_id"]]
    assert "--learning-rate 0.001" in done["command"]

    (run,) = trainer.client.list_runs(text=f"sweep={done['sweep_id']}").runs
    assert run.completed
    curves = {batch.tag: batch.values for batch in trainer.client.metrics(run.run_id)}
    members = [Member(seed, "learning_rate=0.001") for seed in (5, 6)]
    own = [curves[member.tag(TAGS[RETURN])] for member in members]
    assert own[0] != own[1]
    last = [values[-1] for values in own]
    assert good["value"] == pytest.approx(sum(last) / 2)
    assert curves[TAGS[RETURN]][-1] == pytest.approx(sum(last) / 2), "of those that still train"
    cells = {cell.group: cell for cell in compare_runs(trainer.client, [run.run_id]).cells}
    cell = cells["ppo_ondevice learning_rate=0.001"]
    assert [(one.seed, one.score) for one in cell.runs] == list(zip((5, 6), last, strict=True))

    # Continued, there is nothing left to do, and nothing can be added to a program.
    assert mosaic.json("sweep", "--continue", run.run_id)["trials"] == done["trials"]
    assert "fixed" in mosaic("sweep", "--continue", run.run_id, "--trials", "5", code=2)
    played = trainer.client.submit(build.evaluate(run, episodes=2, policy_seed=6))
    assert trainer.client.wait(played.run_id).completed


def test_what_one_program_cannot_do_is_refused(tmp_path: Path) -> None:
    """Before anything starts, with the reason."""
    mosaic = Command({**os.environ, "MOSAIC_HOME": str(tmp_path)})
    gamma = ("--param", "gamma=0.9,0.99")
    for words, sentence in [
        (("ppo_ondevice", "--param", "num-envs=4,8"), "num_envs is no real number"),
        (("ppo", *gamma), "use an _ondevice algorithm"),
        (("ppo_ondevice", *gamma, "--parallel", "2"), "--parallel has no meaning"),
        (("ppo_ondevice", *gamma, "--objective", "eval"), "are stored"),
    ]:
        assert sentence in mosaic("sweep", *words, "--vmap-sweep", "--dry-run", code=2)
