"""Phasic Policy Gradient (Cobbe et al., 2021) for Procgen.

Two phases take turns. The policy phase is PPO, but the value head learns on features that
its gradient does not touch. After several such iterations the auxiliary phase teaches the
shared features what the value is, on everything collected, while a penalty keeps the policy
where it was.

Procgen's levels are drawn from endlessly many by default; `--num-levels` trains on a
fixed set, as for measuring how well a policy carries over to levels it never saw.
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
from cleanrl_worker.kit.inference import Policy, categorical_policy, heads, on_arrays
from cleanrl_worker.kit.normalize import NormalizeReward
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.replay import refuse_if_larger_than_memory
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch

ALGORITHM = {
    "title": "Phasic Policy Gradient, Procgen",
    "paper": "Cobbe et al. 2021, https://arxiv.org/abs/2009.04416",
    "family": "variants",
    "actions": ["discrete"],
    "observations": ["image"],
    "default_env": "starpilot",
    "requires": ["base", "procgen"],
}
SMOKE = {
    "total_timesteps": 384,
    "num_envs": 2,
    "num_steps": 32,
    "n_iteration": 2,
    "e_auxiliary": 1,
    "num_aux_rollouts": 2,
}


@dataclass
class Args(TorchArgs):
    exp_name: str = "ppg_procgen"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "starpilot"
    """the game, such as starpilot, or EnvPool's id for it, such as StarpilotHard-v0"""
    distribution_mode: str = "easy"
    """how difficult the levels of a game given by name are [easy|hard]"""
    num_levels: int = 0
    """how many different levels there are; 0 for no end [>=0]"""
    start_level: int = 0
    """the first of these levels [>=0]"""
    total_timesteps: int = 25000000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 5e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 64
    """the number of parallel environments [>=1]"""
    num_steps: int = 256
    """the number of steps each environment takes in a rollout [>=1]"""
    anneal_lr: bool = False
    """if toggled, the learning rate falls to zero over the run"""
    gamma: float = 0.999
    """the discount factor [0,1]"""
    gae_lambda: float = 0.95
    """the lambda of generalised advantage estimation [0,1]"""
    num_minibatches: int = 8
    """the number of minibatches in an epoch [>=1]"""
    adv_norm_fullbatch: bool = True
    """if toggled, advantages are normalised over the whole batch, not in each minibatch"""
    clip_coef: float = 0.2
    """the clipping coefficient of the surrogate objective [>0]"""
    clip_vloss: bool = True
    """if toggled, the value loss is clipped like the policy's"""
    ent_coef: float = 0.01
    """the weight of the entropy bonus [>=0]"""
    vf_coef: float = 0.5
    """the weight of the value loss [>=0]"""
    max_grad_norm: float = 0.5
    """the largest norm of a gradient [>0]"""
    target_kl: float | None = None
    """stop an update early when the policy has moved this far [>0]"""

    # Phasic arguments, with the paper's symbols
    n_iteration: int = 32
    """N_pi: the number of policy iterations in a phase [>=1]"""
    e_policy: int = 1
    """E_pi: the number of epochs in a policy iteration [>=1]"""
    v_value: int = 1
    """E_V: the same for the value; it learns together with the policy, so as many [>=1]"""
    e_auxiliary: int = 6
    """E_aux: the number of epochs in the auxiliary phase [>=1]"""
    beta_clone: float = 1.0
    """the weight of the penalty on changes of the policy in the auxiliary phase [>=0]"""
    num_aux_rollouts: int = 4
    """the number of environments' rollouts in a minibatch of the auxiliary phase [>=1]"""
    n_aux_grad_accum: int = 1
    """the number of minibatches whose gradients are added up in the auxiliary phase [>=1]"""


def layer_init_normed(layer: nn.Module, dims: tuple[int, ...], scale: float) -> nn.Module:
    """Weights whose norm for each output is `scale`, and no bias, as PPG begins."""
    norm = layer.weight.data.norm(dim=dims, p=2, keepdim=True)
    layer.weight.data *= scale / norm
    layer.bias.data.zero_()
    return layer


def conv_init(channels: int, outputs: int, scale: float) -> nn.Module:
    """A convolution that keeps width and height."""
    return layer_init_normed(nn.Conv2d(channels, outputs, 3, padding=1), (1, 2, 3), scale)


