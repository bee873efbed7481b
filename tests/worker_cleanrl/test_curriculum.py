"""Curricula: environments change without restarting the loop, and nonsense is refused first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import harness

from cleanrl_worker.wrappers.curriculum import PRESETS, Stage, read_schedule

SMALL = json.dumps(
    [
        {"env_id": "MiniGrid-Empty-5x5-v0", "episodes": 3},
        {"env_id": "MiniGrid-Empty-6x6-v0", "steps": 400, "condition": "episode_return >= 0.99"},
        {"env_id": "MiniGrid-Empty-8x8-v0"},
    ]
)
TRAIN = ("--algo", "ppo", "--curriculum", SMALL)
FLAGS = ("--", "--num-envs", "2", "--num-steps", "64")


def test_stages_follow_each_other_and_a_resumed_run_goes_on_in_its_stage(tmp_path: Path) -> None:
    """Each stage is an event; counters, weights and environments of a resumed run are those of
    the uninterrupted one, and the policy belongs to the last stage's environment."""
    total = ("--total-timesteps", "1536")
    stages = harness.run(tmp_path / "whole", *TRAIN, *total, *FLAGS).events("curriculum_stage")
    assert [stage["stage"] for stage in stages] == [0, 1, 2]
    assert [stage["env_id"][-6:] for stage in stages] == ["5x5-v0", "6x6-v0", "8x8-v0"]
    assert stages[1]["episodes"] >= 3
    # Where the charts mark them.
    assert stages[0]["step"] == 0
    assert 0 < stages[1]["step"] < stages[2]["step"] < 1536
    assert stages[2]["steps"] - stages[1]["steps"] >= 400
    harness.run(tmp_path / "half", *TRAIN, *total, *FLAGS, "--stop-at", "768")
    resume = ("--resume", str(tmp_path / "half"), "--curriculum", SMALL)
    rest_of_it = harness.run(tmp_path / "rest", *resume, *total)
    assert rest_of_it.events("curriculum_stage")[-1]["stage"] == 2
    whole, rest = (harness.newest_state(tmp_path / name) for name in ("whole", "rest"))
    assert whole["env_id"] == "MiniGrid-Empty-8x8-v0"
    assert whole["objects"]["envs"]["curriculum"] == rest["objects"]["envs"]["curriculum"]
    assert harness.equal(whole["policy"], rest["policy"])


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        ("BABYAI_GOTO_CURRICULM", "did you mean 'BABYAI_GOTO_CURRICULUM'"),
        ([{"env_id": "CartPole-v1"}], "at least two stages"),
        ([{"env_id": "CartPole-v1", "stps": 5}, {"env_id": "CartPole-v1"}], "did you mean 'steps'"),
        ([{"env_id": "CartPol-v1"}, {"env_id": "CartPole-v1"}], "did you mean 'CartPole-v1'"),
        (
            [{"env_id": "CartPole-v1", "condition": "steps>5&x"}, {"env_id": "CartPole-v1"}],
            "allowed: steps>=N, episodes>=N, episode_return>=X",
        ),
        ([{"env_id": "CartPole-v1", "steps": 0}, {"env_id": "CartPole-v1"}], "0 was given"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(
    tmp_path: Path, schedule: object, sentence: str
) -> None:
    """With the stage, what is allowed and the nearest name."""
    text = schedule if isinstance(schedule, str) else json.dumps(schedule)
    arguments = ("--algo", "ppo", "--curriculum", text, "--total-timesteps", "1024")
    assert sentence in harness.refuse(tmp_path / "no", *arguments)


def test_an_algorithm_that_makes_its_environments_itself_refuses_a_curriculum(
    tmp_path: Path,
) -> None:
    """It would train in one environment only, and say nothing about it."""
    arguments = ("--algo", "ppo_atari", "--curriculum", SMALL, "--total-timesteps", "1024")
    said = harness.refuse(tmp_path / "no", *arguments)
    assert "follows no curriculum" in said
    assert "ppo_trxl" in said


def test_environments_that_one_agent_cannot_act_in_are_refused(tmp_path: Path) -> None:
    """Spaces are compared before training, in the dry run and in the training process."""
    schedule = json.dumps([{"env_id": "CartPole-v1"}, {"env_id": "Acrobot-v1"}])
    arguments = ("--algo", "ppo", "--curriculum", schedule, "--total-timesteps", "1024")
    said = harness.refuse(tmp_path / "dry", *arguments, "--dry-run")
    assert "one agent cannot learn both" in said
    worker = harness.start(tmp_path / "run", *arguments)
    assert worker.wait() == 1
    assert "one agent cannot learn both" in worker.events("run_failed")[0]["reason"]
    assert not list((tmp_path / "run").glob("checkpoints/*"))


def test_one_lucky_episode_does_not_end_a_stage() -> None:
    """A return counts as the mean of the last twenty episodes; steps and episodes as they are."""
    from cleanrl_worker.wrappers.tasks import StageKeeper

    told: list[dict[str, object]] = []
    stages = [Stage("a", "episode_return>=0.5|episodes>=100"), Stage("b", "steps>=1")]
    keeper = StageKeeper(stages, told.append)
    assert keeper.next_task() == 0
    for total in [1.0, *([0.0] * 11), *([1.0] * 10)]:
        assert keeper.stage == 0
        keeper.episode(0, total, 10)
    assert keeper.stage == 1
    assert [event["stage"] for event in told] == [0, 1]


@pytest.mark.parametrize("preset", PRESETS)
def test_the_presets_can_be_trained(tmp_path: Path, preset: str) -> None:
    """Four stages of environments that exist and that one agent can act in."""
    arguments = ("--algo", "ppo", "--curriculum", preset, "--total-timesteps", "800000")
    worker = harness.run(tmp_path / "dry", *arguments, "--dry-run")
    assert worker.said().count("stage: ") == len(read_schedule(preset)) == 4
