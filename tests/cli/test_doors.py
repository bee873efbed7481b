"""What people type, as they know it from other tools: help, several runs, numbers, refusals."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.trainer import trainers

from cli.conftest import Command

TRAIN = ("train", "ppo", "--total-timesteps", "512", "--num-envs", "2", "--num-steps", "64")


@pytest.fixture(scope="module")
def shared_command(tmp_path_factory: pytest.TempPathFactory, python_path: str) -> Iterator[Command]:
    """A home with a daemon in which no test of this module leaves a run."""
    with trainers(tmp_path_factory.mktemp("doors"), python_path) as make:
        trainer = make().start()
        yield Command(trainer.environment(MOSAIC_HOME=str(trainer.home.root)))


def test_the_help_of_an_algorithm_lists_its_own_arguments(shared_command: Command) -> None:
    """`mosaic train ppo --help` shows names, ranges and defaults."""
    words = " ".join(shared_command("train", "ppo", "--help").split())
    assert "--num-envs" in words
    assert "a whole number, at least 1, default 4" in words
    assert "--run-dir" not in words, "what the daemon sets is no flag for people"
    words = " ".join(shared_command("train", "poo", "--help").split())
    assert "there is no algorithm or worker 'poo'" in words


@pytest.mark.parametrize(
    "words",
    [
        ("script", "phases.sh"),
        ("sweep", "ppo", "--param", "gamma=0.9,0.99", "--dry-run"),
        ("experiment", "run", "elsewhere", "--algo", "ppo", "--dry-run"),
    ],
)
def test_every_command_that_starts_runs_knows_where(
    shared_command: Command, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """`--site` is understood, and a wrong one is refused with those there are."""
    (tmp_path / "phases.sh").write_text("#!/bin/sh\n")
    named = [str(tmp_path / word) if word.endswith(".sh") else word for word in words]
    said = shared_command(*named, "--site", "shh://box", code=2)
    assert "'shh://box' is not a site" in said
    assert "did you mean 'ssh'" in said


def test_problems_are_told_at_once_in_the_words_of_the_command_line(mosaic: Command) -> None:
    """Flags, not JSON pointers; what the flags and what the daemon find, together and once."""
    said = mosaic(*TRAIN, "--gamma", "2", "--learnin-rate", "1", "--env-id", "CartPol-v1", code=2)
    assert "--gamma: must be at least 0 and at most 1, not 2.0" in said
    assert "did you mean '--learning-rate'" in said
    assert "--env-id: there is no environment 'CartPol-v1'; did you mean 'CartPole-v1'?" in said
    assert "3 problems" in said
    assert "/metadata" not in said
    assert mosaic.json("runs")["total"] == 0, "nothing was created"


def test_a_dry_run_speaks_of_flags_too(shared_command: Command) -> None:
    """What was typed is named as it was typed, whichever way it is checked."""
    said = shared_command(*TRAIN, "--num-minibatches", "7", "--dry-run", code=2)
    assert "  --num-minibatches: num_minibatches 7 does not divide" in said
    assert "/metadata" not in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("ppo", "--total-timesteps", "0"), "give at least 1"),
        (("ppo", "--total-timesteps", "1.5"), "no number of steps"),
        (("ppo", "--num-envs", "3", "--num-minibatches", "7"), "does not divide 3 environments"),
        (("ppo_continuous_action", "--total-timesteps", "2000"), "use at least 2048"),
        (("c51", "--v-min", "7", "--v-max", "5"), "v_min 7 must be below v_max, which is 5"),
        (("rainbow_atari", "--v-min", "50"), "v_min 50 must be below v_max, which is 10"),
        (("ppo", "--upload-model"), "set save_model too"),
        (("qdagger_dqn_atari_impalacnn",), "needs a teacher"),
        (("qdagger_dqn_atari_impalacnn", "--teacher-policy", "x.npz"), "there is no file"),
        (
            (
                "qdagger_dqn_atari_impalacnn",
                "--total-timesteps",
                "400",
                "--teacher-trajectories",
                "x.npz",
            ),
            "ends before the student's first step",
        ),
        (("ppo", "--curriculum", "none.json"), "cannot read none.json"),
        (("ppo", "--curriculum", "BABYAI_DOOR_CURRICULUM"), "did you mean"),
        (("human",), "mosaic play ENV_ID"),
        (("spade_bdi", "--wandb"), "does nothing with 'wandb'"),
    ],
)
def test_what_can_be_known_is_refused_before_a_run_exists(
    shared_command: Command, words: tuple[str, ...], sentence: str
) -> None:
    """Each is a sentence and exit code 2, and no run is left behind."""
    assert sentence in shared_command("train", *words, code=2)
    assert shared_command.json("runs")["total"] == 0


def test_a_curriculum_and_a_relative_path_are_recorded_truly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment is that of the last stage; a file is named from the root."""
    from mosaic.cli.building import TrainOptions, fresh_config, own_flags
    from mosaic.workers.algorithms import find_algorithm

    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.asl").write_text("")
    algorithm = find_algorithm("ppo")
    options = TrainOptions(curriculum="BABYAI_DOORKEY_CURRICULUM", total_timesteps=1e4)
    assert fresh_config(algorithm, options, {}).worker.env_id == "MiniGrid-DoorKey-16x16-v0"
    values = own_flags(["--plan", "my.asl"], find_algorithm("spade_bdi"), "spade_bdi")
    assert values == {"plan": str(tmp_path / "my.asl")}
    values = own_flags(["--plan", "balanced"], find_algorithm("spade_bdi"), "spade_bdi")
    assert values == {"plan": "balanced"}, "a shipped name stays a name"


