"""PPO (Schulman et al., 2017) with Transformer-XL as episodic memory (Pleines et al., 2023).

The agent sees one observation at a time and remembers the episode: what entered each layer of a
transformer at each of the last steps. Every layer attends to what it remembers and to the present.
What is remembered is data, as observations are: gradients do not flow into the past.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.kit.acceleration import accelerator
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy, categorical_policy
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.recurrent import RecurrentPolicy, actor_and_critic
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch, StateDict

ALGORITHM = {
    "title": "Proximal Policy Optimization with Transformer-XL",
    "paper": "Pleines et al. 2023, https://arxiv.org/abs/2309.17207",
    "family": "PPO",
    "actions": ["discrete"],
    "observations": ["vector"],
    "default_env": "mosaic/Recall-v0",
    "requires": ["base"],
}
SMOKE = {"total_timesteps": 1024, "num_envs": 4, "num_steps": 64}


@dataclass
class Args(TorchArgs):
    exp_name: str = "ppo_trxl"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "mosaic/Recall-v0"
    """the id of the environment"""
    total_timesteps: int = 200000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 2.5e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 16
    """the number of parallel environments [>=1]"""
    num_steps: int = 128
    """the number of steps each environment takes in a rollout [>=1]"""
    anneal_lr: bool = True
    """if toggled, the learning rate falls to zero over the run"""
    gamma: float = 0.99
    """the discount factor [0,1]"""
    gae_lambda: float = 0.95
    """the lambda of generalised advantage estimation [0,1]"""
    num_minibatches: int = 4
    """the number of minibatches in an epoch [>=1]"""
    update_epochs: int = 4
    """the number of epochs in an update [>=1]"""
    norm_adv: bool = True
    """if toggled, advantages are normalised in each minibatch"""
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

    # Transformer-XL arguments
    trxl_num_layers: int = 2
    """the number of transformer layers [>=1]"""
    trxl_num_heads: int = 4
    """the number of heads of each attention [>=1]"""
    trxl_dim: int = 64
    """the width of the transformer [>=1]"""
    trxl_memory_length: int = 32
    """how many past steps of an episode are remembered [>=1]"""


def layer_init(layer: nn.Module, std: float = math.sqrt(2), bias: float = 0.0) -> nn.Module:
    """Orthogonal weights with gain `std` and a constant bias."""
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class TransformerLayer(nn.Module):
    """Attention of the present to the past, then a layer of its own, each around a shortcut."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm_query, self.norm_past = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm_out = nn.LayerNorm(dim)
        self.projection = layer_init(nn.Linear(dim, dim))

    def forward(self, now: Tensor, past: Tensor, unknown: Tensor) -> Tensor:
        """Changes to `now`, one row for each environment.

        `past` has one more axis, for the steps that are remembered; `unknown` is true for steps
        before the episode began.
        """
        query = self.norm_query(now).unsqueeze(1)
        keys = torch.cat([self.norm_past(past), query], dim=1)
        # The present is never unknown, so there is always something to attend to.
        masked = torch.cat([unknown, torch.zeros_like(unknown[:, :1])], dim=1)
        seen, _ = self.attention(query, keys, keys, key_padding_mask=masked, need_weights=False)
        now = now + seen.squeeze(1)
        return now + self.projection(self.norm_out(now)).relu()


class Agent(nn.Module):
    """A transformer over the episode, and two heads: action logits and the value."""

    def __init__(self, envs: Batch, args: Args) -> None:
        super().__init__()
        inputs, dim = math.prod(envs.single_observation_space.shape), args.trxl_dim
        self.encoder = layer_init(nn.Linear(inputs, dim))
        self.layers = nn.ModuleList(
            TransformerLayer(dim, args.trxl_num_heads) for _ in range(args.trxl_num_layers)
        )
        self.hidden = layer_init(nn.Linear(dim, dim))
        self.actor = layer_init(nn.Linear(dim, int(envs.single_action_space.n)), std=0.01)
        self.critic = layer_init(nn.Linear(dim, 1), std=1.0)
        # How long ago a step was, as sines of many wavelengths (Vaswani et al., 2017).
        ago = torch.arange(args.trxl_memory_length, 0, -1.0).unsqueeze(1)
        waves = ago * torch.exp(-math.log(10000.0) * torch.arange(0, dim, 2.0) / dim)
        self.register_buffer("ago", torch.cat([waves.sin(), waves.cos()], dim=1)[:, :dim])

    def forward(self, obs: Tensor, memory: Tensor, unknown: Tensor) -> tuple[Tensor, ...]:
        """Action logits, state values, and what is to be remembered of this step.

        Args:
            obs: one observation for each environment.
            memory: what entered each layer in the last steps, `(envs, steps, layers, dim)`.
            unknown: true for the steps before the episode began, `(envs, steps)`.
        """
        now, entered = self.encoder(obs).relu(), []
        for number, layer in enumerate(self.layers):
            entered.append(now.detach())
            now = layer(now, memory[:, :, number] + self.ago, unknown)
        now = self.hidden(now).relu()
        return self.actor(now), self.critic(now).flatten(), torch.stack(entered, dim=1)


