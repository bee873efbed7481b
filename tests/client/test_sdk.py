"""The SDK as a product: train by name, wait for several, curves as arrays, clear errors."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from support.trainer import Trainer

from mosaic.client.curves import Curve, collect, table
from mosaic.errors import DaemonNotRunningError, InvalidArgumentError, InvalidConfigError
from mosaic.records import MetricBatch
from mosaic.records.run import Progress, RunRecord


def test_train_wait_and_read_curves(trainer: Trainer) -> None:
    """Two seeds, each told once when it ends; curves are arrays that end at the last step."""
    client = trainer.client
    runs = [
        client.train(
            "ppo", env_id="CartPole-v1", total_timesteps=512, seed=seed, num_envs=2, num_steps=64
        )
        for seed in (1, 2)
    ]
    ids = [run.run_id for run in runs]
    told = [record.run_id for record in client.as_completed(ids, timeout_s=120)]
    assert sorted(told) == sorted(ids)
    ended = client.wait_all(list(reversed(ids)))
    assert [(run.run_id, run.completed) for run in ended] == [(ids[1], True), (ids[0], True)]
    curve = client.curves(ids[0], "charts/SPS")["charts/SPS"]
    assert curve.steps.dtype == np.int64
    assert curve.steps[-1] == 512
    assert len(curve) == len(curve.values) == len(curve.wall_times)
    with pytest.raises(InvalidArgumentError, match="did you mean 'charts/SPS'"):
        client.curves(ids[0], "charts/SP")
    assert client.config(ids[1])["metadata"]["worker"]["config"]["seed"] == 2


def test_train_refuses_with_every_problem(trainer: Trainer) -> None:
    """What the algorithm declares and what the daemon knows, together and once."""
    with pytest.raises(InvalidConfigError) as refused:
        trainer.client.train("ppo", env_id="CartPol-v1", gamma=2, num_enws=3)
    said = {problem.pointer.rpartition("/")[2]: str(problem) for problem in refused.value.problems}
    assert set(said) == {"gamma", "num_enws", "env_id"}
    assert "did you mean 'num_envs'" in said["num_enws"]
    assert trainer.client.list_runs().total == 0


def test_a_closed_client_says_so(trainer: Trainer) -> None:
    """Not an error of the library below."""
    from mosaic.client import TrainerClient

    client = TrainerClient.connect(trainer.home)
    client.close()
    with pytest.raises(DaemonNotRunningError, match="closed"):
        client.get("last")
    with pytest.raises(DaemonNotRunningError, match="closed"):
        next(client.watch())


def test_programs_start_beside_an_open_connection(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that talks to the daemon can start other programs, in whatever way it likes.

    In a process of its own: what gRPC does at a fork is settled when it is imported.
    """
    monkeypatch.delenv("GRPC_ENABLE_FORK_SUPPORT", raising=False)
    monkeypatch.setenv("MOSAIC_HOME", str(trainer.home.root))
    script = """
        import os, subprocess, threading
        from mosaic.client import TrainerClient
        client = TrainerClient.connect()
        ended = threading.Event()
        def talk():
            while not ended.is_set():
                client.list_runs()
        talking = threading.Thread(target=talk)
        talking.start()
        # A hook before the other program begins is what makes Python fork for it.
        ways = [subprocess.run(["true"], preexec_fn=os.setpgrp).returncode for _ in range(100)]
        ended.set()
        talking.join()
        print(ways.count(0))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("100", "")


def test_batches_become_whole_curves_and_a_table() -> None:
    """Batches of one curve are put together in order; a table has a row for each point."""
    pandas = pytest.importorskip("pandas")
    batches = [
        MetricBatch(tag=tag, steps=(step,), values=(0.5,), wall_times=(1.0,), total_points=2)
        for step in (1, 2)
        for tag in ("b", "a")
    ]
    curves = collect(batches)
    assert list(curves) == ["a", "b"]
    assert isinstance(curves["a"], Curve)
    assert curves["a"].steps.tolist() == [1, 2]
    frame = table({"first": curves})
    assert list(frame.columns) == ["run", "tag", "step", "value", "wall_time"]
    assert len(frame) == 4
    assert isinstance(table({}), pandas.DataFrame)


def test_a_notebook_shows_a_run_as_a_table() -> None:
    """What comes from outside is text there, never markup."""
    run = RunRecord(
        run_id="01", run_name="<b>x</b>", algo="ppo", progress=Progress(step=1, total=2),
        metrics={"episodic_return": 3.5},
    )  # fmt: skip
    shown = run._repr_html_()
    assert "&lt;b&gt;x&lt;/b&gt;" in shown
    assert "<th>episodic_return</th><td>3.5</td>" in shown
