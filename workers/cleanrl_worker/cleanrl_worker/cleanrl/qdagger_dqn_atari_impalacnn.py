"""QDagger (Agarwal et al., 2022): a DQN student with an IMPALA network takes over from a teacher.

Three phases of one schedule: the teacher plays and fills a memory; the student learns offline
from that memory, by Q-learning and by imitating the teacher's preferences; then the student
plays itself, and imitation fades as its score approaches the teacher's.

The teacher is a trained DQN, or only a recording of an expert's play. A recording has no
preferences to imitate, only what was done: the student raises the likelihood of the recorded
actions, in the recorded states, also while it plays itself.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.agents.pixels import ScaledPixels
from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.atari import AtariEnvs
from cleanrl_worker.kit.frame_replay import FrameReplayBuffer
from cleanrl_worker.kit.inference import Policy, greedy_policy, numpy_forward
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.replay import Batch
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.schedules import linear_schedule
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.teacher import find_teacher, load_recording, load_teacher, teacher_memory
from cleanrl_worker.kit.weights import load_weights

TEACHER = "dqn_atari"
ALGORITHM = {
    "title": "QDagger: DQN with an IMPALA network, taught by a trained DQN, Atari",
    "paper": "Agarwal et al. 2022, https://arxiv.org/abs/2206.01626",
    "family": "Q-learning",
    "actions": ["discrete"],
    "observations": ["image"],
    "default_env": "BreakoutNoFrameskip-v4",
    "requires": ["base", "atari"],
}
SMOKE = {
    "train_teacher_steps": 160,
    "teacher_steps": 100,
    "teacher_eval_episodes": 1,
    "offline_steps": 20,
    "total_timesteps": 240,
    "learning_starts": 130,
    "buffer_size": 400,
    "batch_size": 4,
}


@dataclass
class Args(RunArgs):
    exp_name: str = "qdagger_dqn_atari_impalacnn"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "BreakoutNoFrameskip-v4"
    """the id of the environment"""
    total_timesteps: int = 11000000
    """total steps of all three phases: teacher-steps, offline-steps, the rest online [>=1]"""
    learning_rate: float = 1e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 1
    """the number of parallel environments [>=1]"""
    buffer_size: int = 1000000
    """the number of frames in each of the two replay memories [>=1]"""
    gamma: float = 0.99
    """the discount factor [0,1]"""
    tau: float = 1.0
    """how far the target network moves at an update; 1 copies (0,1]"""
    target_network_frequency: int = 1000
    """steps between two updates of the target network [>=1]"""
    batch_size: int = 32
    """the number of transitions in an update [>=1]"""
    start_e: float = 1.0
    """the probability of a random action when the student begins to play [0,1]"""
    end_e: float = 0.01
    """the probability of a random action at the end [0,1]"""
    exploration_fraction: float = 0.1
    """the share of total-timesteps in which exploration falls from start-e to end-e (0,1]"""
    learning_starts: int = 1080000
    """the step at which learning from the student's own play starts [>=0]"""
    train_frequency: int = 4
    """steps between two updates while the student plays [>=1]"""

    # QDagger specific arguments
    teacher_policy: str | None = None
    """the teacher: a .cleanrl_model file of dqn_atari, or its run directory"""
    teacher_trajectories: str | None = None
    """in place of a teacher's policy: an .npz file of an expert's recorded play"""
    train_teacher_steps: int = 0
    """without a teacher, train one with dqn_atari for so many steps first [>=0]"""
    teacher_eval_episodes: int = 10
    """games by which the teacher's score is judged [>=1]"""
    teacher_steps: int = 500000
    """steps that the teacher plays to fill its memory, ever less at random [>=1]"""
    offline_steps: int = 500000
    """updates of the student on the teacher's memory [>=1]"""
    temperature: float = 1.0
    """how sharply the teacher's preferences are imitated; smaller is sharper [>0]"""


class TeacherNetwork(nn.Module):
    """The network of dqn_atari, which the teacher was trained with."""

    def __init__(self, envs: AtariEnvs) -> None:
        super().__init__()
        self.network = nn.Sequential(
            ScaledPixels(),
            nn.Conv2d(envs.single_observation_space.shape[0], 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * 7 * 7, 512),
            nn.ReLU(),
            nn.Linear(512, int(envs.single_action_space.n)),
        )

    def forward(self, obs: Tensor) -> Tensor:
        return self.network(obs)


