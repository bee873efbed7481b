"""Shell scripts: phases as events, settings through the environment, the whole group stopped."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from support import harness
from support.patience import PATIENCE_S
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mosaic.curves.names import EPISODES, LENGTH, RETURN, TAGS
from mosaic.runs.metrics import MetricReader

HEAD = """#!/usr/bin/env bash
# @description Small rooms first
# @phases warm-up, main
# @total_timesteps 768
set -eu
"""
TRAIN = "python -m cleanrl_worker.cli --algo ppo --env-id CartPole-v1 --total-timesteps 512"

FOREVER = (
    "python -m cleanrl_worker.cli --algo ppo --env-id CartPole-v1 "
    '--total-timesteps 100000000 --run-dir "$MOSAIC_RUN_DIR/forever"\n'
)


def _write(tmp_path: Path, body: str) -> str:
    path = tmp_path / "phases.sh"
    path.write_text(HEAD + body)
    return str(path)


def test_phases_of_a_script_are_one_run(tmp_path: Path) -> None:
    """Each worker inside is a phase; steps add up, curves follow each other, checkpoints keep
    their place."""
    script = _write(
        tmp_path,
        f"""
echo "seed $MOSAIC_SEED"
{TRAIN} --run-dir "$MOSAIC_RUN_DIR/warm-up" -- --num-envs 2
python -m cleanrl_worker.cli --resume "$MOSAIC_RUN_DIR/warm-up" --total-timesteps 768 \\
    --run-dir "$MOSAIC_RUN_DIR/main"
""",
    )
    worker = harness.run(tmp_path / "run", "--script", script, "--seed", "9")
    phases = worker.events("phase_started")
    assert [phase["name"] for phase in phases] == ["warm-up", "main"]
    assert "seed 9\n" in worker.said()
    last = worker.events("metrics")[-1]
    assert (last["step"], last["total"]) == (768, 768)
    _curves_are_those_of_the_phases(tmp_path / "run", last["values"])
    _tensorboard_shows_the_same(tmp_path / "run")
    saved = {event["path"] for event in worker.events("checkpoint_saved")}
    assert "warm-up/checkpoints/step-512.state" in saved
    assert all((tmp_path / "run" / path).exists() for path in saved)
    assert len({event["run_id"] for event in worker.events()}) == 1


def _curves_are_those_of_the_phases(run_dir: Path, told: dict[str, float]) -> None:
    """Every point of both, the second phase after the first; the last is what was told last."""
    whole = MetricReader(run_dir)
    parts = [MetricReader(run_dir / "phases" / number) for number in ("1", "2")]
    assert set(whole.tags()) == {tag for part in parts for tag in part.tags()}
    for tag in whole.tags():
        points = [part.read(tag) for part in parts]
        # The second phase continues the first, so both count the same steps.
        np.testing.assert_array_equal(whole.read(tag), np.concatenate(points))
        assert len(points[0])
        assert points[0]["step"][-1] <= 512 < points[1]["step"][0] <= points[1]["step"][-1] <= 768
    for name in (RETURN, LENGTH, EPISODES):
        assert whole.read(TAGS[name])["value"][-1] == told[name]


def _tensorboard_shows_the_same(run_dir: Path) -> None:
    """One run in TensorBoard, with every point of the run's curves and no others."""
    manifest = json.loads((run_dir / "analytics.json").read_text())
    assert manifest["artifacts"]["tensorboard"] == {"dir": "tensorboard", "enabled": True}
    shown = EventAccumulator(str(run_dir / "tensorboard"), {"scalars": 0}).Reload()
    whole = MetricReader(run_dir)
    assert set(shown.Tags()["scalars"]) == set(whole.tags())
    for tag in whole.tags():
        points = whole.read(tag)
        scalars = shown.Scalars(tag)
        assert [point.step for point in scalars] == points["step"].tolist()
        np.testing.assert_array_equal(
            np.float32([point.value for point in scalars]), points["value"].astype(np.float32)
        )


def test_settings_are_never_part_of_a_command_line(tmp_path: Path) -> None:
    """A value full of shell metacharacters arrives as it is and runs nothing."""
    canary = tmp_path / "canary"
    value = f"$(touch {canary}); `touch {canary}` && touch {canary} #"
    config = tmp_path / "config.json"
    script = _write(
        tmp_path, 'echo "@phase only"\nprintf "%s\\n" "$MOSAIC_PARAM_LABEL" "$MOSAIC_ENV_ID"\n'
    )
    extras = {"mode": "script", "script_path": script, "label": value}
    config.write_text(json.dumps({"env_id": f"x; touch {canary}", "extras": extras}))
    worker = harness.run(tmp_path / "run", "--config", str(config))
    assert value in worker.said()
    assert not canary.exists()
    assert [phase["name"] for phase in worker.events("phase_started")] == ["only"]


def test_cancelling_a_script_stops_everything_it_started(tmp_path: Path) -> None:
    """Also when only the worker gets the signal; a phase that trains saves first."""
    script = _write(tmp_path, f"sleep 300 &\n{FOREVER}")
    worker = harness.start(tmp_path / "run", "--script", script)
    worker.wait_for("metrics")
    everyone = psutil.Process(worker.pid).children(recursive=True)
    assert len(everyone) >= 4
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.wait() == 143
    assert worker.events("run_failed")[0]["reason"] == "terminated"
    psutil.wait_procs(everyone, timeout=PATIENCE_S)
    assert not [process for process in everyone if process.is_running()]
    assert harness.newest_state(tmp_path / "run" / "forever")["step"] > 0