class Memory:
    """What is remembered of each environment's episode, the newest step last."""

    def __init__(self, agent: Agent, args: Args, num_envs: int, device: torch.device) -> None:
        self._agent, self._device = agent, device
        shape = (num_envs, args.trxl_memory_length, args.trxl_num_layers, args.trxl_dim)
        self.items = np.zeros(shape, np.float32)
        self.unknown = np.ones(shape[:2], np.bool_)

    def act(self, obs: np.ndarray, *, remember: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Action logits and values of the next step, which is remembered unless it may not come."""
        inputs = (
            torch.from_numpy(rows).to(self._device) for rows in (obs, self.items, self.unknown)
        )
        with torch.no_grad():
            logits, values, entered = (rows.cpu().numpy() for rows in self._agent(*inputs))
        if remember:
            self.items = np.concatenate([self.items[:, 1:], entered[:, None]], axis=1)
            self.unknown = np.roll(self.unknown, -1, axis=1)
            self.unknown[:, -1] = False
        return logits, values

    def reset(self, ended: np.ndarray) -> None:
        """Forget the past where an episode ended."""
        self.items[ended], self.unknown[ended] = 0.0, True

    def state_dict(self) -> StateDict:
        """All that is remembered."""
        return {"items": self.items, "unknown": self.unknown}

    def load_state_dict(self, state: StateDict) -> None:
        """Remember it again."""
        self.items = state["items"].numpy().copy()
        self.unknown = state["unknown"].numpy().copy()


def make_policy(envs: Batch, args: Args, model: StateDict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    agent = Agent(envs, args)
    agent.load_state_dict(model["agent"])
    memory = Memory(agent, args, envs.num_envs, torch.device("cpu"))
    return RecurrentPolicy(memory, categorical_policy(*actor_and_critic(memory.act)))


def train(args: Args, run: Run) -> None:
    batch_size = args.num_envs * args.num_steps
    minibatch_size = batch_size // args.num_minibatches
    num_iterations = args.total_timesteps // batch_size
    if batch_size % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide the batch of "
            f"{batch_size} (--num-envs {args.num_envs} times --num-steps {args.num_steps})."
        )

    if args.trxl_dim % args.trxl_num_heads:
        raise UsageError(
            f"--trxl-num-heads {args.trxl_num_heads} does not divide --trxl-dim {args.trxl_dim}."
        )

    envs = run.make_envs(args.num_envs)
    agent = Agent(envs, args).to(run.device)
    optimizer = Adam(agent.parameters(), args.learning_rate, eps=1e-5)
    accelerate = accelerator(args, run.device)
    memory = Memory(agent, args, args.num_envs, run.device)

    # Storage of one rollout; the last row of values belongs to the state after it
    shape = (args.num_steps, args.num_envs)
    obs = np.zeros((*shape, *envs.single_observation_space.shape), envs.obs.dtype)
    memories = np.zeros((args.num_steps, *memory.items.shape), np.float32)
    unknown = np.zeros((args.num_steps, *memory.unknown.shape), np.bool_)
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
            memories[t], unknown[t] = memory.items, memory.unknown
            logits[t], values[t] = memory.act(next_obs)
            actions[t] = run.rng.categorical(logits[t])
            next_obs, rewards[t], terminated, truncated, info = envs.step(actions[t])
            ends[t] = terminated | truncated
            if info:
                # A truncated episode was not lost: add what its last state was still worth.
                cut_off = truncated & ~terminated
                if cut_off.any():
                    _, final_values = memory.act(info["final_obs"], remember=False)
                    rewards[t] += args.gamma * cut_off * final_values
                run.log_episodes(global_step, info)
                memory.reset(ends[t])
        _, values[-1] = memory.act(next_obs, remember=False)

        # Advantages (Schulman et al., 2016): A(t) = delta(t) + gamma lambda A(t+1), where
        # delta(t) = r(t) + gamma V(t+1) - V(t); nothing is added beyond the end of an episode
        goes_on = 1.0 - ends.astype(np.float32)
        deltas = rewards + args.gamma * goes_on * values[1:] - values[:-1]
        decay = args.gamma * args.gae_lambda * goes_on
        advantages[-1] = deltas[-1]
        for t in reversed(range(args.num_steps - 1)):
            advantages[t] = deltas[t] + decay[t] * advantages[t + 1]
        returns = advantages + values[:-1]

        # Flatten the batch
        b_obs = torch.from_numpy(obs).to(run.device).flatten(0, 1)
        b_memories = torch.from_numpy(memories).to(run.device).flatten(0, 1)
        b_unknown = torch.from_numpy(unknown).to(run.device).flatten(0, 1)
        b_actions = torch.from_numpy(actions).to(run.device).flatten().unsqueeze(1)
        b_logits = torch.from_numpy(logits).to(run.device).flatten(0, 1)
        b_logprobs = b_logits.log_softmax(-1).gather(1, b_actions)
        b_advantages = torch.from_numpy(advantages).to(run.device).flatten()
        b_returns = torch.from_numpy(returns).to(run.device).flatten()
        b_values = torch.from_numpy(values[:-1]).to(run.device).flatten()
        past = (b_memories, b_unknown)
        batch = (b_obs, *past, b_actions, b_logprobs, b_advantages, b_returns, b_values)

        @accelerate  # speed: --compile and --cudagraphs take this function as one piece
        def update(
            obs: Tensor,
            memories: Tensor,
            unknown: Tensor,
            actions: Tensor,
            old_logprobs: Tensor,
            advantages: Tensor,
            returns: Tensor,
            old_values: Tensor,
        ) -> tuple[Tensor, ...]:
            """One gradient step on a minibatch; the losses and how far the policy moved."""
            new_logits, new_values, _ = agent(obs, memories, unknown)
            log_probs = new_logits.log_softmax(-1)
            entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
            logratio = (log_probs.gather(1, actions) - old_logprobs).squeeze(1)
            ratio = logratio.exp()
            if args.norm_adv:
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

        # Optimise the policy and the value network
        measured = []
        for _ in range(args.update_epochs):
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
    envs.close()


if __name__ == "__main__":
    main(Args, train)