class ResidualBlock(nn.Module):
    """Two convolutions that learn a change to what came in."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        # Three sequences of two blocks each: their changes add up to about the norm of one.
        scale = math.sqrt(1 / math.sqrt(3) / math.sqrt(2))
        self.conv0 = conv_init(channels, channels, scale)
        self.conv1 = conv_init(channels, channels, scale)

    def forward(self, maps: Tensor) -> Tensor:
        return maps + self.conv1(self.conv0(maps.relu()).relu())


def conv_sequence(channels: int, outputs: int) -> nn.Sequential:
    """A convolution, a pooling that halves width and height, and two residual blocks."""
    return nn.Sequential(
        conv_init(channels, outputs, 1.0),
        nn.MaxPool2d(3, stride=2, padding=1),
        ResidualBlock(outputs),
        ResidualBlock(outputs),
    )


class Agent(nn.Module):
    """One trunk, three heads: action logits, the value, and the value that teaches the trunk."""

    def __init__(self, envs: Batch) -> None:
        super().__init__()
        self.network = nn.Sequential(
            ScaledPixels(),
            conv_sequence(envs.single_observation_space.shape[0], 16),
            conv_sequence(16, 32),
            conv_sequence(32, 32),
            nn.Flatten(),
            nn.ReLU(),
            layer_init_normed(nn.Linear(32 * 8 * 8, 256), (1,), scale=1.4),
            nn.ReLU(),
        )
        actions = int(envs.single_action_space.n)
        self.actor = layer_init_normed(nn.Linear(256, actions), (1,), scale=0.1)
        self.critic = layer_init_normed(nn.Linear(256, 1), (1,), scale=0.1)
        self.aux_critic = layer_init_normed(nn.Linear(256, 1), (1,), scale=0.1)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Action logits, state values and auxiliary values.

        The value's gradient stops before the trunk; only the auxiliary value's reaches it.
        """
        hidden = self.network(obs)
        value = self.critic(hidden.detach())
        return self.actor(hidden), value.flatten(), self.aux_critic(hidden).flatten()


class AuxiliaryMemory:
    """What the policy phase saw: observations and returns of every environment's rollouts."""

    def __init__(self, args: Args, envs: Batch) -> None:
        rollouts = args.n_iteration * args.num_envs
        rollout = (args.num_steps, *envs.single_observation_space.shape)
        layout = {"obs": ((args.num_envs, *rollout), np.uint8)}
        refuse_if_larger_than_memory(args.n_iteration, layout, "--n-iteration")
        self.obs = np.zeros((rollouts, *rollout), np.uint8)
        self.returns = np.zeros((rollouts, args.num_steps), np.float32)
        self.filled = 0

    def add(self, obs: np.ndarray, returns: np.ndarray) -> None:
        """Keep one rollout of each environment, `(steps, envs, ...)`."""
        which = slice(self.filled, self.filled + returns.shape[1])
        self.obs[which] = obs.swapaxes(0, 1)
        self.returns[which] = returns.T
        self.filled = which.stop

    def state_dict(self) -> dict:
        """What is stored, without the empty rest."""
        return {"obs": self.obs[: self.filled], "returns": self.returns[: self.filled]}

    def load_state_dict(self, state: dict) -> None:
        """Put it back."""
        self.filled = len(state["returns"])
        self.obs[: self.filled] = state["obs"].numpy()
        self.returns[: self.filled] = state["returns"].numpy()


def make_eval_envs(args: Args, num_envs: int, video_dir: str | None) -> EnvPoolEnvs:
    """The levels it was trained on, with their true rewards."""
    return EnvPoolEnvs(
        args.env_id,
        num_envs,
        video_dir=video_dir,
        distribution_mode=args.distribution_mode,
        num_levels=args.num_levels,
        start_level=args.start_level,
    )


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    agent = Agent(envs)
    agent.load_state_dict(model["agent"])
    return categorical_policy(*heads(agent.network, agent.actor, agent.critic))


