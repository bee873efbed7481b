"""What leaves the house: policies as ONNX graphs, runs as notebooks."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.browser import browsing
from support.trainer import Trainer

from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.running.evaluation import open_policy
from cli.conftest import Command
from mosaic.records import RunRecord

# Before the import: it would report from this process too.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
onnxruntime: Any = pytest.importorskip("onnxruntime")


def _trained(warm_home: Trainer, algorithm: str, **settings: Any) -> RunRecord:
    return warm_home.client.wait(warm_home.client.train(algorithm, **settings).run_id)


@pytest.fixture(scope="module")
def record(warm_home: Trainer) -> RunRecord:
    """A short run whose policy normalises what it sees."""
    settings = {"env_id": "Pendulum-v1", "total_timesteps": 512, "num_steps": 256}
    return _trained(warm_home, "ppo_continuous_action", **settings)


def _same_actions(record: RunRecord, model: Path, atol: float) -> None:
    """Beyond the exporter's own check: other observations, and several at once."""
    policy = open_policy(Path(record.run_dir))
    envs = policy.make_envs(4)
    acts = policy.rebuild(envs)
    session = onnxruntime.InferenceSession(str(model))
    obs = envs.reset(seed=99)
    for _ in range(50):
        (found,) = session.run(["action"], {"observation": obs})
        wanted = acts(obs, Random(0), True)
        np.testing.assert_allclose(found, wanted, atol=atol)
        obs, *_ = envs.step(acts(obs, Random(0), False))
    envs.close()


def test_a_policy_is_exported_with_its_normalisation_and_a_card(
    record: RunRecord, typed: Command, tmp_path: Path
) -> None:
    """The graph takes raw observations and gives the policy's actions; the card says of what."""
    out = tmp_path / "model"
    done = typed.json("export", record.run_id, "--onnx", "-o", str(out))
    assert done["checked_observations"] == 1000
    assert 0 <= done["largest_difference"] < 1e-4
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "model.onnx"]
    _same_actions(record, out / "model.onnx", 1e-4)
    card = (out / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: onnx\n")
    for fact in (record.run_id, "Pendulum-v1", "ppo_continuous_action", "mean_reward"):
        assert fact in card
    assert "has a model already" in typed("export", record.run_id, "--onnx", "-o", str(out), code=2)


def test_an_export_reports_to_nobody(record: RunRecord, typed: Command, tmp_path: Path) -> None:
    """onnxruntime gives the machine an id and sends its maker what it loads, unless this is turned
    off before it starts. Nobody asked our users, so we turn it off."""
    away = ("ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS", "CI")
    environment = {name: text for name, text in typed.environment.items() if name not in away}
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    out = tmp_path / "model"
    replace(typed, environment=environment | cache)(
        "export", record.run_id, "--onnx", "-o", str(out)
    )
    assert (out / "model.onnx").exists()
    assert not list(tmp_path.rglob("deviceid"))


@pytest.mark.prove
@pytest.mark.parametrize(
    "algorithm",
    [
        "ppo",
        "rpo_continuous_action",
        "bc",
        "dqn",
        "c51",
        "pqn",
        "sac_continuous_action",
        "td3_continuous_action",
        "ddpg_continuous_action",
        "ppo_atari",
        "dqn_atari",
        "c51_atari",
        "pqn_atari_envpool",
    ],
)
def test_every_feed_forward_policy_can_be_exported(
    warm_home: Trainer, typed: Command, tmp_path: Path, algorithm: str
) -> None:
    """Vectors, pixels; logits, values, distributions of values, squashed and scaled actions."""
    record = _trained(warm_home, algorithm, smoke=True)
    assert record.completed, record.reason
    out = tmp_path / "model"
    assert typed.json("export", record.run_id, "--onnx", "-o", str(out))["path"]
    _same_actions(record, out / "model.onnx", 1e-4)


@pytest.mark.prove
def test_grids_can_be_exported_and_memories_are_refused(
    warm_home: Trainer, typed: Command, tmp_path: Path
) -> None:
    """MiniGrid's convolutions are part of the graph; an LSTM is named as what cannot be."""
    grid = _trained(warm_home, "ppo", env_id="MiniGrid-Empty-5x5-v0", total_timesteps=512)
    typed("export", grid.run_id, "--onnx", "-o", str(tmp_path / "grid"))
    _same_actions(grid, tmp_path / "grid" / "model.onnx", 1e-4)
    for algorithm in ("ppo_atari_lstm", "ppo_trxl", "dqn_jax"):
        record = _trained(warm_home, algorithm, smoke=True)
        said = typed("export", record.run_id, "--onnx", "-o", str(tmp_path / "no"), code=2)
        assert f"A policy of {algorithm} cannot be written as ONNX" in said
        assert not (tmp_path / "no").exists()


@pytest.mark.prove
@pytest.mark.parametrize(
    ("algorithm", "env_id"),
    [
        ("ppo", "CartPole-v1"),
        ("ppo_continuous_action", "Pendulum-v1"),
        ("sac_continuous_action", "Pendulum-v1"),
        ("dqn", "MountainCar-v0"),
    ],
)
def test_a_page_plays_the_policy_in_a_browser(
    warm_home: Trainer, typed: Command, tmp_path: Path, algorithm: str, env_id: str
) -> None:
    """Network and physics in the browser are those of the run, by the page's own check."""
    run = _trained(warm_home, algorithm, env_id=env_id, smoke=True)
    path = tmp_path / "policy.html"
    typed("export", run.run_id, "--html", "-o", str(path))
    with browsing() as browser:
        page = browser.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(path.as_uri())
        said = page.locator("#check").inner_text()
        page.wait_for_function("document.getElementById('score').textContent.includes('step 1')")
    assert "200 of 200 recorded actions and 200 of 200 recorded steps" in said
    assert wrong == []


def test_a_notebook_is_written_once(
    warm_home: Trainer, record: RunRecord, typed: Command, tmp_path: Path
) -> None:
    """It names the run and its home, and does not overwrite what someone worked on."""
    path = tmp_path / "run.ipynb"
    assert "jupyter lab" in typed("notebook", record.run_id, "-o", str(path))
    document = json.loads(path.read_text())
    code = "".join("".join(cell["source"]) for cell in document["cells"])
    assert f"trainer.get('{record.run_id}')" in code
    assert str(warm_home.home.root) in code
    assert "use --force" in typed("notebook", record.run_id, "-o", str(path), code=2)


@pytest.mark.prove
def test_a_notebook_runs_as_it_is_written(
    warm_home: Trainer, typed: Command, tmp_path: Path
) -> None:
    """Jupyter accepts the file, and every cell runs: curves, settings, checkpoints, output."""
    nbformat: Any = pytest.importorskip("nbformat")
    nbclient: Any = pytest.importorskip("nbclient")
    record = _trained(warm_home, "ppo", total_timesteps=2048)
    path = tmp_path / "run.ipynb"
    typed("notebook", record.run_id, "-o", str(path))
    read = nbformat.read(path, as_version=4)
    nbformat.validate(read)
    nbclient.NotebookClient(read, timeout=240, resources={"metadata": {"path": tmp_path}}).execute()
    shown = json.dumps(read.cells)
    assert record.run_id in shown
    assert "charts/episodic_return" in shown
    assert "image/png" in shown