class ResidualBlock(nn.Module):
    """Two convolutions that learn a change to what came in."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, maps: Tensor) -> Tensor:
        return maps + self.conv1(self.conv0(maps.relu()).relu())


def conv_sequence(channels: int, outputs: int) -> nn.Sequential:
    """A convolution, a pooling that halves width and height, and two residual blocks."""
    return nn.Sequential(
        nn.Conv2d(channels, outputs, 3, padding=1),
        nn.MaxPool2d(3, stride=2, padding=1),
        ResidualBlock(outputs),
        ResidualBlock(outputs),
    )


class QNetwork(nn.Module):
    """From stacked frames to the value of each action, with the trunk of IMPALA."""

    def __init__(self, envs: AtariEnvs) -> None:
        super().__init__()
        trunk = nn.Sequential(
            ScaledPixels(),
            conv_sequence(envs.single_observation_space.shape[0], 16),
            conv_sequence(16, 32),
            conv_sequence(32, 32),
            nn.Flatten(),
            nn.ReLU(),
            nn.Linear(32 * 11 * 11, 256),
            nn.ReLU(),
        )
        self.network = nn.Sequential(trunk, nn.Linear(256, int(envs.single_action_space.n)))

    def forward(self, obs: Tensor) -> Tensor:
        return self.network(obs)


class Progress:
    """The scores that decide how much the student still imitates."""

    def __init__(self, teacher_return: float) -> None:
        self.teacher_return = teacher_return
        self.student_returns: deque[float] = deque(maxlen=10)

    def distill_coeff(self) -> float:
        """1 while the student is far behind, 0 once it has caught up."""
        if len(self.student_returns) < 10 or self.teacher_return == 0:
            return 1.0
        return max(1.0 - float(np.mean(self.student_returns)) / self.teacher_return, 0.0)

    def state_dict(self) -> dict:
        """Both sides' scores."""
        return {"teacher": self.teacher_return, "student": list(self.student_returns)}

    def load_state_dict(self, state: dict) -> None:
        """Put the scores back."""
        self.teacher_return = state["teacher"]
        self.student_returns = deque(state["student"], maxlen=10)


def make_eval_envs(args: Args, num_envs: int, video_dir: str | None) -> AtariEnvs:
    """Whole games with their true score."""
    return AtariEnvs(args.env_id, num_envs, learning=False, video_dir=video_dir)


