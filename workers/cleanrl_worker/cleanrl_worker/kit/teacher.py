"""The teacher of an algorithm that learns from one: found, or trained first, and judged."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from gymnasium import spaces

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.frame_replay import FrameReplayBuffer
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.trajectories import Recording
from cleanrl_worker.kit.types import Batch, StateDict
from cleanrl_worker.running.bridge import without_bridge
from cleanrl_worker.running.evaluation import evaluate, load_policy


class TeacherArgs(Protocol):
    """What is used of a student's arguments."""

    env_id: str
    seed: int
    buffer_size: int
    batch_size: int
    teacher_policy: str | None
    teacher_trajectories: str | None
    train_teacher_steps: int
    teacher_eval_episodes: int


def find_teacher(args: TeacherArgs, run: Run, algorithm: str) -> Path:
    """The teacher's policy file, trained here when that was asked for.

    Args:
        args: `teacher_policy` names it, `train_teacher_steps` asks for one.
        run: The student's run; a teacher trained here goes into its directory.
        algorithm: Which algorithm the teacher is of.

    Raises:
        UsageError: There is neither.
    """
    if args.teacher_policy is not None:
        return Path(args.teacher_policy)
    if not args.train_teacher_steps:
        raise UsageError(
            f"{run.name} needs a teacher: name a trained {algorithm} policy with "
            "--teacher-policy <run-dir or .cleanrl_model file>, name an expert's recorded play "
            "with --teacher-trajectories <.npz file>, or have a teacher trained first with "
            "--train-teacher-steps 1000000."
        )
    folder = run.run_dir / "teacher"
    settings = {
        "env-id": args.env_id,
        "total-timesteps": args.train_teacher_steps,
        "learning-starts": args.train_teacher_steps // 2,
        "buffer-size": args.buffer_size,
        "batch-size": args.batch_size,
        "seed": args.seed,
        "run-dir": folder,
    }
    command = [sys.executable, "-m", f"cleanrl_worker.cleanrl.{algorithm}"]
    for flag, value in settings.items():
        command += [f"--{flag}", str(value)]
    # Its metrics would be taken for the student's, and its frames for the student's view.
    subprocess.run(command, check=True, env=without_bridge())
    return folder


def load_teacher(path: Path, args: TeacherArgs, algorithm: str) -> tuple[StateDict, float]:
    """The teacher's trained model and its average score.

    Args:
        path: Its policy file or run directory.
        args: `env_id` must be the teacher's, `teacher_eval_episodes` games judge it.
        algorithm: Which algorithm it must be of.

    Raises:
        UsageError: It is of another algorithm or environment.
    """
    content = load_policy(path)
    if content["algorithm"] != algorithm:
        raise UsageError(
            f"The teacher must be a policy of {algorithm}, but {path} is one of "
            f"{content['algorithm']}; train one with: python -m cleanrl_worker.cleanrl."
            f"{algorithm} --env-id {args.env_id}"
        )
    if content["env_id"] != args.env_id:
        raise UsageError(
            f"The teacher was trained on {content['env_id']}, this run is on {args.env_id}; "
            f"use --env-id {content['env_id']} or another teacher."
        )
    games = evaluate(path, episodes=args.teacher_eval_episodes, seed=args.seed)
    return content["model"], float(np.mean([game.episodic_return for game in games]))


@dataclass(frozen=True)
class _Recorded:
    """Stands for the one environment that a recording was made in, whatever the run has."""

    single_observation_space: spaces.Box
    num_envs: int = 1


def teacher_memory(args: TeacherArgs, envs: Batch, device: torch.device) -> FrameReplayBuffer:
    """The empty memory for what the teacher does, or did in its recording."""
    played_in = (
        envs if args.teacher_trajectories is None else _Recorded(envs.single_observation_space)
    )
    return FrameReplayBuffer(args.buffer_size, played_in, device)


def load_recording(args: TeacherArgs, envs: Batch, memory: FrameReplayBuffer) -> float:
    """Fill the teacher's memory from its recording.

    Args:
        args: `teacher_trajectories` names the file; of a longer one the newest steps stay.
        envs: What the student plays.
        memory: What `teacher_memory` made.

    Returns:
        The average score of the recorded games.

    Raises:
        UsageError: There is another teacher too, or the file cannot be learned from.
    """
    if args.teacher_policy is not None:
        raise UsageError(
            "There can be one teacher: leave out --teacher-policy or --teacher-trajectories."
        )
    recording = Recording(Path(str(args.teacher_trajectories)))
    recording.check(args.env_id, envs)
    for transition in recording:
        memory.add(*transition)
    return float(recording.scores.mean())