def learn_features(
    args: Args, run: Run, agent: Agent, optimizer: Adam, memory: AuxiliaryMemory
) -> dict[str, float]:
    """The auxiliary phase: teach the trunk the value, hold the policy where it is.

    Returns:
        The losses of the last minibatch, by name.
    """
    with torch.no_grad():
        old_logits = torch.stack(
            [agent(torch.from_numpy(obs).to(run.device))[0] for obs in memory.obs]
        )
    old_log_probs = old_logits.log_softmax(-1)
    optimizer.zero_grad()
    accumulated = 0
    for _ in range(args.e_auxiliary):
        permutation = run.rng.permutation(memory.filled)
        for rollouts in np.split(permutation, memory.filled // args.num_aux_rollouts):
            m_obs = torch.from_numpy(memory.obs[rollouts]).to(run.device).flatten(0, 1)
            m_returns = torch.from_numpy(memory.returns[rollouts]).to(run.device).flatten()
            m_log_probs = old_log_probs[rollouts].flatten(0, 1)

            logits, value, aux_value = agent(m_obs)
            kl_loss = (m_log_probs.exp() * (m_log_probs - logits.log_softmax(-1))).sum(-1).mean()
            real_value_loss = 0.5 * (value - m_returns).square().mean()
            aux_value_loss = 0.5 * (aux_value - m_returns).square().mean()
            joint_loss = aux_value_loss + args.beta_clone * kl_loss
            ((joint_loss + real_value_loss) / args.n_aux_grad_accum).backward()

            accumulated += 1
            if accumulated % args.n_aux_grad_accum == 0:
                optimizer.clip_grad_norm_(args.max_grad_norm)
                optimizer.step()
                optimizer.zero_grad()
    return {
        "losses/aux/kl_loss": kl_loss.item(),
        "losses/aux/aux_value_loss": aux_value_loss.item(),
        "losses/aux/real_value_loss": real_value_loss.item(),
    }


def train(args: Args, run: Run) -> None:
    batch_size = args.num_envs * args.num_steps
    minibatch_size = batch_size // args.num_minibatches
    num_iterations = args.total_timesteps // batch_size
    if batch_size % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide the batch of "
            f"{batch_size} (--num-envs {args.num_envs} times --num-steps {args.num_steps})."
        )

    if args.v_value != args.e_policy:
        raise UsageError(
            f"Policy and value learn together here: use --v-value {args.e_policy}, the number "
            "given as --e-policy."
        )
    rollouts_in_phase = args.n_iteration * args.num_envs
    if rollouts_in_phase % args.num_aux_rollouts:
        raise UsageError(
            f"--num-aux-rollouts {args.num_aux_rollouts} does not divide the {rollouts_in_phase} "
            f"rollouts of a phase (--n-iteration {args.n_iteration} times --num-envs "
            f"{args.num_envs})."
        )

    envs = NormalizeReward(make_eval_envs(args, args.num_envs, run.video_dir), args.gamma)
    run.check_spaces(envs)
    agent = Agent(envs).to(run.device)
    optimizer = Adam(agent.parameters(), args.learning_rate, eps=1e-8)
    accelerate = accelerator(args, run.device)
    act = on_arrays(agent, accelerate)
    memory = AuxiliaryMemory(args, envs)

    # Storage of one rollout; the last row of values belongs to the state after it
    shape = (args.num_steps, args.num_envs)
    obs = np.zeros((*shape, *envs.single_observation_space.shape), envs.obs.dtype)
    logits = np.zeros((*shape, int(envs.single_action_space.n)), np.float32)
    actions = np.zeros(shape, np.int64)
    rewards = np.zeros(shape, np.float32)
    ends = np.zeros(shape, np.bool_)
    values = np.zeros((args.num_steps + 1, args.num_envs), np.float32)
    advantages = np.zeros(shape, np.float32)

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember({"agent": agent}, optimizer=optimizer, envs=envs, memory=memory)
    next_obs = envs.obs
    # Each turn takes batch_size steps; the loop also ends when the run is told to stop
    for global_step in run.steps(batch_size):
        if args.anneal_lr:
            optimizer.lr = (1.0 - global_step / (num_iterations * batch_size)) * args.learning_rate

        # Collect a rollout
        for t in range(args.num_steps):
            global_step += args.num_envs
            obs[t] = next_obs
            logits[t], values[t], _ = act(next_obs)
            actions[t] = run.rng.categorical(logits[t])
            next_obs, rewards[t], terminated, truncated, info = envs.step(actions[t])
            ends[t] = terminated | truncated
            if info:
                # A truncated episode was not lost: add what its last state was still worth.
                cut_off = truncated & ~terminated
                if cut_off.any():
                    rewards[t] += args.gamma * cut_off * act(info["final_obs"])[1]
                run.log_episodes(global_step, info)
        values[-1] = act(next_obs)[1]

        # Advantages (Schulman et al., 2016): A(t) = delta(t) + gamma lambda A(t+1), where
        # delta(t) = r(t) + gamma V(t+1) - V(t); nothing is added beyond the end of an episode
        goes_on = 1.0 - ends.astype(np.float32)
        deltas = rewards + args.gamma * goes_on * values[1:] - values[:-1]
        decay = args.gamma * args.gae_lambda * goes_on
        advantages[-1] = deltas[-1]
        for t in reversed(range(args.num_steps - 1)):
            advantages[t] = deltas[t] + decay[t] * advantages[t + 1]
        returns = advantages + values[:-1]
        memory.add(obs, returns)
        if args.adv_norm_fullbatch:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)

        # Flatten the batch
        b_obs = torch.from_numpy(obs).to(run.device).flatten(0, 1)
        b_actions = torch.from_numpy(actions).to(run.device).flatten().unsqueeze(1)
        b_logits = torch.from_numpy(logits).to(run.device).flatten(0, 1)
        b_logprobs = b_logits.log_softmax(-1).gather(1, b_actions)
        b_advantages = torch.from_numpy(advantages).to(run.device).flatten()
        b_returns = torch.from_numpy(returns).to(run.device).flatten()
        b_values = torch.from_numpy(values[:-1]).to(run.device).flatten()
        batch = (b_obs, b_actions, b_logprobs, b_advantages, b_returns, b_values)

        @accelerate  # speed: --compile and --cudagraphs take this function as one piece
        def update(
            obs: Tensor,
            actions: Tensor,
            old_logprobs: Tensor,
            advantages: Tensor,
            returns: Tensor,
            old_values: Tensor,
        ) -> tuple[Tensor, ...]:
            """One gradient step on a minibatch; the losses and how far the policy moved."""
            new_logits, new_values, _ = agent(obs)
            log_probs = new_logits.log_softmax(-1)
            entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
            logratio = (log_probs.gather(1, actions) - old_logprobs).squeeze(1)
            ratio = logratio.exp()
            if not args.adv_norm_fullbatch:
                std, mean = torch.std_mean(advantages)
                advantages = (advantages - mean) / (std + 1e-8)

            # Policy loss: the pessimistic one of the plain and the clipped ratio
            clipped_ratio = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
            pg_loss = -torch.min(advantages * ratio, advantages * clipped_ratio).mean()

            # Value loss
            v_errors = (new_values - returns).square()
            if args.clip_vloss:
                moved = (new_values - old_values).clamp(-args.clip_coef, args.clip_coef)
                v_errors = torch.max(v_errors, (old_values + moved - returns).square())
            v_loss = 0.5 * v_errors.mean()

            loss = pg_loss - args.ent_coef * entropy + args.vf_coef * v_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.clip_grad_norm_(args.max_grad_norm)
            optimizer.step()

            return v_loss.detach(), pg_loss.detach(), entropy.detach(), logratio.detach()

        # Policy phase: optimise the policy and the value network
        measured = []
        for _ in range(args.e_policy):
            order = torch.from_numpy(run.rng.permutation(batch_size)).to(run.device)
            for rows in order.split(minibatch_size):
                measured.append(update(*(tensor[rows] for tensor in batch)))
            v_loss, pg_loss, entropy, logratio = measured[-1]
            approx_kl = (logratio.exp() - 1 - logratio).mean().item()
            if args.target_kl is not None and approx_kl > args.target_kl:
                break

        moved = torch.stack([logratio for *_, logratio in measured]).exp() - 1
        clipfrac = (moved.abs() > args.clip_coef).float().mean()
        variance = returns.var()
        run.log(
            global_step,
            {
                "charts/learning_rate": optimizer.lr,
                "losses/value_loss": v_loss.item(),
                "losses/policy_loss": pg_loss.item(),
                "losses/entropy": entropy.item(),
                "losses/old_approx_kl": -logratio.mean().item(),
                "losses/approx_kl": approx_kl,
                "losses/clipfrac": clipfrac.item(),
                "losses/explained_variance": (
                    1 - (returns - values[:-1]).var() / variance if variance > 0 else np.nan
                ),
            },
        )

        # Auxiliary phase
        if memory.filled == rollouts_in_phase:
            run.log(global_step, learn_features(args, run, agent, optimizer, memory))
            memory.filled = 0
    envs.close()


if __name__ == "__main__":
    main(Args, train)
