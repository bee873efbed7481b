"""Evaluation beside training: judged on seeds it never sees, and training does not notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.programs.evaluate_beside import typical
from cleanrl_worker.running import checkpoint_files, checkpoints
from cleanrl_worker.running.beside import SideEvaluator, first_held_out
from cleanrl_worker.running.evaluation import Episode, evaluate
from cleanrl_worker.running.verification import train
from mosaic.runs.metrics import MetricReader

STEPS = ("--total-timesteps", "2048", "--num-envs", "4", "--num-steps", "64")
ROLES = ("best", "median", "worst")
JUDGED = ("--eval-every", "1000", "--eval-episodes", "3", "--keep-checkpoints", "best,last:1")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run whose policies were evaluated beside it."""
    run_dir = tmp_path_factory.mktemp("beside") / "judged"
    command = [sys.executable, "-m", "cleanrl_worker.cleanrl.ppo", "--run-dir", str(run_dir)]
    # As the worker starts it: only then it writes the curves that the window draws.
    variables = {**os.environ, "MOSAIC_RUN_DIR": str(run_dir)}
    subprocess.run([*command, *STEPS, *JUDGED], env=variables, check=True)
    return run_dir


def summary(run_dir: Path, step: int) -> dict[str, Any]:
    """What one evaluation wrote."""
    text = (run_dir / "evaluations" / f"step-{step}.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def test_each_mark_and_the_end_are_judged_at_the_step_they_belong_to(judged: Path) -> None:
    """The evaluation curve has a point at every mark and at the end, with its interval."""
    reader = MetricReader(judged)
    for tag in ("evaluation/return", "evaluation/return_low", "evaluation/return_sampled_high"):
        assert reader.read(tag)["step"].tolist() == [1024, 2048], tag
    for step in (1024, 2048):
        numbers = summary(judged, step)["deterministic"]
        assert len(numbers["returns"]) == 3
        assert numbers["low"] <= numbers["mean"] <= numbers["high"]
    assert not list((judged / "evaluations" / "waiting").iterdir())


def test_the_evaluation_equals_one_that_is_made_afterwards(judged: Path) -> None:
    """Anyone can play the held-out seeds again, one by one, and gets the same returns."""
    final = judged / "checkpoints" / "step-2048.cleanrl_model"
    numbers = summary(judged, 2048)
    seeds = summary(judged, 2048)["seeds"]
    assert seeds == [2_000_000_000, 2_000_000_001, 2_000_000_002]
    for kind, deterministic in (("deterministic", True), ("sampled", False)):
        again = [
            evaluate(final, episodes=1, seed=int(seed), deterministic=deterministic)[0]
            for seed in seeds
        ]
        assert [one.episodic_return for one in again] == numbers[kind]["returns"]


def test_training_is_the_same_with_and_without_it(judged: Path, tmp_path: Path) -> None:
    """Judging policies changes no weight of the run that is judged."""
    train("ppo", tmp_path, *STEPS)
    name = "checkpoints/step-2048.cleanrl_model"
    with_it, without = checkpoints.load(judged / name), checkpoints.load(tmp_path / name)
    ours, theirs = with_it["model"]["agent"], without["model"]["agent"]
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


def test_the_best_checkpoint_is_marked_and_kept(judged: Path) -> None:
    """The best policy is kept as a file, and `best` keeps its whole checkpoint."""
    best = json.loads((judged / "evaluations" / "best.json").read_text())
    scores = {step: summary(judged, step)["deterministic"]["mean"] for step in (1024, 2048)}
    assert best["step"] == max(scores, key=lambda step: (scores[step], step))
    [policy] = (judged / "evaluations" / "best").glob("*.cleanrl_model")
    assert checkpoints.load(policy)["step"] == best["step"]
    assert evaluate(policy.parent, episodes=1) == evaluate(policy, episodes=1)
    kept = {path.name for path in (judged / "checkpoints").glob("*.state")}
    assert kept == {f"step-{best['step']}.state", "step-2048.state"}


def test_the_recorded_episodes_say_what_happened_inside(judged: Path) -> None:
    """Best, median and worst have a video, and for each step what the policy considered."""
    folder = judged / "evaluations" / "step-2048"
    returns = sorted(summary(judged, 2048)["deterministic"]["returns"])
    listed = {one["role"]: one["file"] for one in summary(judged, 2048)["recorded"]}
    assert listed.keys() == {*ROLES, "first"}
    found = {role: json.loads((folder.parent / listed[role]).read_text()) for role in ROLES}
    assert [found[role]["return"] for role in ROLES] == [returns[-1], returns[1], returns[0]]
    for one in found.values():
        steps = one["length"]
        assert (folder / one["video"]).stat().st_size > 1000
        assert one["scores_are"] == "probabilities"
        each = ("actions", "rewards", "scores", "values")
        assert all(len(one[name]) == steps for name in each)
        # With the best action: the one that was taken was the likeliest.
        likeliest = [row.index(max(row)) for row in one["scores"]]
        assert likeliest == one["actions"]
        assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in one["scores"])


