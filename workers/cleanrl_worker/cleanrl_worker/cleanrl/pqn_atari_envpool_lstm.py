"""PQN (Gallici et al., 2024) with an LSTM, for Atari games in EnvPool.

Q-learning without replay memory and without target network: rollouts of parallel
environments, Q(lambda) returns, and layer normalisation that keeps learning stable. The
network sees one frame at a time and remembers the past in an LSTM.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.agents.layers import layer_init
from cleanrl_worker.agents.nature_cnn import ScaledPixels
from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.envpool import EnvPoolEnvs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy, greedy_policy
from cleanrl_worker.kit.optim import RAdam
from cleanrl_worker.kit.returns import q_lambda_returns
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.schedules import linear_schedule
from cleanrl_worker.kit.script import main

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
class Args(RunArgs):
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
    max_grad_norm: float = 10.0
    """the largest norm of a gradient [>0]"""
    q_lambda: float = 0.65
    """the lambda of the Q(lambda) returns [0,1]"""


class QNetwork(nn.Module):
    """From single frames and a memory of the past to the value of each action."""

    def __init__(self, envs: EnvPoolEnvs) -> None:
        super().__init__()
        self.network = nn.Sequential(
            ScaledPixels(),
            layer_init(nn.Conv2d(1, 32, 8, stride=4)),
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
        """Values of the actions along rollouts.

        Args:
            obs: frames, ``(steps, envs, 1, 84, 84)``.
            begins: 1 where an episode begins and the past is forgotten, ``(steps, envs)``.
            state: what is remembered at first, ``(2, envs, hidden)``.

        Returns:
            The values, ``(steps, envs, actions)``, and what is remembered at the end.
        """
        features = self.network(obs.flatten(0, 1)).view(*begins.shape, -1)
        hidden, cell = state.unsqueeze(1)
        outputs = []
        for now, begin in zip(features, begins, strict=True):
            goes_on = (1.0 - begin).view(1, -1, 1)
            output, (hidden, cell) = self.lstm(now[None], (goes_on * hidden, goes_on * cell))
            outputs.append(output)
        return self.q_func(torch.cat(outputs)), torch.cat([hidden, cell])


class Recurrent:
    """Acts one step at a time and remembers the past of each environment."""

    def __init__(self, q_network: QNetwork, num_envs: int, device: torch.device) -> None:
        self._q_network = q_network
        self._device = device
        self.state = torch.zeros(2, num_envs, HIDDEN, device=device)
        self.begins = np.ones(num_envs, np.float32)

    def values(self, obs: np.ndarray, *, keep: bool = True) -> np.ndarray:
        """The value of each action; without ``keep`` the memory stays as it was."""
        frames = torch.from_numpy(obs).to(self._device)[None]
        begins = torch.from_numpy(self.begins).to(self._device)[None]
        with torch.no_grad():
            values, state = self._q_network(frames, begins, self.state)
        if keep:
            self.state = state
            self.begins = np.zeros_like(self.begins)
        return values[0].cpu().numpy()

    def reset(self, ended: np.ndarray) -> None:
        """Forget the past where an episode ended."""
        self.begins = ended.astype(np.float32)

    def state_dict(self) -> dict:
        """The memory."""
        return {"state": self.state, "begins": self.begins}

    def load_state_dict(self, state: dict) -> None:
        """Put the memory back."""
        self.state = state["state"].to(self._device)
        self.begins = state["begins"].numpy().copy()


class GreedyRecurrent:
    """The trained policy: the best action, or now and then a random one."""

    def __init__(self, memory: Recurrent, epsilon: float) -> None:
        self._memory = memory
        self._epsilon = epsilon
        self.reset = memory.reset

    def __call__(self, obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray:
        act = greedy_policy(self._memory.values, self._epsilon)
        return act(obs, rng, deterministic)


def make_eval_envs(args: Args, num_envs: int, video_dir: str | None) -> EnvPoolEnvs:
    """Whole games with their true score."""
    return EnvPoolEnvs(args.env_id, num_envs, learning=False, video_dir=video_dir, stack_num=1)


def make_policy(envs: EnvPoolEnvs, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    q_network = QNetwork(envs)
    q_network.load_state_dict(model["q_network"])
    memory = Recurrent(q_network, envs.num_envs, torch.device("cpu"))
    return GreedyRecurrent(memory, args.end_e)


def train(args: Args, run: Run) -> None:
    batch_size = args.num_envs * args.num_steps
    if args.num_envs % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide --num-envs "
            f"{args.num_envs}: a minibatch holds whole rollouts of some environments."
        )
    envs_in_minibatch = args.num_envs // args.num_minibatches
    num_iterations = args.total_timesteps // batch_size

    envs = EnvPoolEnvs(args.env_id, args.num_envs, video_dir=run.video_dir, stack_num=1)
    run.check_spaces(envs)
    q_network = QNetwork(envs).to(run.device)
    optimizer = RAdam(q_network.parameters(), args.learning_rate, max_grad_norm=args.max_grad_norm)
    memory = Recurrent(q_network, args.num_envs, run.device)

    # Storage of one rollout
    shape = (args.num_steps, args.num_envs)
    obs = np.zeros((*shape, *envs.single_observation_space.shape), envs.obs.dtype)
    actions = np.zeros(shape, np.int64)
    rewards = np.zeros(shape, np.float32)
    values = np.zeros(shape, np.float32)
    begins = np.zeros(shape, np.float32)
    ends = np.zeros(shape, np.bool_)

    envs.reset(seed=args.seed)
    run.remember({"q_network": q_network}, optimizer=optimizer, memory=memory, envs=envs)
    next_obs = envs.obs
    for global_step in run.steps(batch_size):
        if args.anneal_lr:
            optimizer.lr = (1.0 - global_step / (num_iterations * batch_size)) * args.learning_rate

        first_state = memory.state
        # Collect a rollout, each environment at random with probability epsilon
        for t in range(args.num_steps):
            epsilon = linear_schedule(
                args.start_e,
                args.end_e,
                args.exploration_fraction * args.total_timesteps,
                global_step,
            )
            global_step += args.num_envs
            obs[t], begins[t] = next_obs, memory.begins
            q = memory.values(next_obs)
            values[t] = q.max(axis=1)
            explore = run.rng.random(args.num_envs) < epsilon
            actions[t] = np.where(explore, envs.sample_actions(run.rng), q.argmax(axis=1))
            next_obs, rewards[t], terminated, truncated, info = envs.step(actions[t])
            ends[t] = terminated | truncated
            if info:
                # A truncated episode would have gone on: count the value it still had.
                cut_off = truncated & ~terminated
                if cut_off.any():
                    final_value = memory.values(info["final_obs"], keep=False).max(axis=1)
                    rewards[t] += args.gamma * cut_off * final_value
                memory.reset(ends[t])
                run.log_episodes(global_step, info)

        # Q(lambda) returns
        last_value = memory.values(next_obs, keep=False).max(axis=1)
        returns = q_lambda_returns(rewards, values, last_value, ends, args.gamma, args.q_lambda)

        # Move the values of the actions taken towards their returns
        b_obs = torch.from_numpy(obs).to(run.device)
        b_begins = torch.from_numpy(begins).to(run.device)
        b_actions = torch.from_numpy(actions).to(run.device).unsqueeze(2)
        b_returns = torch.from_numpy(returns).to(run.device)
        for _ in range(args.update_epochs):
            permutation = torch.from_numpy(run.rng.permutation(args.num_envs)).to(run.device)
            for mb in permutation.split(envs_in_minibatch):
                q, _ = q_network(b_obs[:, mb], b_begins[:, mb], first_state[:, mb])
                old_value = q.gather(2, b_actions[:, mb]).squeeze(2)
                loss = nn.functional.mse_loss(old_value, b_returns[:, mb])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

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
