"""Unmodified upstream scripts: the same lifecycle, metrics, frames and manifest as our own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import harness
from support.patience import TIME_TO_SAVE
from support.trainer import Trainer, until
from support.upstream import OLDER_SCRIPT, OLDEST_SCRIPT, write_script

from cleanrl_worker import older_gymnasium
from cleanrl_worker.tools import try_upstream


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout outside the project with one script in it."""
    return write_script(tmp_path_factory.mktemp("elsewhere") / "cleanrl-checkout", "tiny")


def test_a_script_of_another_folder_trains(home: Path, tmp_path: Path) -> None:
    """Its summary writer is listened to, and what it leaves behind is catalogued."""
    arguments = ("--algo", "cleanrl:tiny", "--env-id", "CartPole-v1", "--total-timesteps", "4000")
    run_dir = tmp_path / "run"
    worker = harness.run(run_dir, *arguments, "--", "--num-envs", "2", CLEANRL_HOME=str(home))
    values = worker.events("metrics")[-1]["values"]
    assert set(values) == {"episodes", "episodic_return", "losses/entropy", "sps"}
    assert worker.events("metrics")[-1]["total"] == 4000
    artifacts = json.loads((run_dir / "analytics.json").read_text())["artifacts"]
    assert artifacts["tensorboard"] == {"dir": "runs", "enabled": True}
    assert artifacts["checkpoints"][0]["path"].endswith("tiny.cleanrl_model")
    [saved] = worker.events("checkpoint_saved")
    assert saved["kind"] == "policy", "so that it can be evaluated"
    content = (run_dir / saved["path"]).read_bytes()
    assert saved["sha256"] == hashlib.sha256(content).hexdigest()
    assert (run_dir / "metrics" / "charts%2Fepisodic_return.points").stat().st_size > 0
    assert worker.events()[-1]["event"] == "run_completed"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--algo", "cleanrl:tiy"), "did you mean 'tiny'"),
        (("--algo", "cleanrl:../tiny"), "does not name a script"),
        (("--algo", "cleanrl:tiny", "--", "--num-env", "2"), "did you mean '--num-envs'?"),
        (("--algo", "cleanrl:tiny", "--", "--num-envs", "many"), "takes a whole number"),
    ],
)
def test_what_the_script_does_not_know_is_refused(
    home: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    """Its own arguments are read, computed defaults included, without running it."""
    given = ("--env-id", "CartPole-v1", "--total-timesteps", "1000")
    said = harness.refuse(tmp_path / "no", *given, *arguments, CLEANRL_HOME=str(home))
    assert sentence in said


def test_a_script_for_an_older_gymnasium_runs_and_logs_its_returns(
    home: Path, tmp_path: Path
) -> None:
    """Argparse, `final_info`, wrappers with old signatures: nothing of the script is changed."""
    write_script(home, "older", OLDER_SCRIPT)
    words = ("--algo", "cleanrl:older", "--env-id", "CartPole-v1", "--total-timesteps", "600")
    worker = harness.run(tmp_path / "run", *words, CLEANRL_HOME=str(home))
    values = worker.events("metrics")[-1]["values"]
    assert values["episodes"] > 10
    assert 5 < values["episodic_return"] < 100
    failing = harness.start(tmp_path / "no", *words, "--", "--fail", CLEANRL_HOME=str(home))
    assert failing.wait() == 1
    last = failing.events("run_failed")[-1]
    assert last["reason"] == "RuntimeError: the lights went out", "the reason is the exception"


def test_a_script_for_gym_runs_though_gym_is_not_installed(home: Path, tmp_path: Path) -> None:
    """The oldest scripts import a package that no longer installs; its names are provided."""
    write_script(home, "oldest", OLDEST_SCRIPT)
    words = ("--algo", "cleanrl:oldest", "--env-id", "CartPole-v1", "--total-timesteps", "600")
    worker = harness.run(tmp_path / "run", *words, CLEANRL_HOME=str(home))
    values = worker.events("metrics")[-1]["values"]
    assert values["episodes"] > 10
    assert 5 < values["episodic_return"] < 100


def test_a_script_whose_packages_are_missing_is_refused(home: Path, tmp_path: Path) -> None:
    """Before it starts, with the names; the tool says the same of every script of a checkout."""
    write_script(home, "lacking", "import procgen\nimport no_such_package\n" + OLDER_SCRIPT)
    words = ("--algo", "cleanrl:lacking", "--env-id", "CartPole-v1", "--total-timesteps", "600")
    said = harness.refuse(tmp_path / "no", *words, CLEANRL_HOME=str(home))
    assert "imports no_such_package, procgen, not installed here" in said
    assert "never built for Python 3.11" in said, "and what can be done about it"
    assert try_upstream.main([str(home)]) == 0


def test_infos_of_ended_episodes_get_their_old_shape() -> None:
    """A dictionary for each environment whose episode ended, None for the others."""
    infos = {
        "final_obs": np.array([None, 1.0], dtype=object),
        "_final_obs": np.array([False, True]),
        "final_info": {
            "episode": {"r": np.array([0.0, 9.0]), "_r": np.array([False, True])},
            "_episode": np.array([False, True]),
            "lives": np.array([0, 0]),
            "_lives": np.array([False, False]),
        },
        "_final_info": np.array([False, True]),
    }
    told = older_gymnasium.with_old_names(infos, 2)
    assert list(told["final_info"]) == [None, {"episode": {"r": 9.0}}]
    assert told["final_observation"][1] == 1.0
    assert older_gymnasium.with_old_names({"x": 1}, 2) == {"x": 1}


def test_cancelling_it_flushes_its_writers(home: Path, tmp_path: Path) -> None:
    """SIGTERM unwinds the script: exit status 143, event file on disk."""
    arguments = ("--algo", "cleanrl:tiny", "--env-id", "CartPole-v1", "--total-timesteps", "999999")
    worker = harness.start(tmp_path / "run", *arguments, CLEANRL_HOME=str(home))
    worker.wait_for("metrics")
    worker.stop()
    assert worker.wait() == 143
    assert list((tmp_path / "run").glob("runs/*/events.out.tfevents.*"))


def test_through_the_daemon_it_shows_metrics_and_frames(
    home: Path, make_trainer: Callable[..., Trainer]
) -> None:
    """A watcher sees pictures of the running script; the run ends TERM, completed.

    The checkout is named by the setting, given as a variable of the daemon.
    """
    trainer = make_trainer(grace_s=TIME_TO_SAVE, worker_environment=f"CLEANRL_HOME={home}").start()
    worker = {
        "type": "cleanrl",
        "config": {
            "algo": "cleanrl:tiny",
            "env_id": "CartPole-v1",
            "total_timesteps": 40_000,
            "extras": {"fastlane_video_mode": "single", "minimal_telemetry": True},
        },
    }
    config = {"artifacts": {}, "metadata": {"worker": worker}}
    run_id = str(trainer.client.submit(config).run_id)
    until(lambda: trainer.client.get(run_id).state == "EXEC", "it runs")
    frame = next(iter(trainer.client.frames(run_id, max_fps=10.0)))
    assert frame.jpeg[:2] == b"\xff\xd8"
    record = trainer.wait_for(run_id, "TERM")
    assert (record.outcome, record.exit_code) == ("completed", 0)
    assert record.metrics["episodic_return"] > 0
    summaries = [item for batch in trainer.client.episodes(run_id) for item in batch.episodes]
    assert {item.outcome for item in summaries} == {"summary"}
    assert sum(json.loads(item.info_json)["episodes"] for item in summaries) > 10


def test_the_setting_of_the_home_names_the_checkout_too(home: Path, tmp_path: Path) -> None:
    """Without the variable, `worker_environment` in the home's settings may have it."""
    (tmp_path / "settings.json").write_text(
        json.dumps({"worker_environment": f"CLEANRL_HOME={home}"})
    )
    arguments = ("--algo", "cleanrl:tiny", "--total-timesteps", "1000", "--dry-run")
    worker = harness.run(tmp_path / "dry", *arguments, MOSAIC_HOME=str(tmp_path))
    assert str(home / "cleanrl" / "tiny.py") in worker.said()
