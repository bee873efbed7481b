"""Rainbow (Hessel et al., 2018) for Atari games.

DQN with six improvements together: double Q-learning, prioritized replay, a dueling network,
returns over several steps, a distribution over returns (C51), and noisy layers that explore.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cleanrl_worker.agents.pixels import ScaledPixels
from cleanrl_worker.kit.acceleration import accelerator
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.atari import AtariEnvs
from cleanrl_worker.kit.inference import Policy, greedy_policy, numpy_forward
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.prioritized import PrioritizedFrameReplay
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch
from cleanrl_worker.kit.weights import load_weights

ALGORITHM = {
    "title": "Rainbow, Atari",
    "paper": "Hessel et al. 2018, https://arxiv.org/abs/1710.02298",
    "family": "Q-learning",
    "actions": ["discrete"],
    "observations": ["image"],
    "default_env": "BreakoutNoFrameskip-v4",
    "requires": ["base", "atari"],
}
SMOKE = {"total_timesteps": 320, "learning_starts": 100, "buffer_size": 250, "batch_size": 8}


@dataclass
class Args(TorchArgs):
    exp_name: str = "rainbow_atari"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "BreakoutNoFrameskip-v4"
    """the id of the environment"""
    total_timesteps: int = 10000000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 0.0000625
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 1
    """the number of parallel environments; prioritized replay holds one [1,1]"""
    buffer_size: int = 1000000
    """the number of frames in the replay memory [>=1]"""
    gamma: float = 0.99
    """the discount factor [0,1]"""
    tau: float = 1.0
    """how far the target network moves at an update; 1 copies (0,1]"""
    target_network_frequency: int = 8000
    """steps between two updates of the target network [>=1]"""
    batch_size: int = 32
    """the number of transitions in an update [>=1]"""
    learning_starts: int = 80000
    """the step at which learning starts [>=0]"""
    train_frequency: int = 4
    """steps between two updates [>=1]"""
    n_step: int = 3
    """over how many steps rewards are summed [>=1]"""
    prioritized_replay_alpha: float = 0.5
    """how much priorities matter in drawing transitions [0,1]"""
    prioritized_replay_beta: float = 0.4
    """how much of the bias of prioritizing is corrected at the start; all of it at the end [0,1]"""
    prioritized_replay_eps: float = 1e-6
    """the smallest priority [>0]"""
    n_atoms: int = 51
    """the number of atoms of the return distribution [>=2]"""
    v_min: float = -10.0
    """the smallest return the atoms cover [<v_max]"""
    v_max: float = 10.0
    """the largest return the atoms cover"""


class NoisyLinear(nn.Module):
    """A linear layer with learned noise on its weights (Fortunato et al., 2018)."""

    def __init__(self, inputs: int, outputs: int, std_init: float = 0.5) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight_mu = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias_mu = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), std_init * bound))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), std_init / math.sqrt(outputs)))
        self.register_buffer("noise_in", torch.zeros(inputs))
        self.register_buffer("noise_out", torch.zeros(outputs))
        self.reset_noise()

    @torch.no_grad()
    def reset_noise(self) -> None:
        """Draw new noise: one number for each input and output, not for each weight."""
        for noise in (self.noise_in, self.noise_out):
            noise.normal_()
            noise.copy_(noise.sign() * noise.abs().sqrt())

    def forward(self, rows: Tensor) -> Tensor:
        # (mu + sigma * outer(out, in)) x, without forming the outer product
        steady = nn.functional.linear(rows, self.weight_mu, self.bias_mu)
        if not self.training:
            return steady
        noisy = nn.functional.linear(rows * self.noise_in, self.weight_sigma) * self.noise_out
        return steady + noisy + self.bias_sigma * self.noise_out


class QNetwork(nn.Module):
    """A distribution over returns for each action: a common value plus an advantage."""

    def __init__(self, envs: Batch, args: Args) -> None:
        super().__init__()
        self.n_actions = int(envs.single_action_space.n)
        self.n_atoms = args.n_atoms
        self.register_buffer("atoms", torch.linspace(args.v_min, args.v_max, args.n_atoms))
        self.trunk = nn.Sequential(
            ScaledPixels(),
            nn.Conv2d(envs.single_observation_space.shape[0], 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
        ).to(memory_format=torch.channels_last)
        self.value = nn.Sequential(
            NoisyLinear(3136, 512), nn.ReLU(), NoisyLinear(512, self.n_atoms)
        )
        self.advantage = nn.Sequential(
            NoisyLinear(3136, 512), nn.ReLU(), NoisyLinear(512, self.n_actions * self.n_atoms)
        )

    def forward(self, obs: Tensor) -> Tensor:
        """Logits of the atoms, `(batch, actions, atoms)`."""
        features = self.trunk(obs)
        value = self.value(features).view(-1, 1, self.n_atoms)
        advantage = self.advantage(features).view(-1, self.n_actions, self.n_atoms)
        return value + advantage - advantage.mean(dim=1, keepdim=True)

    def reset_noise(self) -> None:
        """Draw new noise in all noisy layers."""
        for layer in (*self.value, *self.advantage):
            if isinstance(layer, NoisyLinear):
                layer.reset_noise()


class ActionValues(nn.Module):
    """The expected return of each action."""

    def __init__(self, q_network: QNetwork) -> None:
        super().__init__()
        self.q_network = q_network

    def forward(self, obs: Tensor) -> Tensor:
        return self.q_network(obs).softmax(dim=2) @ self.q_network.atoms


def project(
    next_pmfs: Tensor, rewards: Tensor, dones: Tensor, discounts: Tensor, atoms: Tensor
) -> Tensor:
    """The distribution of R + gamma^n Z': each atom moves, and its mass goes to its neighbours."""
    v_min, v_max = atoms[0], atoms[-1]
    delta_z = (v_max - v_min) / (len(atoms) - 1)
    next_atoms = rewards.unsqueeze(1) + discounts.unsqueeze(1) * atoms * (1 - dones).unsqueeze(1)
    b = (next_atoms.clamp(v_min, v_max) - v_min) / delta_z
    lower = b.floor().clamp(0, len(atoms) - 1)
    upper = (lower + 1).clamp(max=len(atoms) - 1)
    to_upper = (b - lower) * next_pmfs
    target = torch.zeros_like(next_pmfs)
    target.scatter_add_(1, lower.long(), next_pmfs - to_upper)
    target.scatter_add_(1, upper.long(), to_upper)
    return target


