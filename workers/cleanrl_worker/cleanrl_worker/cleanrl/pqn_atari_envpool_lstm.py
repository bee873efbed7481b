"""PQN (Gallici et al., 2024) with an LSTM, for Atari games in EnvPool.

Q-learning without replay memory and without target network: rollouts of parallel
environments, Q(lambda) returns, and layer normalisation that keeps learning stable. The
network sees one frame at a time and remembers the past in an LSTM.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.agents.pixels import ScaledPixels
from cleanrl_worker.kit.acceleration import accelerator
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.envpool import EnvPoolEnvs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy, greedy_policy
from cleanrl_worker.kit.optim import RAdam
from cleanrl_worker.kit.recurrent import Recurrent, RecurrentPolicy
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.schedules import linear_schedule
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch

ALGORITHM = {
    "title": "Parallelised Q-Network with an LSTM, Atari in EnvPool",
    "paper": "Gallici et al. 2024, https://arxiv.org/abs/2407.04811",
    "family": "variants",
    "actions": ["discrete"],
    "observations": ["image"],
    "default_env": "Breakout-v5",
    "requires": ["base", "envpool"],
}
SMOKE = {"total_timesteps": 256, "num_envs": 2, "num_steps": 32, "num_minibatches": 2}

# What the LSTM remembers.
HIDDEN = 128


@dataclass
class Args(TorchArgs):
    exp_name: str = "pqn_atari_envpool_lstm"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "Breakout-v5"
    """the id of the environment"""
    total_timesteps: int = 10000000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 2.5e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 8
    """the number of parallel environments [>=1]"""
    num_steps: int = 128
    """the number of steps each environment takes in a rollout [>=1]"""
    num_minibatches: int = 4
    """the number of minibatches in an epoch [>=1]"""
    update_epochs: int = 4
    """the number of epochs in an update [>=1]"""
    anneal_lr: bool = True
    """if toggled, the learning rate falls to zero over the run"""
    gamma: float = 0.99
    """the discount factor [0,1]"""
    start_e: float = 1.0
    """the probability of a random action at the start [0,1]"""
    end_e: float = 0.01
    """the probability of a random action at the end [0,1]"""
    exploration_fraction: float = 0.1
    """the share of total-timesteps in which exploration falls from start-e to end-e (0,1]"""
    max_grad_norm: float = 0.5
    """the largest norm of a gradient [>0]"""
    q_lambda: float = 0.65
    """the lambda of the Q(lambda) returns [0,1]"""


def layer_init(layer: nn.Module, std: float = math.sqrt(2), bias: float = 0.0) -> nn.Module:
    """Orthogonal weights with gain `std` and a constant bias."""
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class QNetwork(nn.Module):
    """From an observation to the value of each action, normalised after each layer."""

    def __init__(self, envs: Batch) -> None:
        super().__init__()
        self.network = nn.Sequential(
            ScaledPixels(),
            layer_init(nn.Conv2d(envs.single_observation_space.shape[0], 32, 8, stride=4)),
            nn.LayerNorm([32, 20, 20]),
            nn.ReLU(),
            layer_init(nn.Conv2d(32, 64, 4, stride=2)),
            nn.LayerNorm([64, 9, 9]),
            nn.ReLU(),
            layer_init(nn.Conv2d(64, 64, 3, stride=1)),
            nn.LayerNorm([64, 7, 7]),
            nn.ReLU(),
            nn.Flatten(),
            layer_init(nn.Linear(64 * 7 * 7, 512)),
            nn.LayerNorm(512),
            nn.ReLU(),
        )
        self.lstm = nn.LSTM(512, HIDDEN)
        for name, parameter in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.constant_(parameter, 0.0)
            else:
                nn.init.orthogonal_(parameter, 1.0)
        self.q_func = layer_init(nn.Linear(HIDDEN, int(envs.single_action_space.n)))

    def forward(self, obs: Tensor, begins: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The value of each action, and what is remembered in the end.

        Rows are steps of some environments, all of the first step, then all of the second;
        `begins` is 1 where an episode begins and forgets what `state` remembers of the past.
        """
        features = self.network(obs).view(-1, state.shape[1], 512)
        memory, cell = state.unsqueeze(1)
        outputs = []
        for now, begin in zip(features, begins.view(-1, 1, state.shape[1], 1), strict=True):
            kept = (1.0 - begin) * memory, (1.0 - begin) * cell
            output, (memory, cell) = self.lstm(now.unsqueeze(0), kept)
            outputs.append(output)
        hidden = torch.cat(outputs).flatten(0, 1)
        return self.q_func(hidden), torch.cat([memory, cell])


def make_eval_envs(args: Args, num_envs: int, video_dir: str | None) -> EnvPoolEnvs:
    """Whole games with their true score."""
    return EnvPoolEnvs(args.env_id, num_envs, learning=False, video_dir=video_dir, stack_num=1)


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    q_network = QNetwork(envs)
    q_network.load_state_dict(model["q_network"])
    memory = Recurrent(q_network, HIDDEN, envs.num_envs, torch.device("cpu"))
    return RecurrentPolicy(memory, greedy_policy(lambda obs: memory(obs)[0], epsilon=args.end_e))