@pytest.mark.prove
@pytest.mark.parametrize(
    ("algorithm", "flags"),
    [
        ("ppo_atari", ("--env-id", "mosaic/Catch-v0")),
        ("dqn_atari", ("--env-id", "mosaic/Catch-v0")),
        ("ppo_atari_lstm", ("--env-id", "mosaic/Catch-v0")),
        ("sac_atari", ("--env-id", "mosaic/Catch-v0")),
        ("dqn_jax", ()),
        ("td3_continuous_action_jax", ()),
        ("ppo_atari_envpool", ()),
        ("ppo_atari_envpool_xla_jax", ()),
        ("pqn_atari_envpool_lstm", ()),
        ("ppo_procgen", ()),
        ("ppo_ondevice", ()),
        ("sac_ondevice", ()),
        ("ppo_rnn_ondevice", ()),
        ("ppo_atari_multigpu", ("--env-id", "mosaic/Catch-v0")),
    ],
)
def test_every_family_can_be_judged_beside_training(
    tmp_path: Path, algorithm: str, flags: tuple[str, ...]
) -> None:
    """Pixels, JAX, EnvPool and environments on the device: judged, filmed, and told the same by
    an evaluation that is made afterwards."""
    # Never reached in so short a run: the policy of its end is judged, and that is enough here.
    judged = ("--eval-every", "1000000", "--eval-episodes", "1", "--smoke")
    train(algorithm, tmp_path / "run", *judged, *flags)
    final = checkpoint_files.find(tmp_path / "run", checkpoint_files.POLICY_SUFFIX)[0]
    step = checkpoints.load(final)["step"]
    numbers = summary(tmp_path / "run", step)
    assert (tmp_path / "run" / "evaluations" / "best.json").exists()
    assert all(one["repeated"] for one in numbers["recorded"])
    [seed] = numbers["seeds"]
    [again] = evaluate(final, episodes=1, seed=seed, max_steps=27_000)
    assert numbers["deterministic"]["returns"] == [again.episodic_return]


@pytest.mark.prove
def test_a_compiled_loop_stops_at_the_steps_that_are_judged(tmp_path: Path) -> None:
    """However many turns the machine manages in one call, the same policies are judged."""
    flags = ("--num-envs", "4", "--num-steps", "16", "--total-timesteps", "6400")
    judged = ("--eval-every", "1600", "--eval-episodes", "1", "--no-eval-videos")
    train("ppo_ondevice", tmp_path / "run", *flags, *judged)
    found = {int(path.stem[5:]) for path in (tmp_path / "run" / "evaluations").glob("step-*.json")}
    assert found == {1600, 3200, 4800, 6400}


def test_best_median_and_worst_are_chosen_by_return() -> None:
    """The typical episodes are those of their ranks; of equals the first is the best."""
    episodes = [Episode(place, total, 0.0, 1, False) for place, total in enumerate([3, 9, 1, 9, 5])]
    assert typical(episodes) == {"best": 1, "median": 4, "worst": 2, "first": 0}


def test_held_out_seeds_are_never_those_of_training() -> None:
    """Even a run with the seed 2,000,000,000 is judged on others."""
    assert first_held_out(1) == 2_000_000_000
    assert first_held_out(2_000_000_000) == 3_000_000_000
    assert first_held_out(1_999_999_990) == 3_000_000_000


def test_the_other_process_gives_way(tmp_path: Path) -> None:
    """The process that judges has the lowest priority, and is gone once it is stopped."""
    evaluator = SideEvaluator(RunArgs(eval_every=10), tmp_path, print)
    evaluator.start(0)
    assert not evaluator.passed_mark(9)
    assert evaluator.passed_mark(10)
    evaluator.offer(10, {"model": {}})
    process = evaluator._process
    assert process is not None
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
    evaluator.stop()
    assert process.returncode is not None
