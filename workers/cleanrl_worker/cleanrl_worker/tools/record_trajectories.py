"""Records how a trained policy plays an Atari game, for QDagger's `--teacher-trajectories`.

    python -m cleanrl_worker.tools.record_trajectories runs/ppo-1 --out expert.npz --steps 100000

Any bundled Atari algorithm's policy can be recorded. `cleanrl_worker.kit.trajectories` says what
the file holds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from cleanrl_worker.kit.atari import AtariEnvs
from cleanrl_worker.kit.device import limit_threads
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.trajectories import Played, write_recording
from cleanrl_worker.running.evaluation import open_policy


def record(policy_path: Path, out: Path, steps: int, seed: int, epsilon: float) -> list[float]:
    """Play and write the recording.

    Args:
        policy_path: A `.cleanrl_model` file, a checkpoints folder or a run directory.
        out: The file to write.
        steps: How long to play.
        seed: Seeds the game and the policy's choices.
        epsilon: How often a random action takes the place of the policy's own.

    Returns:
        The scores of the games that were over.

    Raises:
        UsageError: It is not a policy that plays Atari games.
    """
    limit_threads(1)
    trained = open_policy(policy_path)
    envs = AtariEnvs(trained.args.env_id, 1)
    scores: list[float] = []

    def noting(play: Iterator[Played]) -> Iterator[Played]:
        for step in play:
            scores.extend(step.scores)
            yield step

    try:
        play = _play(envs, trained.rebuild(envs), steps, seed, epsilon)
        n_actions = int(envs.single_action_space.n)
        write_recording(out, trained.args.env_id, n_actions, steps, noting(play))
    finally:
        envs.close()
    return scores


def _play(
    envs: AtariEnvs, policy: Policy, steps: int, seed: int, epsilon: float
) -> Iterator[Played]:
    rng = Random(seed)
    obs = envs.reset(seed=seed)
    for _ in range(steps):
        actions = policy(obs, rng, False)
        if rng.random() < epsilon:
            actions = envs.sample_actions(rng)
        next_obs, rewards, terminated, truncated, info = envs.step(actions)
        scores = [score for score, _ in info["episodes"]] if info else []
        yield Played(obs[0], int(actions[0]), float(rewards[0]), bool(terminated[0]), scores)
        if info and hasattr(policy, "reset"):
            policy.reset(terminated | truncated)
        obs = next_obs


def main(arguments: Sequence[str] | None = None) -> int:
    """Record what the command line names; exit status 2 when that cannot be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("policy", type=Path, help="a .cleanrl_model file or a run directory")
    parser.add_argument("--out", type=Path, required=True, help="the .npz file to write")
    parser.add_argument("--steps", type=int, default=100_000, help="how long to play")
    parser.add_argument("--seed", type=int, default=1, help="seeds the game and the policy")
    parser.add_argument("--epsilon", type=float, default=0.0, help="share of random actions")
    options = parser.parse_args(arguments)
    if options.steps < 2:
        parser.error(f"--steps {options.steps} is too few: record 2 or more")
    if not 0 <= options.epsilon <= 1:
        parser.error(f"--epsilon {options.epsilon} is not a share: use 0 to 1")
    try:
        scores = record(options.policy, options.out, options.steps, options.seed, options.epsilon)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    average = f", {np.mean(scores):.1f} points on average" if scores else ""
    print(f"{options.out}: {options.steps} steps, {len(scores)} whole games{average}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