def train(args: Args, run: Run) -> None:
    batch_size = args.num_envs * args.num_steps
    envs_in_minibatch = args.num_envs // args.num_minibatches
    num_iterations = args.total_timesteps // batch_size
    if args.num_envs % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide --num-envs "
            f"{args.num_envs}: a minibatch holds whole rollouts of some environments."
        )

    envs = EnvPoolEnvs(args.env_id, args.num_envs, video_dir=run.video_dir, stack_num=1)
    run.check_spaces(envs)
    q_network = QNetwork(envs).to(run.device)
    optimizer = RAdam(q_network.parameters(), args.learning_rate)
    accelerate = accelerator(args, run.device)
    q_values = Recurrent(q_network, HIDDEN, args.num_envs, run.device)

    # Storage of one rollout; the last row of values belongs to the state after it
    shape = (args.num_steps, args.num_envs)
    obs = np.zeros((*shape, *envs.single_observation_space.shape), envs.obs.dtype)
    actions = np.zeros(shape, np.int64)
    rewards = np.zeros(shape, np.float32)
    begins = np.zeros(shape, np.float32)
    ends = np.zeros(shape, np.bool_)
    values = np.zeros((args.num_steps + 1, args.num_envs), np.float32)
    returns = np.zeros(shape, np.float32)

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember({"q_network": q_network}, optimizer=optimizer, envs=envs, memory=q_values)
    next_obs = envs.obs
    # Each turn takes batch_size steps; the loop also ends when the run is told to stop
    for global_step in run.steps(batch_size):
        if args.anneal_lr:
            optimizer.lr = (1.0 - global_step / (num_iterations * batch_size)) * args.learning_rate

        # Collect a rollout, each environment at random with probability epsilon
        first_state = q_values.state
        exploration_steps = args.exploration_fraction * args.total_timesteps
        for t in range(args.num_steps):
            epsilon = linear_schedule(args.start_e, args.end_e, exploration_steps, global_step)
            global_step += args.num_envs
            obs[t], begins[t] = next_obs, q_values.begins
            (q,) = q_values(next_obs)
            values[t] = q.max(axis=1)
            explore = run.rng.random(args.num_envs) < epsilon
            actions[t] = np.where(explore, envs.sample_actions(run.rng), q.argmax(axis=1))
            next_obs, rewards[t], terminated, truncated, info = envs.step(actions[t])
            ends[t] = terminated | truncated
            if info:
                # A truncated episode was not lost: add what its last state was still worth.
                cut_off = truncated & ~terminated
                if cut_off.any():
                    (final_q,) = q_values.look(info["final_obs"])
                    rewards[t] += args.gamma * cut_off * final_q.max(axis=1)
                run.log_episodes(global_step, info)
            q_values.reset(ends[t])
        (last_q,) = q_values.look(next_obs)
        values[-1] = last_q.max(axis=1)

        # Q(lambda) returns: R(t) = r(t) + gamma (lambda R(t+1) + (1 - lambda) max Q(t+1)); nothing
        # is added beyond the end of an episode
        goes_on = 1.0 - ends.astype(np.float32)
        following = values[-1]
        for t in reversed(range(args.num_steps)):
            following = args.q_lambda * following + (1 - args.q_lambda) * values[t + 1]
            returns[t] = following = rewards[t] + args.gamma * goes_on[t] * following

        # Flatten the batch
        b_obs = torch.from_numpy(obs).to(run.device).flatten(0, 1)
        b_begins = torch.from_numpy(begins).to(run.device).flatten()
        b_actions = torch.from_numpy(actions).to(run.device).flatten().unsqueeze(1)
        b_returns = torch.from_numpy(returns).to(run.device).flatten()
        batch = (b_obs, b_begins, b_actions, b_returns)

        @accelerate  # speed: --compile and --cudagraphs take this function as one piece
        def update(
            obs: Tensor, begins: Tensor, actions: Tensor, returns: Tensor, state: Tensor
        ) -> tuple[Tensor, ...]:
            """Move the values of the actions taken towards their returns."""
            q, _ = q_network(obs, begins, state)
            old_values = q.gather(1, actions).squeeze(1)
            loss = nn.functional.mse_loss(old_values, returns)
            optimizer.zero_grad()
            loss.backward()
            optimizer.clip_grad_norm_(args.max_grad_norm)
            optimizer.step()
            return loss.detach(), old_values.detach()

        # Learn from the rollout
        for _ in range(args.update_epochs):
            order = torch.from_numpy(run.rng.permutation(args.num_envs)).to(run.device)
            for some in order.split(envs_in_minibatch):
                # Whole rollouts, so that the memory can follow them through time
                rows = torch.arange(batch_size, device=run.device).view(shape)[:, some].flatten()
                minibatch = (tensor[rows] for tensor in batch)
                loss, old_values = update(*minibatch, first_state[:, some])

        run.log(
            global_step,
            {
                "charts/learning_rate": optimizer.lr,
                **envs.averages,
                "losses/td_loss": loss.item(),
                "losses/q_values": old_values.mean().item(),
            },
        )
    envs.close()


if __name__ == "__main__":
    main(Args, train)