def make_policy(envs: AtariEnvs, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    q_network = QNetwork(envs)
    load_weights(q_network, model["q_network"])
    return greedy_policy(numpy_forward(q_network.network), epsilon=args.end_e)


def train(args: Args, run: Run) -> None:
    envs = AtariEnvs(args.env_id, args.num_envs, video_dir=run.video_dir)
    run.check_spaces(envs)
    recorded = args.teacher_trajectories is not None
    teacher, progress = TeacherNetwork(envs), Progress(0.0)
    taught = teacher_memory(args, envs, run.device)
    if recorded and not run.resumed:
        # The recording is the first phase, played already
        progress.teacher_return = load_recording(args, envs, taught)
        run.step = args.teacher_steps
    elif not run.resumed:
        model, progress.teacher_return = load_teacher(
            find_teacher(args, run, TEACHER), args, TEACHER
        )
        load_weights(teacher, model["q_network"])
    teacher = teacher.to(run.device).requires_grad_(False)
    q_network = QNetwork(envs).to(run.device)
    optimizer = Adam(q_network.parameters(), args.learning_rate)
    # Targets come from a copy that lags behind, so that learning does not chase its own estimates
    target_network = QNetwork(envs).to(run.device).requires_grad_(False)
    target_network.load_state_dict(q_network.state_dict())
    # Steps in a row are much alike; batches are drawn from a memory that mixes many of them
    memory = FrameReplayBuffer(args.buffer_size, envs, run.device)
    n_actions = int(envs.single_action_space.n)
    act, teacher_act = numpy_forward(q_network.network), numpy_forward(teacher.network)

    def preferences(data: Batch) -> Tensor:
        """How likely the teacher takes each action; certain of what it was recorded to do."""
        if recorded:
            return nn.functional.one_hot(data.actions.squeeze(1), n_actions).float()
        return (teacher(data.obs) / args.temperature).softmax(dim=1)

    def update(data: Batch, shown: Batch) -> tuple[Tensor, ...]:
        """One step of Q-learning from `data` and of imitation in the states of `shown`."""
        with torch.no_grad():
            target_max = target_network(data.next_obs).amax(dim=1)
            td_target = data.rewards + args.gamma * target_max * (1 - data.dones)
            teacher_pi = preferences(shown)
        student_values = q_network(data.obs)
        old_value = student_values.gather(1, data.actions).squeeze(1)
        q_loss = nn.functional.mse_loss(old_value, td_target)
        imitating = student_values if shown is data else q_network(shown.obs)
        student_log_pi = (imitating / args.temperature).log_softmax(dim=1)
        distill_loss = -(teacher_pi * student_log_pi).sum(dim=1).mean()
        loss = q_loss + progress.distill_coeff() * distill_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, q_loss, distill_loss, old_value.mean()

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember(
        {"q_network": q_network},
        teacher=teacher,
        target_network=target_network,
        optimizer=optimizer,
        teacher_memory=taught,
        memory=memory,
        progress=progress,
        envs=envs,
    )
    obs = envs.obs
    online_from = args.teacher_steps + args.offline_steps
    # Each turn takes num_envs steps; the loop also ends when the run is told to stop
    for global_step in run.steps(args.num_envs):
        teaching, offline = global_step < args.teacher_steps, global_step < online_from
        if teaching or not offline:
            # Play: first the teacher, later the student, both at random less and less often
            if teaching:
                epsilon = linear_schedule(args.start_e, args.end_e, args.teacher_steps, global_step)
            else:
                duration = args.exploration_fraction * args.total_timesteps
                since = global_step - online_from
                epsilon = linear_schedule(args.start_e, args.end_e, duration, since)
            if run.rng.random() < epsilon:
                actions = envs.sample_actions(run.rng)
            else:
                actions = (teacher_act if teaching else act)(obs).argmax(axis=1)
            next_obs, rewards, terminated, _, info = envs.step(actions)
            if info:
                scores = [score for score, _ in info["episodes"]]
                if teaching:
                    # The run's own curve is the student's: it begins when the student plays
                    run.log(global_step, {"charts/teacher/episodic_return": float(np.mean(scores))})
                else:
                    run.log_episodes(global_step, info)
                    progress.student_returns.extend(scores)
                run.log(global_step, {"charts/epsilon": epsilon})
            played = taught if teaching else memory
            played.add(obs, actions, rewards, terminated, info)
            obs = next_obs
            if teaching or global_step < args.learning_starts:
                continue

        # Learn: offline from what the teacher did, in every turn; later from the student's own play
        source = taught if offline else memory
        if source.ready and (offline or global_step % args.train_frequency < args.num_envs):
            data = source.sample(args.batch_size, run.rng)
            shown = taught.sample(args.batch_size, run.rng) if recorded and not offline else data
            loss, q_loss, distill_loss, q_value = update(data, shown)
            if global_step % 100 < args.num_envs:
                numbers = {
                    "losses/loss": loss.item(),
                    "losses/td_loss": q_loss.item(),
                    "losses/distill_loss": distill_loss.item(),
                    "losses/q_values": q_value.item(),
                    "charts/distill_coeff": progress.distill_coeff(),
                    "charts/teacher/avg_episodic_return": progress.teacher_return,
                }
                if offline:
                    numbers |= {
                        "charts/offline/loss": loss.item(),
                        "charts/offline/q_loss": q_loss.item(),
                        "charts/offline/distill_loss": distill_loss.item(),
                    }
                run.log(global_step, numbers)

        # The target network follows: target <- tau * network + (1 - tau) * target
        if global_step % args.target_network_frequency < args.num_envs:
            with torch.no_grad():
                for target, network in zip(
                    target_network.parameters(), q_network.parameters(), strict=True
                ):
                    target.lerp_(network, args.tau)
    envs.close()


if __name__ == "__main__":
    main(Args, train)
