"""Proximal Policy Optimization (Schulman et al., 2017) with memory, for Atari games.

Alternate between collecting a short rollout with the current policy and several epochs of
minibatch updates on it. The clipped ratio keeps each update close to the policy that
collected the data. The agent sees single frames and remembers the past with an LSTM; a
minibatch therefore holds whole rollouts of some environments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.agents.layers import layer_init
from cleanrl_worker.agents.nature_cnn import nature_cnn
from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.atari import AtariEnvs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.returns import gae
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.script import main

ALGORITHM = {
    "title": "Proximal Policy Optimization with an LSTM, Atari",
    "paper": "Schulman et al. 2017, https://arxiv.org/abs/1707.06347",
    "family": "PPO",
    "actions": ["discrete"],
    "observations": ["image"],
    "default_env": "BreakoutNoFrameskip-v4",
    "requires": ["base", "atari"],
}
SMOKE = {"total_timesteps": 256, "num_envs": 2, "num_steps": 32, "num_minibatches": 2}
HIDDEN = 128


@dataclass
class Args(RunArgs):
    exp_name: str = "ppo_atari_lstm"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "BreakoutNoFrameskip-v4"
    """the id of the environment"""
    total_timesteps: int = 10000000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 2.5e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 8
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
    clip_coef: float = 0.1
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


class Agent(nn.Module):
    """A convolutional trunk, a memory, and two heads: action logits and the value."""

    def __init__(self, envs: AtariEnvs) -> None:
        super().__init__()
        self.network = nature_cnn(channels=1)
        self.lstm = nn.LSTM(512, HIDDEN)
        for name, parameter in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.constant_(parameter, 0.0)
            else:
                nn.init.orthogonal_(parameter, 1.0)
        self.actor = layer_init(nn.Linear(HIDDEN, int(envs.single_action_space.n)), std=0.01)
        self.critic = layer_init(nn.Linear(HIDDEN, 1), std=1.0)

    def forward(self, obs: Tensor, begins: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Along rollouts: action logits, values, and what is remembered at the end.

        Args:
            obs: frames, ``(steps, envs, 1, 84, 84)``.
            begins: 1 where an episode begins and the past is forgotten, ``(steps, envs)``.
            state: what is remembered at first, ``(2, envs, hidden)``.
        """
        features = self.network(obs.flatten(0, 1)).view(*begins.shape, -1)
        hidden, cell = state.unsqueeze(1)
        outputs = []
        for now, begin in zip(features, begins, strict=True):
            goes_on = (1.0 - begin).view(1, -1, 1)
            output, (hidden, cell) = self.lstm(now[None], (goes_on * hidden, goes_on * cell))
            outputs.append(output)
        remembered = torch.cat(outputs)
        values = self.critic(remembered).squeeze(-1)
        return self.actor(remembered), values, torch.cat([hidden, cell])


