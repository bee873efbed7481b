"""Parallelised Q-Network, PQN (Gallici et al., 2024), for flat observations.

Q-learning without replay memory and without target network: rollouts of parallel
environments, Q(lambda) returns, and layer normalisation that keeps learning stable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.agents.layers import layer_init
from cleanrl_worker.kit.acceleration import accelerated
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy, greedy_policy, numpy_forward
from cleanrl_worker.kit.optim import RAdam
from cleanrl_worker.kit.returns import q_lambda_returns
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.schedules import linear_schedule
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.storage import Stored

ALGORITHM = {
    "title": "Parallelised Q-Network",
    "paper": "Gallici et al. 2024, https://arxiv.org/abs/2407.04811",
    "family": "variants",
    "actions": ["discrete"],
    "observations": ["vector"],
    "default_env": "CartPole-v1",
    "requires": ["base"],
}
SMOKE = {"total_timesteps": 2048}


@dataclass
class Args(TorchArgs):
    exp_name: str = "pqn"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "CartPole-v1"
    """the id of the environment"""
    total_timesteps: int = 500000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 2.5e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 4
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
    end_e: float = 0.05
    """the probability of a random action at the end [0,1]"""
    exploration_fraction: float = 0.5
    """the share of total-timesteps in which exploration falls from start-e to end-e (0,1]"""
    max_grad_norm: float = 10.0
    """the largest norm of a gradient [>0]"""
    q_lambda: float = 0.65
    """the lambda of the Q(lambda) returns [0,1]"""


class QNetwork(nn.Module):
    """From an observation to the value of each action, normalised after each layer."""

    def __init__(self, envs: Envs) -> None:
        super().__init__()
        self.network = nn.Sequential(
            layer_init(nn.Linear(math.prod(envs.single_observation_space.shape), 120)),
            nn.LayerNorm(120),
            nn.ReLU(),
            layer_init(nn.Linear(120, 84)),
            nn.LayerNorm(84),
            nn.ReLU(),
            layer_init(nn.Linear(84, int(envs.single_action_space.n))),
        )

    def forward(self, obs: Tensor) -> Tensor:
        return self.network(obs)


def make_policy(envs: Envs, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    q_network = QNetwork(envs)
    q_network.load_state_dict(model["q_network"])
    return greedy_policy(numpy_forward(q_network.network), epsilon=args.end_e)


def train(args: Args, run: Run) -> None:
    batch_size = args.num_envs * args.num_steps
    if batch_size % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide the batch of "
            f"{batch_size} (--num-envs {args.num_envs} times --num-steps {args.num_steps})."
        )
    minibatch_size = batch_size // args.num_minibatches
    num_iterations = args.total_timesteps // batch_size

    envs = run.make_envs(args.num_envs)
    q_network = QNetwork(envs).to(run.device)
    optimizer = RAdam(q_network.parameters(), args.learning_rate, max_grad_norm=args.max_grad_norm)
    q_values = numpy_forward(q_network.network)

    # Storage of one rollout
    shape = (args.num_steps, args.num_envs)
    obs = Stored((*shape, *envs.single_observation_space.shape), torch.float32, run.device)
    actions = Stored(shape, torch.int64, run.device)
    returns = Stored(shape, torch.float32, run.device)
    rewards = np.zeros(shape, np.float32)
    values = np.zeros(shape, np.float32)
    ends = np.zeros(shape, np.bool_)

    # The same, flattened
    b_obs = obs.tensor.flatten(0, 1)
    b_actions = actions.tensor.flatten()
    b_returns = returns.tensor.flatten()

    def update(rows: Tensor) -> tuple[Tensor, Tensor]:
        """Move the values of the actions taken towards their returns."""
        q = q_network(b_obs[rows])
        old_value = q.gather(1, b_actions[rows].unsqueeze(1)).squeeze(1)
        loss = nn.functional.mse_loss(old_value, b_returns[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), old_value.detach()

    update = accelerated(update, args, run.device)

    envs.reset(seed=args.seed)
    run.remember({"q_network": q_network}, optimizer=optimizer, envs=envs)
    next_obs = envs.obs
    for global_step in run.steps(batch_size):
        if args.anneal_lr:
            optimizer.lr = (1.0 - global_step / (num_iterations * batch_size)) * args.learning_rate

        # Collect a rollout, each environment at random with probability epsilon
        for t in range(args.num_steps):
            epsilon = linear_schedule(
                args.start_e,
                args.end_e,
                args.exploration_fraction * args.total_timesteps,
                global_step,
            )
            global_step += args.num_envs
            obs.array[t] = next_obs
            q = q_values(next_obs)
            values[t] = q.max(axis=1)
            chosen = q.argmax(axis=1)
            explore = run.rng.random(args.num_envs) < epsilon
            if explore.any():
                chosen[explore] = envs.sample_actions(run.rng)[explore]
            actions.array[t] = chosen
            next_obs, rewards[t], terminated, truncated, info = envs.step(chosen)
            ends[t] = terminated | truncated
            if info:
                # A truncated episode would have gone on: count the value it still had.
                cut_off = truncated & ~terminated
                if cut_off.any():
                    rewards[t] += args.gamma * cut_off * q_values(info["final_obs"]).max(axis=1)
                run.log_episodes(global_step, info)

        # Q(lambda) returns
        last_value = q_values(next_obs).max(axis=1)
        returns.array[:] = q_lambda_returns(
            rewards, values, last_value, ends, args.gamma, args.q_lambda
        )
        for stored in (obs, actions, returns):
            stored.send()

        for _ in range(args.update_epochs):
            order = torch.from_numpy(run.rng.permutation(batch_size)).to(run.device)
            for rows in order.split(minibatch_size):
                loss, old_value = update(rows)

        run.log(
            global_step,
            {
                "charts/learning_rate": optimizer.lr,
                "losses/td_loss": loss.item(),
                "losses/q_values": old_value.mean().item(),
            },
        )
    envs.close()


if __name__ == "__main__":
    main(Args, train)
