"""Rainbow (Hessel et al., 2018) for Atari games.

DQN with six improvements together: double Q-learning, prioritized replay, a dueling network,
returns over several steps, a distribution over returns (C51), and noisy layers that explore.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cleanrl_worker.agents.nature_cnn import ScaledPixels
from cleanrl_worker.cleanrl.c51_atari import project
from cleanrl_worker.kit.acceleration import accelerated
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.atari import AtariEnvs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy, greedy_policy, numpy_forward
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.prioritized import PrioritizedFrameReplay
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.targets import follow

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
    """the smallest return the atoms cover"""
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


class DuelingNetwork(nn.Module):
    """A distribution over returns for each action: a common value plus an advantage."""

    def __init__(self, envs: AtariEnvs, args: Args) -> None:
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
        """Logits of the atoms, ``(batch, actions, atoms)``."""
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

    def __init__(self, network: DuelingNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, obs: Tensor) -> Tensor:
        return self.network(obs).softmax(dim=2) @ self.network.atoms


def make_eval_envs(args: Args, num_envs: int, video_dir: str | None) -> AtariEnvs:
    """Whole games with their true score."""
    return AtariEnvs(args.env_id, num_envs, learning=False, video_dir=video_dir)


def make_policy(envs: AtariEnvs, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation; without the noise of exploration."""
    q_network = DuelingNetwork(envs, args)
    q_network.load_state_dict(model["q_network"])
    q_network.eval()
    return greedy_policy(numpy_forward(ActionValues(q_network)), epsilon=0.01)


def train(args: Args, run: Run) -> None:
    if args.v_min >= args.v_max:
        raise UsageError(f"--v-min {args.v_min} must be below --v-max {args.v_max}.")
    envs = AtariEnvs(args.env_id, args.num_envs, video_dir=run.video_dir)
    run.check_spaces(envs)
    q_network = DuelingNetwork(envs, args).to(run.device)
    target_network = DuelingNetwork(envs, args).to(run.device)
    optimizer = Adam(q_network.parameters(), args.learning_rate, eps=1.5e-4)
    update_target = follow(target_network, q_network)
    memory = PrioritizedFrameReplay(
        args.buffer_size,
        envs,
        run.device,
        n_step=args.n_step,
        gamma=args.gamma,
        alpha=args.prioritized_replay_alpha,
        eps=args.prioritized_replay_eps,
    )
    each = torch.arange(args.batch_size, device=run.device)

    @torch.no_grad()
    def best_actions(frames: Tensor) -> Tensor:
        return (q_network(frames).softmax(dim=2) @ q_network.atoms).argmax(dim=1)

    def update(
        obs: Tensor,
        actions: Tensor,
        next_obs: Tensor,
        rewards: Tensor,
        dones: Tensor,
        discounts: Tensor,
        weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One step on a batch; how surprising each transition was, the loss, the mean value."""
        q_network.reset_noise()
        target_network.reset_noise()
        with torch.no_grad():
            # Double Q-learning: one network chooses the action, the other judges it
            best = (q_network(next_obs).softmax(dim=2) @ q_network.atoms).argmax(dim=1)
            next_pmfs = target_network(next_obs).softmax(dim=2)[each, best]
            target_pmfs = project(
                next_pmfs, rewards, dones, discounts.unsqueeze(1), q_network.atoms
            )
        logits = q_network(obs)[each, actions.squeeze(1)]
        errors = -(target_pmfs * logits.log_softmax(dim=1)).sum(dim=1)
        loss = (errors * weights).mean()

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        old_values = logits.detach().softmax(dim=1) @ q_network.atoms
        return errors.detach(), loss.detach(), old_values.mean()

    best_actions = accelerated(best_actions, args, run.device)
    update = accelerated(update, args, run.device)

    envs.reset(seed=args.seed)
    run.remember(
        {"q_network": q_network},
        target_network=target_network,
        optimizer=optimizer,
        memory=memory,
        envs=envs,
    )
    obs = envs.obs
    for global_step in run.steps(args.num_envs):
        # Act greedily: the noise in the network explores
        if global_step < args.learning_starts:
            # Updates draw new noise later; without it the memory would begin with one rigid policy
            q_network.reset_noise()
        actions = best_actions(torch.from_numpy(obs).to(run.device)).cpu().numpy()
        next_obs, rewards, terminated, _, info = envs.step(actions)
        if info:
            run.log_episodes(global_step, info)
        memory.add(obs, actions, rewards, terminated, info)
        obs = next_obs

        if global_step < args.learning_starts or global_step % args.train_frequency:
            continue
        fraction = global_step / args.total_timesteps
        beta = args.prioritized_replay_beta + fraction * (1 - args.prioritized_replay_beta)
        data = memory.sample_prioritized(args.batch_size, run.rng, beta)
        errors, loss, mean_value = update(
            data.obs,
            data.actions,
            data.next_obs,
            data.rewards,
            data.dones,
            data.discounts,
            data.weights,
        )
        memory.update_priorities(data.rows, errors.cpu().numpy())

        if global_step % 100 == 0:
            run.log(
                global_step,
                {
                    "losses/td_loss": loss.item(),
                    "losses/q_values": mean_value.item(),
                    "charts/beta": beta,
                },
            )
        if global_step % args.target_network_frequency == 0:
            update_target(args.tau)
    envs.close()


if __name__ == "__main__":
    main(Args, train)