def test_several_seeds_and_what_can_be_done_with_their_runs(
    mosaic: Command, tmp_path: Path
) -> None:
    """`--seeds 2` makes two runs; they are counted, tagged, exported and deleted together."""
    runs = mosaic.json(*TRAIN, "--seed", "5", "--seeds", "2", "--name", "both")
    ids = [run["run_id"] for run in runs]
    assert [(run["seed"], run["run_name"]) for run in runs] == [
        (5, "both seed 5"),
        (6, "both seed 6"),
    ]
    assert json.loads(mosaic("config", ids[0]))["metadata"]["worker"]["config"]["seed"] == 5
    lines = mosaic("metrics", ids[0], "--csv", "--tag", "charts/SPS").splitlines()
    assert lines[0] == "tag,step,value,wall_time"
    assert lines[-1].startswith("charts/SPS,512,")
    assert "charts/episodic_return" in mosaic("metrics", ids[0])
    assert "did you mean 'charts/SPS'" in mosaic("metrics", ids[0], "--tag", "charts/SP", code=2)
    mosaic("tag", *ids, "--add", "good", "--add", "old")
    tagged = mosaic.json("tag", *ids, "--remove", "old", "--notes", "seen")
    assert [(run["tags"], run["notes"]) for run in tagged] == [(["good"], "seen")] * 2
    assert mosaic("open", ids[0], "--path").strip() == runs[0]["run_dir"]
    command = mosaic("tensorboard", *ids, "--dry-run")
    assert all(run["run_dir"] in command for run in runs)
    assert "has ended" in mosaic("watch", ids[0], "--preview", code=2), "at once, not never"
    mosaic("export", *ids, "--output", str(tmp_path / "both.mosaic.tar.gz"))
    assert "no run begins with" in mosaic("delete", ids[0], "01ZZZZ", code=2)
    assert mosaic.json("runs")["total"] == 2, "a mistyped id leaves nothing half done"
    mosaic("delete", *ids)
    assert mosaic.json("runs")["total"] == 0
    assert ids[1] in mosaic("restore", "last"), "the newest in the trash"


def test_a_filter_that_matches_nothing_says_so(shared_command: Command) -> None:
    """A mistyped state is refused with those that exist; another filter is no empty home."""
    assert "'queued'" in shared_command("runs", "--state", "EXCE", code=2)
    assert "'failed'" in shared_command("runs", "--outcome", "faild", code=2)
    assert "no run matches" in shared_command("runs", "--algo", "poo")
    assert "no runs yet" in shared_command("runs", "--limit", "3")
    assert "no sweeps yet" in shared_command("sweep", "list")


def test_files_that_cannot_be_used_are_named(shared_command: Command, tmp_path: Path) -> None:
    """No traceback for bad input: a binary key script, a video without a folder or an ending."""
    keys = tmp_path / "keys.txt"
    keys.write_bytes(b"\xff\xfe\x00")
    said = shared_command("play", "CartPole-v1", "--script", str(keys), code=2)
    assert "not a text file of keys" in said
    keys.write_text("left x5")
    said = shared_command("play", "FrozenLak-v1", "--script", str(keys), code=2)
    assert "did you mean 'FrozenLake-v1'" in said
    assert shared_command.json("runs")["total"] == 0, "refused before a run exists"
    said = shared_command("replay", "last", "--video", str(tmp_path / "x.txt"), code=2)
    assert "must end in .mp4" in said
    said = shared_command("replay", "last", "--video", str(tmp_path / "no" / "x.mp4"), code=2)
    assert "there is no folder" in said


def test_the_unforeseen_is_a_sentence_and_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An error that no part expected leaves its traceback where it can be sent from."""
    from mosaic.cli import main

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(main.cli, "main", lambda **_: 1 / 0)
    with pytest.raises(SystemExit) as stop:
        main.main(["runs"])
    assert stop.value.code == 1
    said = capsys.readouterr().err
    assert "unexpected ZeroDivisionError: division by zero" in said
    (file,) = tmp_path.glob("mosaic-error-*.txt")
    assert str(file) in said
    assert "ZeroDivisionError" in file.read_text()


def test_completion_knows_flags_environments_and_presets() -> None:
    """What can be typed next is offered, also for an algorithm's own arguments."""
    from click.shell_completion import ShellComplete

    from mosaic.cli.main import cli

    def offered(*words: str) -> list[str]:
        *before, incomplete = words
        complete = ShellComplete(cli, {}, "mosaic", "_MOSAIC_COMPLETE")
        return [item.value for item in complete.get_completions(before, incomplete)]

    assert "--learning-rate" in offered("train", "ppo", "--learn")
    assert "CartPole-v1" in offered("train", "ppo", "--env-id", "Cart")
    assert offered("train", "ppo", "--curriculum", "BABYAI_D") == ["BABYAI_DOORKEY_CURRICULUM"]
    assert "queued" in offered("runs", "--state", "q")
    assert "ppo" in offered("train", "pp")


def test_mosaic_can_be_started_as_a_module(shared_command: Command) -> None:
    """`python -m mosaic` is the same command."""
    command = [sys.executable, "-m", "mosaic", "status", "--json"]
    done = subprocess.run(
        command, env=shared_command.environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["running"]
