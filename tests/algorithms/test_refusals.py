"""Bad input is refused before training, in one sentence that says how to fix it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleanrl_worker.running.verification import run_script

REFUSALS = [
    ("dqn", "--env-id Pendulum-v1", ["discrete", "CartPole-v1", "sac_continuous_action"]),
    ("sac_continuous_action", "--env-id CartPole-v1", ["continuous", "Pendulum-v1", "dqn"]),
    ("dqn", "--env-id MiniGrid-Empty-5x5-v0", ["grid", "(7, 7, 3)", "ppo"]),
    ("ppo", "--num-minibatches 3", ["--num-minibatches 3", "512"]),
    ("pqn", "--num-envs 3 --num-steps 5", ["does not divide", "15"]),
    ("dqn", "--buffer-size 4000000000000", ["GiB", "use at most --buffer-size"]),
    ("ppo", "--cuda", ["CUDA", "leave --cuda out"]),
    ("ppo", "--env-id CartPole-v9", ["CartPole-v9"]),
    ("ppo", "--env-id CartPol-v1", ["CartPole-v1"]),
    ("ppo", "--lerning-rate 1", ["--learning-rate"]),
    ("ppo", "--gamma 1.5", ["--gamma", "at most 1"]),
    ("ppo", "--num-envs four", ["--num-envs", "whole number", "four"]),
    ("ppo", "--anneal-lr perhaps", ["--anneal-lr takes true or false, not 'perhaps'"]),
    ("ppo", "--total-timesteps 100", ["--total-timesteps 512"]),
    ("c51", "--v-min 5 --v-max 5", ["--v-min 5 must be below --v-max, which is 5"]),
    ("rainbow_atari", "--v-min 50", ["--v-min 50 must be below --v-max, which is 10"]),
    ("sac_continuous_action", "--no-autotune --alpha 0", ["--alpha", "above 0"]),
    ("sac_atari", "--no-autotune --alpha 0", ["--alpha", "above 0"]),
    ("dqn_atari", "--buffer-size 8", ["--buffer-size 8", "at least 9"]),
    ("ppo", "--resume nowhere", ["no valid checkpoint", "nowhere"]),
]


@pytest.mark.parametrize(("algorithm", "flags", "words"), REFUSALS)
def test_refused_with_a_sentence(
    algorithm: str, flags: str, words: list[str], tmp_path: Path
) -> None:
    """Exit status 2, no traceback, no run started, and the sentence names the way out."""
    output = tmp_path / "output"
    run_dir = tmp_path / "run"
    status = run_script(algorithm, [*flags.split(), "--run-dir", str(run_dir)], output)
    text = output.read_text()
    assert status == 2, text
    assert "Traceback" not in text
    assert [word for word in words if word not in text] == []
    assert not run_dir.exists()


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    """A command line with three mistakes is refused with three sentences."""
    output = tmp_path / "output"
    run_script("ppo", ["--gama", "1", "--num-envs", "0", "--seed", "x"], output)
    text = output.read_text()
    assert "--gamma" in text
    assert "--num-envs must be at least 1" in text
    assert "--seed takes a whole number" in text
