"""Time travel by command: keep checkpoints, fork from one, see the tree."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import harness
from support.trainer import Trainer

from cli.conftest import Command
from mosaic.records import RunRecord


@pytest.fixture(scope="module")
def trained(warm_home: Trainer) -> RunRecord:
    """A run that kept a checkpoint for every 512 steps; no test changes its checkpoints."""
    run = warm_home.client.train(
        "ppo", total_timesteps=2048, keep="every:512,last:1", num_envs=2, num_steps=64
    )
    return warm_home.client.wait(run.run_id)


def _state(record: RunRecord) -> dict[str, Any]:
    return harness.newest_state(Path(record.run_dir))


def test_every_n_steps_a_checkpoint_is_kept(warm_home: Trainer, trained: RunRecord) -> None:
    """At these very steps, in a run that is over before the first minute."""
    kept = warm_home.client.kept_checkpoints(trained.run_id)
    assert [item.step for item in kept] == [512, 1024, 1536, 2048]


def test_a_fork_without_changes_trains_to_the_same_bits(
    warm_home: Trainer, typed: Command, trained: RunRecord
) -> None:
    """Weights, optimiser, environments and random streams are those of the original.

    The checkpoint is pinned from the submission on: the fork finds it, however long it waits.
    """
    run_id = typed.json("fork", trained.run_id, "--at", "1024", "--detach")["run_id"]
    assert Path(trained.run_dir, "checkpoints", "step-1024.pin").exists()
    again = warm_home.client.wait(run_id)
    assert again.completed
    assert (again.parent_run_id, again.parent_step) == (trained.run_id, 1024)
    left, right = _state(trained), _state(again)
    assert left["step"] == right["step"] == 2048
    for part in ("policy", "objects", "random"):
        assert harness.equal(left[part], right[part]), part


def test_a_file_of_ones_own_is_continued_without_a_run(
    typed: Command, trained: RunRecord, tmp_path: Path
) -> None:
    """`--resume FILE`: the file says what it is of; a path is the user's, not the worker's."""
    for suffix in ("state", "state.sha256"):
        saved = Path(trained.run_dir, "checkpoints", f"step-1024.{suffix}")
        shutil.copy(saved, tmp_path / saved.name)
    own = os.path.relpath(tmp_path / "step-1024.state")
    again = typed.json("train", "ppo", "--resume", own)
    assert (again["algo"], again["env_id"]) == (trained.algo, trained.env_id)
    assert (again["mode"], again["parent_run_id"]) == ("resume_training", "")
    state = harness.newest_state(Path(again["run_dir"]))
    assert harness.equal(state["policy"], _state(trained)["policy"]), "as if it had never stopped"
    said = typed("train", "dqn", "--resume", own, code=2)
    assert "is a checkpoint of the algorithm 'ppo'" in said
    assert "no file" in typed("train", "ppo", "--resume", "none/step-1.state", code=2)
    more = ("train", "ppo", "--resume", own, "--additional-timesteps", "512")
    assert "give --total-timesteps" in typed(*more, code=2)


def test_a_fork_learns_with_what_was_set_and_the_tree_says_so(
    warm_home: Trainer, typed: Command, trained: RunRecord
) -> None:
    """`--set lr=…` reaches the optimiser; a fork of the fork hangs below it in the lineage."""
    words = ("--at", "512", "--set", "lr=0.01", "--name", "faster", "--detach")
    faster = warm_home.client.wait(typed.json("fork", trained.run_id, *words)["run_id"])
    state = _state(faster)
    assert state["args"]["learning_rate"] == 0.01
    assert not harness.equal(state["policy"], _state(trained)["policy"])
    deeper = warm_home.client.fork(faster.run_id, 1024, ent_coef=0.5, name="deeper")
    assert warm_home.client.wait(deeper.run_id).completed
    tree = warm_home.client.lineage(deeper.run_id)
    assert (tree.record.run_id, tree.relation) == (trained.run_id, "")
    branch = next(item for item in tree.branches if item.record.run_id == faster.run_id)
    assert (branch.relation, branch.changed) == ("from step 512", ("learning_rate=0.01",))
    assert [item.changed for item in branch.branches] == [("ent_coef=0.5",)]
    assert "deeper  from step 1,024  ent_coef=0.5" in typed("lineage", trained.run_id)


def test_a_fork_that_cannot_be_is_refused_with_what_there_is(
    typed: Command, trained: RunRecord
) -> None:
    """A step without a checkpoint names the kept ones; a wrong setting names the nearest."""
    run_id = trained.run_id
    said = typed("fork", run_id, "--at", "1000", code=2)
    assert "no checkpoint at step 1,000; kept: 512, 1,024, 1,536, 2,048" in said
    assert "the nearest before it: --at 512" in said
    said = typed("fork", run_id, "--at", "512", "--set", "entcoef=1", code=2)
    assert "did you mean '--ent-coef'" in said
    assert "already reached step 2048" in typed("fork", run_id, "--at", "2048", code=2)
