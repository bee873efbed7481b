"""The worker's command line: dry run, refusals, configs, headless mode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.bdi import newest_checkpoint, run_worker

from spade_bdi_rl_worker import catalog, checkpoints
from spade_bdi_rl_worker.errors import CheckpointError, SettingsError
from spade_bdi_rl_worker.settings import Settings, from_config
from spade_bdi_rl_worker.worlds import World


def test_all_problems_of_a_config_are_named_at_once() -> None:
    """A config with four mistakes is refused once, with four answers."""
    config = {
        "env_id": "FrozenLake-v1",
        "extras": {
            "plann": "balanced",
            "jid": "nobody",
            "algo_params": {"alpha": 3.0, "gamma": "x"},
        },
    }
    with pytest.raises(SettingsError) as caught:
        from_config(config, {"telemetry_policy": "spool"})
    text = str(caught.value)
    assert "did you mean 'plan'" in text
    assert "alpha must be between 0.0 and 1.0, not 3.0" in text
    assert "gamma must be float, not 'x'" in text


def test_flags_win_over_the_config_in_both_of_its_shapes(tmp_path: Path) -> None:
    """The nested job and the flat worker config load alike; a flag overrides either."""
    worker = {"env_id": "Taxi-v4", "seed": 7, "extras": {"episodes": 50, "headless": True}}
    nested = {"metadata": {"worker": {"type": "spade_bdi", "config": worker}}, "artifacts": {}}
    for document in (worker, nested):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(document))
        run = run_worker("--config", path, "--episodes", 60, "--dry-run")
        assert run.code == 0, run.stderr
        settings = json.loads(run.stdout)["settings"]
        assert (settings["env_id"], settings["seed"], settings["episodes"]) == ("Taxi-v4", 7, 60)


def test_the_dry_run_checks_everything_and_starts_nothing(tmp_path: Path) -> None:
    """Environment, plans and settings are checked; no run directory appears."""
    good = run_worker(
        "--dry-run", "--run-dir", tmp_path / "never", "--jid", "a@b", "--password", "hush"
    )
    assert good.code == 0, good.stderr
    assert not (tmp_path / "never").exists()
    plan = tmp_path / "bad.asl"
    plan.write_text("+!act : epsilon(E & <- .explore.\n")
    bad = run_worker("--dry-run", "--plan", plan)
    assert bad.code == 2
    assert "bad.asl:1:21" in bad.stderr
    unknown = run_worker("--dry-run", "--env-id", "FrozenLak-v1")
    assert unknown.code == 2
    assert "did you mean 'FrozenLake-v1'" in unknown.stderr


def test_the_password_is_never_printed() -> None:
    """Not even the dry run's report shows it."""
    run = run_worker("--dry-run", "--jid", "a@b", "--password", "hush-canary")
    assert run.code == 0
    assert "a@b" in run.stdout
    assert "hush-canary" not in run.stdout + run.stderr


def test_what_the_catalogue_offers_really_exists() -> None:
    """Every listed environment can be made, and every described setting can be given."""
    for item in catalog.environments():
        World(item["id"], seed=1).close()
    described = catalog.describe("spade_bdi")["arguments"]
    config = {"extras": {"algo_params": {item["name"]: item["default"] for item in described}}}
    assert from_config(config, {}) == Settings()
    assert catalog.dry_run(config)[0]
    fits, text = catalog.dry_run({"extras": {"plan": "balancd"}})
    assert not fits
    assert "did you mean 'balanced'" in text


def test_headless_runs_resume_from_the_newest_whole_checkpoint(tmp_path: Path) -> None:
    """A damaged newest checkpoint is passed over, and the rest of the run still fits."""
    common = ["--headless", "--episodes", 9000, "--run-dir", tmp_path]
    assert run_worker(*common, "--stop-at", 4000).code == 0
    folder = tmp_path / checkpoints.FOLDER
    (folder / "full-0000999999.json").write_text('{"torn":')
    resumed = run_worker(*common, "--mode", "resume_training")
    assert resumed.code == 0, resumed.stderr
    assert newest_checkpoint(tmp_path)["learner"]["episode"] >= 9000


def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """Another environment's checkpoint is named and never half used."""
    assert run_worker("--headless", "--episodes", 200, "--run-dir", tmp_path).code == 0
    run = run_worker(
        "--headless", "--env-id", "Taxi-v4", "--episodes", 200, "--mode", "resume_training",
        "--run-dir", tmp_path,
    )  # fmt: skip
    assert run.code == 1
    assert "env_id is 'FrozenLake-v1' there and 'Taxi-v4' here" in run.last["reason"]


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1, 2]", b'{"format": "x", "content": ""}'])
def test_a_file_that_is_no_checkpoint_is_named(tmp_path: Path, damage: bytes) -> None:
    """Garbage where a checkpoint should be is a sentence, not a traceback."""
    path = tmp_path / "full.json"
    path.write_bytes(damage)
    with pytest.raises(CheckpointError, match="is not a checkpoint of this worker"):
        checkpoints.read(path, "full")


def test_a_changed_checkpoint_is_noticed(tmp_path: Path) -> None:
    """One flipped digit in the table fails the checksum."""
    checkpoints.write(tmp_path, "full-1.json", "full", {"q": 0.25})
    path = tmp_path / checkpoints.FOLDER / "full-1.json"
    path.write_text(path.read_text().replace("0.25", "0.75"))
    with pytest.raises(CheckpointError, match="checksum does not match"):
        checkpoints.read(path, "full")
