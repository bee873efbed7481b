"""QDagger learns from an expert's recorded play as well as from a teacher's policy."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cleanrl_worker.kit.atari import AtariEnvs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.frame_replay import FrameReplayBuffer
from cleanrl_worker.kit.trajectories import Played, Recording, write_recording
from cleanrl_worker.running.checked_files import checksum_path
from cleanrl_worker.running.evaluation import evaluate
from cleanrl_worker.running.verification import resume_differences, run_script, smoke_flags, train
from cleanrl_worker.tools import record_trajectories

BREAKOUT = "BreakoutNoFrameskip-v4"
STEPS, SEED = 400, 3


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that hardly learned plays nearly at random; some of its games end soon."""
    folder = tmp_path_factory.mktemp("expert")
    train("dqn_atari", folder / "run", "--smoke")
    out = folder / "expert.npz"
    flags = ["--steps", str(STEPS), "--seed", str(SEED), "--epsilon", "0.9"]
    assert record_trajectories.main([str(folder / "run"), "--out", str(out), *flags]) == 0
    return out


def test_a_recording_fills_the_memory_as_the_play_itself_would(recording: Path) -> None:
    """Repeating the recorded actions in the game gives the same memory as the file does."""
    content = np.load(recording, allow_pickle=False)
    envs = AtariEnvs(BREAKOUT, 1)
    played = FrameReplayBuffer(1000, envs, torch.device("cpu"))
    obs = envs.reset(seed=SEED)
    scores = []
    for action in content["actions"]:
        actions = np.array([action])
        next_obs, rewards, terminated, _, info = envs.step(actions)
        played.add(obs, actions, rewards, terminated, info)
        scores += [score for score, _ in info["episodes"]] if info else []
        obs = next_obs
    loaded = FrameReplayBuffer(1000, envs, torch.device("cpu"))
    for transition in Recording(recording):
        loaded.add(*transition)
    envs.close()

    assert scores == content["scores"].tolist() != []
    # Where a game is over only the play knows one more picture, which counts for nothing, and
    # the recording's own last step is not known to have led anywhere.
    ours, theirs = loaded.state_dict(), played.state_dict()
    count = int(ours["count"][0])
    assert count == int(theirs["count"][0])
    for name in ("actions", "rewards", "dones", "begins"):
        got, wanted = ours["arrays"][name][0], theirs["arrays"][name][0]
        np.testing.assert_array_equal(got[: count - 1], wanted[: count - 1])
    begins = np.flatnonzero(ours["arrays"]["begins"][0])
    got, wanted = ours["arrays"]["frames"][0], theirs["arrays"]["frames"][0]
    np.testing.assert_array_equal(got[begins], wanted[begins])


def _tiny_play(ends: dict[int, bool], steps: int = 6) -> list[Played]:
    """Steps numbered in every pixel; `ends` says where a game was over, and whether lost."""
    return [
        Played(
            np.full((2, 3, 3), number, np.uint8),
            number % 2,
            5.0 * number,
            ends.get(number, False),
            [1.0] if number in ends else [],
        )
        for number in range(steps)
    ]


def test_a_game_that_was_cut_off_is_no_lost_one(tmp_path: Path) -> None:
    """The step whose outcome nobody saw gives no transition; the one before it leads there."""
    path = tmp_path / "tiny.npz"
    write_recording(path, BREAKOUT, 2, 6, _tiny_play({1: True, 3: False}))
    transitions = list(Recording(path))
    numbers = [int(transition.obs[0, -1, 0, 0]) for transition in transitions]
    assert numbers == [0, 1, 2, 4], "3 was cut off, 5 is where the recording stops"
    assert [bool(transition.terminated[0]) for transition in transitions] == [0, 1, 0, 0]
    assert [bool(transition.info) for transition in transitions] == [0, 1, 1, 1]
    led_to = [int(t.info["final_obs"][0, -1, 0, 0]) for t in transitions if t.info]
    assert led_to == [1, 3, 5]
    assert [float(transition.rewards[0]) for transition in transitions] == [0, 1, 1, 1]


def _without(path: Path, name: str, content: Any = None, *, allow_pickle: bool = False) -> None:
    """Write the file again with one array replaced, or left out."""
    arrays = dict(np.load(path, allow_pickle=False))
    del arrays[name]
    if content is not None:
        arrays[name] = content
    np.savez(path, allow_pickle=allow_pickle, **arrays)


def _overwrite(path: Path, where: float) -> None:
    content = bytearray(path.read_bytes())
    middle = int(len(content) * where)
    content[middle : middle + 8] = bytes(8)
    path.write_bytes(content)


