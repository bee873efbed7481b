"""Behaviour cloning (Pomerleau, 1989): learn to act as an expert did, from recorded episodes.

Each turn takes one gradient step that makes the expert's actions likelier in the states in which
they were taken. Beside it the policy plays a step in the environment. Nothing is learned from that;
the curve of its returns shows how far the imitation carries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.agents.minigrid import MinigridAgent
from cleanrl_worker.kit.acceleration import accelerator
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.demonstrations import read_demonstrations
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.fused import Sequential
from cleanrl_worker.kit.inference import Policy, categorical_policy, gaussian_policy
from cleanrl_worker.kit.normalize import NormalizeObservation
from cleanrl_worker.kit.observations import is_image
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.spaces import action_kind
from cleanrl_worker.kit.types import Batch

ALGORITHM = {
    "title": "Behaviour cloning",
    "paper": "Pomerleau 1989, https://papers.nips.cc/paper/95",
    "family": "imitation",
    "actions": ["discrete", "continuous"],
    "observations": ["vector", "grid"],
    "default_env": "CartPole-v1",
    "requires": ["base", "minari"],
}
SMOKE = {"total_timesteps": 400, "dataset": "example"}


@dataclass
class Args(TorchArgs):
    exp_name: str = "bc"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "CartPole-v1"
    """the id of the environment"""
    total_timesteps: int = 10000
    """total timesteps of the experiment: gradient steps times environments [>=1]"""
    dataset: str | None = None
    """the expert's episodes: a Minari data set's id or folder, or `example` for CartPole's"""
    learning_rate: float = 1e-3
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 1
    """the number of parallel environments in which the policy is watched [>=1]"""
    batch_size: int = 128
    """the number of recorded steps in a minibatch [>=1]"""
    holdout: float = 0.1
    """the share of the recorded steps that is not learned from but measured [0,0.9]"""
    smoothing: float = 0.1
    """the share of discrete actions that is taken to be anything, so that doubt remains [0,1)"""
    min_std: float = 0.1
    """the smallest standard deviation of continuous actions (0,1]"""
    log_every: int = 100
    """the number of turns between two reports of the losses [>=1]"""


def layer_init(layer: nn.Module, std: float = math.sqrt(2), bias: float = 0.0) -> nn.Module:
    """Orthogonal weights with gain `std` and a constant bias."""
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


def make_network(inputs: int, outputs: int) -> Sequential:
    """The policy's network, with the layers and names of PPO's, which can begin with it."""
    # speed: `Sequential` is `nn.Sequential`, quicker, and acts on NumPy arrays
    return Sequential(
        layer_init(nn.Linear(inputs, 64)),
        nn.Tanh(),
        layer_init(nn.Linear(64, 64)),
        nn.Tanh(),
        layer_init(nn.Linear(64, outputs), std=0.01),
    )


class DiscreteAgent(nn.Module):
    """Action logits."""

    def __init__(self, envs: Batch) -> None:
        super().__init__()
        inputs = math.prod(envs.single_observation_space.shape)
        self.actor = make_network(inputs, int(envs.single_action_space.n))


class ContinuousAgent(nn.Module):
    """A Gaussian with a learned standard deviation."""

    def __init__(self, envs: Batch) -> None:
        super().__init__()
        inputs = math.prod(envs.single_observation_space.shape)
        outputs = math.prod(envs.single_action_space.shape)
        self.actor_mean = make_network(inputs, outputs)
        self.actor_logstd = nn.Parameter(torch.zeros(outputs))


def make_agent(envs: Batch) -> DiscreteAgent | ContinuousAgent | MinigridAgent:
    """The agent for these actions, with convolutions for the grids of MiniGrid and BabyAI."""
    if action_kind(envs.single_action_space) == "continuous":
        return ContinuousAgent(envs)
    return MinigridAgent(envs) if is_image(envs.single_observation_space) else DiscreteAgent(envs)