class Memory:
    """Acts one step at a time and remembers the past of each environment."""

    def __init__(self, agent: Agent, num_envs: int, device: torch.device) -> None:
        self._agent = agent
        self._device = device
        self.state = torch.zeros(2, num_envs, HIDDEN, device=device)
        self.begins = np.ones(num_envs, np.float32)

    def look(self, obs: np.ndarray) -> tuple[np.ndarray, np.ndarray, Tensor]:
        """Logits and values of the next step, and the memory it would leave."""
        frames = torch.from_numpy(obs).to(self._device)[None]
        begins = torch.from_numpy(self.begins).to(self._device)[None]
        with torch.no_grad():
            logits, values, state = self._agent(frames, begins, self.state)
        return logits[0].cpu().numpy(), values[0].cpu().numpy(), state

    def reset(self, ended: np.ndarray) -> None:
        """Forget the past where an episode ended."""
        self.begins = ended.astype(np.float32)

    def __call__(self, obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray:
        """Act as a trained policy."""
        logits, _, self.state = self.look(obs)
        self.begins = np.zeros_like(self.begins)
        return logits.argmax(axis=-1) if deterministic else rng.categorical(logits)

    def state_dict(self) -> dict:
        """What is remembered."""
        return {"state": self.state, "begins": self.begins}

    def load_state_dict(self, state: dict) -> None:
        """Remember again."""
        self.state = state["state"].to(self._device)
        self.begins = state["begins"].numpy().copy()


def make_eval_envs(args: Args, num_envs: int, video_dir: str | None) -> AtariEnvs:
    """Whole games with their true score."""
    return AtariEnvs(args.env_id, num_envs, learning=False, video_dir=video_dir, stack=1)


def make_policy(envs: AtariEnvs, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    agent = Agent(envs)
    agent.load_state_dict(model["agent"])
    return Memory(agent, envs.num_envs, torch.device("cpu"))


def train(args: Args, run: Run) -> None:
    batch_size = args.num_envs * args.num_steps
    if args.num_envs % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide --num-envs "
            f"{args.num_envs}: a minibatch holds whole rollouts of some environments."
        )
    envs_in_minibatch = args.num_envs // args.num_minibatches
    num_iterations = args.total_timesteps // batch_size

    envs = AtariEnvs(args.env_id, args.num_envs, video_dir=run.video_dir, stack=1)
    run.check_spaces(envs)
    agent = Agent(envs).to(run.device)
    optimizer = Adam(
        agent.parameters(), args.learning_rate, eps=1e-5, max_grad_norm=args.max_grad_norm
    )
    memory = Memory(agent, args.num_envs, run.device)

    # Storage of one rollout
    shape = (args.num_steps, args.num_envs)
    obs = np.zeros((*shape, *envs.single_observation_space.shape), envs.obs.dtype)
    logits = np.zeros((*shape, int(envs.single_action_space.n)), np.float32)
    actions = np.zeros(shape, np.int64)
    rewards = np.zeros(shape, np.float32)
    values = np.zeros(shape, np.float32)
    ends = np.zeros(shape, np.bool_)
    begins = np.zeros(shape, np.float32)

    envs.reset(seed=args.seed)
    run.remember({"agent": agent}, optimizer=optimizer, envs=envs, memory=memory)
    next_obs = envs.obs
    for global_step in run.steps(batch_size):
        if args.anneal_lr:
            optimizer.lr = (1.0 - global_step / (num_iterations * batch_size)) * args.learning_rate

        # Collect a rollout
        first_state = memory.state
        for t in range(args.num_steps):
            global_step += args.num_envs
            obs[t] = next_obs
            begins[t] = memory.begins
            logits[t], values[t], memory.state = memory.look(next_obs)
            actions[t] = run.rng.categorical(logits[t])
            next_obs, rewards[t], terminated, truncated, info = envs.step(actions[t])
            ends[t] = terminated | truncated
            if info:
                # A truncated episode would have gone on: count the value it still had.
                cut_off = truncated & ~terminated
                if cut_off.any():
                    memory.reset(np.zeros(args.num_envs))
                    rewards[t] += args.gamma * cut_off * memory.look(info["final_obs"])[1]
                run.log_episodes(global_step, info)
            memory.reset(ends[t])

        # Advantages and returns
        _, last_value, _ = memory.look(next_obs)
        advantages = gae(rewards, values, last_value, ends, args.gamma, args.gae_lambda)
        returns = advantages + values

        # The batch stays in the shape (steps, envs), so that memory can follow time
        b_obs = torch.from_numpy(obs).to(run.device)
        b_begins = torch.from_numpy(begins).to(run.device)
        b_actions = torch.from_numpy(actions).to(run.device).unsqueeze(2)
        b_logits = torch.from_numpy(logits).to(run.device)
        b_logprobs = b_logits.log_softmax(-1).gather(2, b_actions).squeeze(2)
        b_values = torch.from_numpy(values).to(run.device)
        b_advantages = torch.from_numpy(advantages).to(run.device)
        b_returns = torch.from_numpy(returns).to(run.device)

        # Optimise the policy and the value network
        clipfracs = []
        for _ in range(args.update_epochs):
            permutation = torch.from_numpy(run.rng.permutation(args.num_envs)).to(run.device)
            for mb in permutation.split(envs_in_minibatch):
                new_logits, new_value, _ = agent(b_obs[:, mb], b_begins[:, mb], first_state[:, mb])
                mb_returns, mb_values = b_returns[:, mb], b_values[:, mb]
                mb_advantages = b_advantages[:, mb]
                log_probs = new_logits.log_softmax(-1)
                entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
                chosen = log_probs.gather(2, b_actions[:, mb]).squeeze(2)
                logratio = chosen - b_logprobs[:, mb]
                ratio = logratio.exp()

                if args.norm_adv:
                    std, mean = torch.std_mean(mb_advantages)
                    mb_advantages = (mb_advantages - mean) / (std + 1e-8)

                # Policy loss: the pessimistic one of the plain and the clipped ratio
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                pg_loss = -torch.min(mb_advantages * ratio, mb_advantages * clipped).mean()

                # Value loss
                v_error = (new_value - mb_returns).square()
                if args.clip_vloss:
                    moved = (new_value - mb_values).clamp(-args.clip_coef, args.clip_coef)
                    v_clipped = (mb_values + moved - mb_returns).square()
                    v_error = torch.max(v_error, v_clipped)
                v_loss = 0.5 * v_error.mean()

                loss = pg_loss - args.ent_coef * entropy + args.vf_coef * v_loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

            with torch.no_grad():
                old_approx_kl = -logratio.mean()
                approx_kl = (ratio - 1 - logratio).mean()
                clipfracs.append((ratio - 1.0).abs().gt(args.clip_coef).float().mean().item())
            if args.target_kl is not None and approx_kl > args.target_kl:
                break

        variance = returns.var()
        run.log(
            global_step,
            {
                "charts/learning_rate": optimizer.lr,
                "losses/value_loss": v_loss.item(),
                "losses/policy_loss": pg_loss.item(),
                "losses/entropy": entropy.item(),
                "losses/old_approx_kl": old_approx_kl.item(),
                "losses/approx_kl": approx_kl.item(),
                "losses/clipfrac": np.mean(clipfracs),
                "losses/explained_variance": (
                    1 - (returns - values).var() / variance if variance > 0 else np.nan
                ),
            },
        )
    envs.close()


if __name__ == "__main__":
    main(Args, train)