DAMAGES = {
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-200]), "no .npz file"),
    "not a zip": (lambda path: path.write_text("observations"), "no .npz file"),
    "pickled": (
        lambda path: _without(path, "actions", np.array([print] * 6), allow_pickle=True),
        "actions are pickled objects, which could run code",
    ),
    "an array is missing": (lambda path: _without(path, "dones"), "no array 'dones'"),
    "too few rewards": (
        lambda path: _without(path, "rewards", np.zeros(5)),
        re.escape("rewards have the shape (5,), (6,) is needed"),
    ),
    "observations are no bytes": (
        lambda path: _without(path, "observations", np.zeros((6, 2, 3, 3))),
        "rows of float64",
    ),
    "dones are numbers": (lambda path: _without(path, "dones", np.zeros(6)), "bool are needed"),
    "other pictures": (
        lambda path: _without(path, "observations", np.zeros((6, 2, 4, 4), np.uint8)),
        re.escape("shape (2, 4, 4), those of"),
    ),
    "other actions": (lambda path: _without(path, "n_actions", np.array(9)), "9 actions"),
    "an action that is none": (
        lambda path: _without(path, "actions", np.array([0, 1, 7, 0, 0, 0])),
        "the action 7, allowed are 0 to 1",
    ),
    "no score": (lambda path: _without(path, "scores", np.zeros(0)), "no whole game"),
    "another game": (
        lambda path: _without(path, "env_id", np.array("PongNoFrameskip-v4")),
        "--env-id PongNoFrameskip-v4",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_cannot_be_learned_from_is_refused(damage: str, tmp_path: Path) -> None:
    """The sentence names the file and what is wrong with it."""
    path = tmp_path / "tiny.npz"
    write_recording(path, BREAKOUT, 2, 6, _tiny_play({3: True}))
    envs = SimpleNamespace(
        single_observation_space=gym.spaces.Box(0, 255, (2, 3, 3), np.uint8),
        single_action_space=gym.spaces.Discrete(2),
    )
    Recording(path).check(BREAKOUT, envs)
    checksum_path(path).unlink()
    spoil, words = DAMAGES[damage]
    spoil(path)
    with pytest.raises(UsageError, match=words) as refusal:
        Recording(path).check(BREAKOUT, envs)
    assert str(path) in str(refusal.value)


def test_damage_inside_is_found_with_and_without_a_checksum_beside_the_file(
    recording: Path, tmp_path: Path
) -> None:
    """A flipped byte among the pictures is noticed at the latest when they are read."""
    path = tmp_path / "copy.npz"
    path.write_bytes(recording.read_bytes())
    _overwrite(path, 0.5)
    with pytest.raises(UsageError, match="damaged"):
        list(Recording(path))
    checksum_path(path).write_text(checksum_path(recording).read_text())
    with pytest.raises(UsageError, match="does not match its checksum"):
        Recording(path)


def test_a_student_of_a_recording_trains_and_resumes_exactly(
    recording: Path, tmp_path: Path
) -> None:
    """Offline and online, and to the last bit after a stop; the file is needed only once."""
    flags, half = smoke_flags("qdagger_dqn_atari_impalacnn")
    flags = [*flags, "--teacher-trajectories", str(recording), "--num-envs", "2"]
    assert resume_differences("qdagger_dqn_atari_impalacnn", half, flags, tmp_path) == []


def test_the_curve_of_a_student_is_its_own(tmp_path: Path) -> None:
    """The teacher's games have a tag of their own: a student that is still behind its teacher does
    not look as if it had forgotten what it never knew."""
    flags = "--env-id mosaic/Catch-v0 --teacher-steps 400 --offline-steps 10 --learning-starts 420"
    train(
        "qdagger_dqn_atari_impalacnn",
        tmp_path / "run",
        *("--smoke", *flags.split(), "--total-timesteps", "900"),
    )
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    teacher = [point.step for point in events.Scalars("charts/teacher/episodic_return")]
    student = [point.step for point in events.Scalars("charts/episodic_return")]
    assert 0 < max(teacher) <= 400 < 410 <= min(student)


@pytest.mark.prove
def test_a_student_in_jax_learns_from_the_same_recording(recording: Path, tmp_path: Path) -> None:
    """It fills the teacher's memory, learns offline and online, and leaves a policy."""
    flags = ["--smoke", "--teacher-trajectories", str(recording)]
    train("qdagger_dqn_atari_jax_impalacnn", tmp_path / "run", *flags)
    assert len(evaluate(tmp_path / "run", episodes=1, max_steps=5)) == 1


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--teacher-trajectories nowhere.npz", ["nowhere.npz", "record_trajectories"]),
        ("--teacher-trajectories a.npz --teacher-policy b", ["one teacher"]),
        ("", ["--teacher-policy", "--teacher-trajectories", "--train-teacher-steps"]),
    ],
)
def test_without_a_fitting_teacher_the_script_says_what_to_give(
    flags: str, words: list[str], tmp_path: Path
) -> None:
    """Exit status 2 before training, without a traceback."""
    output = tmp_path / "output"
    where = ["--run-dir", str(tmp_path / "run")]
    assert run_script("qdagger_dqn_atari_impalacnn", [*flags.split(), *where], output) == 2
    text = output.read_text()
    assert "Traceback" not in text
    assert [word for word in words if word not in text] == []


def test_the_recorder_refuses_what_plays_no_atari_game(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy of another kind is named in one sentence, and no file appears."""
    train("dqn", tmp_path / "run", "--smoke")
    out = tmp_path / "out.npz"
    assert record_trajectories.main([str(tmp_path / "run"), "--out", str(out)]) == 2
    assert "CartPole-v1" in capsys.readouterr().err
    assert not out.exists()
    assert not list(tmp_path.glob("*.tmp"))


def test_a_recording_is_a_plain_npz_file(recording: Path) -> None:
    """Anybody's NumPy reads it, without pickle."""
    assert zipfile.is_zipfile(recording)
    content = np.load(recording, allow_pickle=False)
    assert content["observations"].shape == (STEPS, 4, 84, 84)
    assert content["observations"].dtype == np.uint8
    assert str(content["env_id"]) == BREAKOUT