def act_with(agent: nn.Module) -> Policy:
    """How the agent acts."""
    if isinstance(agent, ContinuousAgent):
        return gaussian_policy(agent.actor_mean, agent.actor_logstd)
    return categorical_policy(agent.actor)


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation, with the statistics it was trained with."""
    agent = make_agent(envs)
    agent.load_state_dict(model["agent"])
    act = act_with(agent)
    if "obs_rms" not in model:
        return act
    statistics = NormalizeObservation(envs)
    statistics.rms.load_state_dict(model["obs_rms"])
    return lambda obs, rng, deterministic: act(statistics.normalize(obs), rng, deterministic)


def likelihood(
    agent: nn.Module, obs: Tensor, actions: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The log-probability of each action, and the policy's mean entropy.

    With `smoothing` an action is taken to be the expert's only so often, and otherwise any: a
    policy without doubt tries nothing, and what tries nothing cannot be improved.
    """
    if isinstance(agent, ContinuousAgent):
        logstd = agent.actor_logstd
        distance = (actions - agent.actor_mean(obs)) / logstd.exp()
        log_probs = -0.5 * distance.square() - logstd - 0.5 * math.log(2 * math.pi)
        return log_probs.sum(-1), (logstd + 0.5 * math.log(2 * math.pi * math.e)).sum()
    logits = agent(obs)[0] if isinstance(agent, MinigridAgent) else agent.actor(obs)
    all_probs = logits.log_softmax(-1)
    entropy = -(all_probs.exp() * all_probs).sum(-1).mean()
    chosen = all_probs.gather(1, actions.unsqueeze(1)).squeeze(1)
    return (1 - smoothing) * chosen + smoothing * all_probs.mean(-1), entropy


def train(args: Args, run: Run) -> None:
    if args.dataset is None:
        raise UsageError(
            "bc needs episodes to learn from: --dataset <a Minari data set's id or folder>; make "
            "one of a game that you played with `mosaic export RUN --minari cartpole/me-v0`, or "
            "try it with --dataset example."
        )

    envs = run.make_envs(args.num_envs)
    demonstrations = read_demonstrations(args.dataset, args.env_id, envs)
    agent = make_agent(envs).to(run.device)
    optimizer = Adam(agent.parameters(), args.learning_rate, eps=1e-5)
    accelerate = accelerator(args, run.device)
    policy = {"agent": agent}
    if isinstance(agent, ContinuousAgent):
        # As PPO for continuous actions does it; here the whole of the data is known beforehand.
        envs = NormalizeObservation(envs)
        envs.rms.update(demonstrations.observations)
        envs.frozen = True
        policy["obs_rms"] = envs.rms
        demonstrations = demonstrations.with_observations(envs.normalize)
    act = act_with(agent)

    # A few steps are kept apart: how well they are foretold says whether more data would help
    order = np.random.default_rng(args.seed).permutation(len(demonstrations.actions))
    learned = max(1, round(len(order) * (1 - args.holdout)))
    d_obs = torch.from_numpy(demonstrations.observations[order]).to(run.device)
    d_actions = torch.from_numpy(demonstrations.actions[order]).to(run.device)

    @accelerate  # speed: --compile and --cudagraphs take this function as one piece
    def update(obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """One gradient step on a minibatch; the loss and the entropy."""
        log_probs, entropy = likelihood(agent, obs, actions, args.smoothing)
        bc_loss = -log_probs.mean()
        optimizer.zero_grad()
        bc_loss.backward()
        optimizer.step()
        return bc_loss.detach(), entropy.detach()

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember(policy, optimizer=optimizer, envs=envs, demonstrations=demonstrations)
    obs = envs.obs
    # Each turn takes num_envs steps; the loop also ends when the run is told to stop
    for global_step in run.steps(args.num_envs):
        # Watch the policy
        obs, _, _, _, info = envs.step(act(obs, run.rng, deterministic=True))
        if info:
            run.log_episodes(global_step, info)

        # Learn from a minibatch of the expert's steps
        rows = torch.from_numpy(run.rng.integers(learned, size=args.batch_size)).to(run.device)
        bc_loss, entropy = update(d_obs[rows], d_actions[rows])
        if isinstance(agent, ContinuousAgent):
            with torch.no_grad():
                agent.actor_logstd.clamp_(min=math.log(args.min_std))

        if global_step // args.num_envs % args.log_every == 0:
            losses = {"losses/bc_loss": bc_loss.item(), "losses/entropy": entropy.item()}
            if learned < len(order):
                with torch.no_grad():
                    foretold, _ = likelihood(agent, d_obs[learned:], d_actions[learned:])
                losses["losses/holdout_loss"] = -foretold.mean().item()
            run.log(global_step, losses)
    envs.close()


if __name__ == "__main__":
    main(Args, train)