def make_eval_envs(args: Args, num_envs: int, video_dir: str | None) -> AtariEnvs:
    """Whole games with their true score."""
    return AtariEnvs(args.env_id, num_envs, learning=False, video_dir=video_dir)


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation; without the noise of exploration."""
    q_network = QNetwork(envs, args)
    load_weights(q_network, model["q_network"])
    q_network.eval()
    return greedy_policy(numpy_forward(ActionValues(q_network)), epsilon=0.01)


def train(args: Args, run: Run) -> None:
    envs = AtariEnvs(args.env_id, args.num_envs, video_dir=run.video_dir)
    run.check_spaces(envs)
    q_network = QNetwork(envs, args).to(run.device)
    optimizer = Adam(q_network.parameters(), args.learning_rate, eps=1.5e-4)
    # Targets come from a copy that lags behind, so that learning does not chase its own estimates
    target_network = QNetwork(envs, args).to(run.device).requires_grad_(False)
    target_network.load_state_dict(q_network.state_dict())
    # Steps in a row are much alike; batches are drawn from a memory that mixes many of them
    memory = PrioritizedFrameReplay(args.buffer_size, envs, run.device, n_step=args.n_step)
    q_values = ActionValues(q_network)
    each = torch.arange(args.batch_size, device=run.device)
    powers = args.gamma ** torch.arange(args.n_step, device=run.device)
    accelerate = accelerator(args, run.device)

    @accelerate  # speed: --compile and --cudagraphs take such functions as one piece
    @torch.no_grad()
    def best_actions(obs: Tensor) -> Tensor:
        return q_values(obs).argmax(dim=1)

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember(
        {"q_network": q_network},
        target_network=target_network,
        optimizer=optimizer,
        memory=memory,
        envs=envs,
    )
    obs = envs.obs
    # Each turn takes num_envs steps; the loop also ends when the run is told to stop
    for global_step in run.steps(args.num_envs):
        # Act greedily: the noise in the network explores
        if global_step < args.learning_starts:
            # Updates draw new noise later; without it the memory would begin with one rigid policy
            q_network.reset_noise()
        actions = best_actions(torch.from_numpy(obs).to(run.device)).cpu().numpy()
        next_obs, rewards, terminated, _, info = envs.step(actions)
        if info:
            run.log_episodes(global_step, info)

        # Remember the frames; where a game ended, info has the last one.
        # Only `terminated` ends the future: an episode that ran out of time could have gone on
        memory.add(obs, actions, rewards, terminated, info)
        obs = next_obs
        # Nothing is learned before there is enough to learn from
        if global_step < args.learning_starts or not memory.ready:
            continue

        # Learn, every so many steps
        if global_step % args.train_frequency == 0:

            @accelerate
            def update(
                obs: Tensor,
                actions: Tensor,
                next_obs: Tensor,
                rewards: Tensor,
                dones: Tensor,
                steps: Tensor,
                weights: Tensor,
            ) -> tuple[Tensor, Tensor, Tensor]:
                """Move Z(s, a) towards R + gamma^n Z'(s', a'); R is the sum over n steps."""
                q_network.reset_noise()
                target_network.reset_noise()
                with torch.no_grad():
                    # Double Q-learning: one network chooses the action, the other judges it
                    best = q_values(next_obs).argmax(dim=1)
                    next_pmfs = target_network(next_obs).softmax(dim=2)[each, best]
                    returns = (rewards * powers).sum(dim=1)
                    discounts = args.gamma**steps
                    target_pmfs = project(next_pmfs, returns, dones, discounts, q_network.atoms)
                log_pmfs = q_network(obs)[each, actions.squeeze(1)].log_softmax(dim=1)
                errors = -(target_pmfs * log_pmfs).sum(dim=1)
                loss = (errors * weights).mean()

                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                old_value = log_pmfs.detach().exp() @ q_network.atoms
                return errors.detach(), loss.detach(), old_value.mean()

            # Prioritized replay: what was surprising is drawn more often, and weighs as much less;
            # the share beta of that bias which is corrected grows to all of it
            fraction = global_step / args.total_timesteps
            beta = args.prioritized_replay_beta + fraction * (1 - args.prioritized_replay_beta)
            data = memory.sample(args.batch_size, run.rng)
            weights = data.chances**-beta
            errors, loss, old_value = update(
                data.obs,
                data.actions,
                data.next_obs,
                data.rewards,
                data.dones,
                data.steps,
                weights / weights.max(),
            )
            priorities = (errors + args.prioritized_replay_eps) ** args.prioritized_replay_alpha
            memory.update_priorities(data.rows, priorities.cpu().numpy())
            if global_step % 100 == 0:
                run.log(
                    global_step,
                    {
                        "losses/td_loss": loss.item(),
                        "losses/q_values": old_value.item(),
                        "charts/beta": beta,
                    },
                )

        # The target network follows: target <- tau * network + (1 - tau) * target
        if global_step % args.target_network_frequency == 0:
            with torch.no_grad():
                for target, source in zip(
                    target_network.parameters(), q_network.parameters(), strict=True
                ):
                    target.lerp_(source, args.tau)
    envs.close()


if __name__ == "__main__":
    main(Args, train)