def test_a_phase_saves_though_it_is_told_to_stop_twice(tmp_path: Path) -> None:
    """A script that clears up after itself outlives the signal to its group, and its worker then
    passes that signal on once more."""
    script = _write(tmp_path, f"trap 'echo cleared up' TERM\n{FOREVER}")
    worker = harness.start(tmp_path / "run", "--script", script)
    worker.wait_for("metrics")
    os.killpg(worker.pid, signal.SIGTERM)
    assert worker.wait() == 143
    assert "asked to twice" not in worker.said()
    assert harness.newest_state(tmp_path / "run" / "forever")["step"] > 0


def test_a_script_that_leaves_something_running_ends_all_the_same(tmp_path: Path) -> None:
    """Its own end counts; what it printed last is there once, without a newline too."""
    script = _write(tmp_path, "sleep 60 & echo $! > pid\nprintf 'the last words'\n")
    worker = harness.run(tmp_path / "run", "--script", script)
    os.kill(int((tmp_path / "run" / "pid").read_text()), signal.SIGKILL)
    assert worker.said().count("the last words") == 1


def test_a_phase_that_fails_fails_the_run(tmp_path: Path) -> None:
    """The script's exit status is the run's."""
    script = _write(tmp_path, "echo about to fail >&2\nexit 7\n")
    worker = harness.start(tmp_path / "run", "--script", script)
    assert worker.wait() == 1
    assert "exit code 7" in worker.events("run_failed")[0]["reason"]


def _phases(tmp_path: Path, *phases: dict[str, object]) -> str:
    """A config whose script is made of phases."""
    usual = {"algo": "ppo", "env_id": "CartPole-v1", "steps": 512}
    made = [{**usual, "name": f"phase {n}", **phase} for n, phase in enumerate(phases, start=1)]
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"extras": {"mode": "script", "script_phases": made}}))
    return str(config)


@pytest.mark.prove
def test_phases_that_are_given_are_trained_without_a_file(tmp_path: Path) -> None:
    """The worker makes the script: settings change, weights go on into another environment."""
    small = {"num_envs": 2, "num_steps": 64, "num_minibatches": 2}
    config = _phases(
        tmp_path,
        {"name": "warm up", "parameters": small},
        {"begins": "continued", "steps": 256, "parameters": {"learning_rate": 1e-5}},
        {"begins": "warm", "parameters": small},
    )
    worker = harness.run(tmp_path / "run", "--config", config)
    begun = [(event["name"], event["step"]) for event in worker.events("phase_started")]
    assert begun == [("warm up", 0), ("phase 2", 512), ("phase 3", 768)]
    assert worker.events("metrics")[-1]["step"] == 1280
    second = harness.newest_state(tmp_path / "run" / "2-phase-2")
    assert second["args"]["learning_rate"] == 1e-5
    assert second["args"]["num_envs"] == 2
    third = harness.newest_state(tmp_path / "run" / "3-phase-3")
    assert third["args"]["warm_start"].endswith("2-phase-2")


@pytest.mark.parametrize(
    ("phases", "sentence"),
    [
        ([{"algo": "ppoo"}], "script_phases/0/algo"),
        ([{"env_id": "CartPol-v1"}], "did you mean 'CartPole-v1'"),
        ([{"parameters": {"learnin_rate": 1}}], "script_phases/0/parameters/learnin_rate"),
        ([{"steps": 3}], "script_phases/0/steps"),
        ([{"begins": "continued"}], "no phase before it"),
        ([{}, {"algo": "dqn", "begins": "warm"}], "has no argument 'warm_start'"),
        ([{"name": "a, b"}], "script_phases/0/name"),
    ],
)
def test_phases_that_cannot_be_trained_are_refused(
    tmp_path: Path, phases: list[dict[str, object]], sentence: str
) -> None:
    """Before anything starts, with the phase and its field."""
    assert sentence in harness.refuse(tmp_path / "no", "--config", _phases(tmp_path, *phases))


def test_a_dry_run_of_phases_writes_nothing(tmp_path: Path) -> None:
    """It says what would be run. A phase that continues has the settings of the one before, so it
    may be shorter than a turn with the usual ones."""
    small = {"num_envs": 2, "num_steps": 64}
    config = _phases(
        tmp_path,
        {"name": "warm up", "parameters": small},
        {"begins": "continued", "steps": 256},
    )
    worker = harness.run(tmp_path / "dry", "--config", config, "--dry-run", "--emit-summary")
    assert '"warm up"' in worker.said()
    assert not list((tmp_path / "dry").glob("*.sh"))


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("missing.sh", None, "cannot be read"),
        ("script.py", "print()", "not a *.sh file"),
        ("odd.sh", "# @total_timesteps many\n", "must be a whole number"),
        ("binary.sh", "\0\udcff", "not a text file"),
    ],
)
def test_a_script_that_cannot_be_run_is_refused(
    tmp_path: Path, name: str, text: str | None, sentence: str
) -> None:
    """With the reason, and nothing is started."""
    if text is not None:
        (tmp_path / name).write_text(text, errors="surrogateescape")
    assert sentence in harness.refuse(tmp_path / "no", "--script", str(tmp_path / name))


def test_a_dry_run_of_a_script_starts_nothing(tmp_path: Path) -> None:
    """It shows the command and what the script says about itself."""
    canary = tmp_path / "canary"
    script = _write(tmp_path, f"touch {canary}\n")
    worker = harness.run(tmp_path / "dry", "--script", script, "--dry-run", "--emit-summary")
    assert '"Small rooms first"' in worker.said()
    time.sleep(0.2)
    assert not canary.exists()
