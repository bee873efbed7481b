"""PPO with Random Network Distillation (Burda et al., 2019) for Atari games in EnvPool.

Curiosity for games with rare rewards: a network learns to predict the output of a fixed
random network on each new frame. Its error is large where the agent has seldom been, and
serves as a second, intrinsic reward with a value of its own that never ends with an episode.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.agents.layers import layer_init
from cleanrl_worker.agents.nature_cnn import nature_cnn
from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.envpool import EnvPoolEnvs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy, categorical_policy, numpy_outputs
from cleanrl_worker.kit.normalize import RunningMeanStd
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.returns import gae
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main

ALGORITHM = {
    "title": "PPO with Random Network Distillation, Atari in EnvPool",
    "paper": "Burda et al. 2019, https://arxiv.org/abs/1810.12894",
    "family": "PPO",
    "actions": ["discrete"],
    "observations": ["image"],
    "default_env": "MontezumaRevenge-v5",
    "requires": ["base", "envpool"],
}
SMOKE = {
    "total_timesteps": 256,
    "num_envs": 2,
    "num_steps": 32,
    "num_iterations_obs_norm_init": 1,
}

# How often a game repeats the last action instead of the new one, as in the paper.
STICKY_ACTIONS = 0.25
# Statistics of a whole rollout at once would take gigabytes.
_FRAMES_AT_ONCE = 1024


@dataclass
class Args(RunArgs):
    exp_name: str = "ppo_rnd_envpool"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "MontezumaRevenge-v5"
    """the id of the environment"""
    total_timesteps: int = 2000000000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 1e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 128
    """the number of parallel environments [>=1]"""
    num_steps: int = 128
    """the number of steps each environment takes in a rollout [>=1]"""
    anneal_lr: bool = True
    """if toggled, the learning rate falls to zero over the run"""
    gamma: float = 0.999
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
    ent_coef: float = 0.001
    """the weight of the entropy bonus [>=0]"""
    vf_coef: float = 0.5
    """the weight of the value loss [>=0]"""
    max_grad_norm: float = 0.5
    """the largest norm of a gradient [>0]"""
    target_kl: float | None = None
    """stop an update early when the policy has moved this far [>0]"""

    # RND arguments
    update_proportion: float = 0.25
    """the share of a minibatch on which the predictor learns (0,1]"""
    int_coef: float = 1.0
    """the weight of the intrinsic advantage [>=0]"""
    ext_coef: float = 2.0
    """the weight of the extrinsic advantage [>=0]"""
    int_gamma: float = 0.99
    """the discount of intrinsic rewards [0,1]"""
    num_iterations_obs_norm_init: int = 50
    """rollouts with random actions that start the statistics of the frames [>=0]"""


class Agent(nn.Module):
    """One trunk, three heads: action logits, the extrinsic and the intrinsic value."""

    def __init__(self, envs: EnvPoolEnvs) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nature_cnn(envs.single_observation_space.shape[0], outputs=256),
            layer_init(nn.Linear(256, 448)),
            nn.ReLU(),
        )
        self.extra_layer = nn.Sequential(layer_init(nn.Linear(448, 448), std=0.1), nn.ReLU())
        self.actor = nn.Sequential(
            layer_init(nn.Linear(448, 448), std=0.01),
            nn.ReLU(),
            layer_init(nn.Linear(448, int(envs.single_action_space.n)), std=0.01),
        )
        self.critic_ext = layer_init(nn.Linear(448, 1), std=0.01)
        self.critic_int = layer_init(nn.Linear(448, 1), std=0.01)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Action logits, extrinsic and intrinsic values."""
        hidden = self.network(obs)
        features = hidden + self.extra_layer(hidden)
        return (
            self.actor(hidden),
            self.critic_ext(features).flatten(),
            self.critic_int(features).flatten(),
        )


class RNDModel(nn.Module):
    """A fixed random network, and one that learns to predict it."""

    def __init__(self) -> None:
        super().__init__()
        self.predictor = nn.Sequential(
            *self._convolutions(),
            layer_init(nn.Linear(64 * 7 * 7, 512)),
            nn.ReLU(),
            layer_init(nn.Linear(512, 512)),
            nn.ReLU(),
            layer_init(nn.Linear(512, 512)),
        )
        self.target = nn.Sequential(*self._convolutions(), layer_init(nn.Linear(64 * 7 * 7, 512)))
        self.target.requires_grad_(False)

    @staticmethod
    def _convolutions() -> list[nn.Module]:
        return [
            layer_init(nn.Conv2d(1, 32, 8, stride=4)),
            nn.LeakyReLU(),
            layer_init(nn.Conv2d(32, 64, 4, stride=2)),
            nn.LeakyReLU(),
            layer_init(nn.Conv2d(64, 64, 3, stride=1)),
            nn.LeakyReLU(),
            nn.Flatten(),
        ]

    def forward(self, frames: Tensor) -> Tensor:
        """How wrong the prediction is for each frame."""
        return (self.target(frames) - self.predictor(frames)).square().mean(dim=1)


class Curiosity:
    """Frames normalised for the RND networks, and errors turned into steady rewards."""

    def __init__(self, args: Args, rnd: RNDModel, device: torch.device) -> None:
        self._rnd = rnd
        self._device = device
        self._gamma = args.int_gamma
        self._frames = RunningMeanStd((84, 84))
        self._returns = RunningMeanStd(())
        self._discounted = np.zeros(args.num_envs)

    def see(self, obs: np.ndarray) -> None:
        """Count the newest frame of these stacks for the statistics."""
        for first in range(0, len(obs), _FRAMES_AT_ONCE):
            self._frames.update(obs[first : first + _FRAMES_AT_ONCE, -1])

    def normalize(self, obs: np.ndarray) -> Tensor:
        """The newest frame of each stack, with mean 0, variance 1, clipped to 5."""
        mean, std = self._frames.mean, np.sqrt(self._frames.var)
        frames = (obs[:, -1:] - mean.astype(np.float32)) / std.astype(np.float32)
        return torch.from_numpy(frames.clip(-5, 5)).to(self._device)

    def errors(self, obs: np.ndarray) -> np.ndarray:
        """The prediction error for each stack."""
        with torch.inference_mode():
            return self._rnd(self.normalize(obs)).cpu().numpy()

    def scale(self, errors: np.ndarray) -> np.ndarray:
        """Divide a rollout's errors, ``(steps, envs)``, by the spread of their returns."""
        returns = np.empty(errors.shape)
        for t, error in enumerate(errors):
            returns[t] = self._discounted = self._discounted * self._gamma + error
        self._returns.update(returns.reshape(-1))
        return errors / np.float32(np.sqrt(self._returns.var))

    def state_dict(self) -> dict:
        """All statistics."""
        return {
            "frames": self._frames.state_dict(),
            "returns": self._returns.state_dict(),
            "discounted": self._discounted,
        }

    def load_state_dict(self, state: dict) -> None:
        """Put them back."""
        self._frames.load_state_dict(state["frames"])
        self._returns.load_state_dict(state["returns"])
        self._discounted = state["discounted"].numpy().copy()


def make_eval_envs(args: Args, num_envs: int, video_dir: str | None) -> EnvPoolEnvs:
    """Whole games with their true score."""
    return EnvPoolEnvs(
        args.env_id,
        num_envs,
        learning=False,
        video_dir=video_dir,
        repeat_action_probability=STICKY_ACTIONS,
    )


def make_policy(envs: EnvPoolEnvs, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    agent = Agent(envs)
    agent.load_state_dict(model["agent"])
    return categorical_policy(nn.Sequential(agent.network, agent.actor))


def train(args: Args, run: Run) -> None:
    batch_size = args.num_envs * args.num_steps
    if batch_size % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide the batch of "
            f"{batch_size} (--num-envs {args.num_envs} times --num-steps {args.num_steps})."
        )
    minibatch_size = batch_size // args.num_minibatches
    num_iterations = args.total_timesteps // batch_size

    envs = EnvPoolEnvs(
        args.env_id,
        args.num_envs,
        video_dir=run.video_dir,
        repeat_action_probability=STICKY_ACTIONS,
    )
    run.check_spaces(envs)
    agent = Agent(envs).to(run.device)
    rnd = RNDModel().to(run.device)
    optimizer = Adam(
        [*agent.parameters(), *rnd.predictor.parameters()],
        args.learning_rate,
        eps=1e-5,
        max_grad_norm=args.max_grad_norm,
    )
    act = numpy_outputs(agent)
    curiosity = Curiosity(args, rnd, run.device)

    # Storage of one rollout
    shape = (args.num_steps, args.num_envs)
    obs = np.zeros((*shape, *envs.single_observation_space.shape), envs.obs.dtype)
    logits = np.zeros((*shape, int(envs.single_action_space.n)), np.float32)
    actions = np.zeros(shape, np.int64)
    rewards = np.zeros(shape, np.float32)
    curiosity_rewards = np.zeros(shape, np.float32)
    ext_values = np.zeros(shape, np.float32)
    int_values = np.zeros(shape, np.float32)
    never = np.zeros(shape, np.bool_)
    ends = np.zeros(shape, np.bool_)

    envs.reset(seed=args.seed)
    run.remember({"agent": agent}, rnd=rnd, optimizer=optimizer, curiosity=curiosity, envs=envs)
    next_obs = envs.obs
    for global_step in run.steps(batch_size):
        if args.anneal_lr:
            optimizer.lr = (1.0 - global_step / (num_iterations * batch_size)) * args.learning_rate

        # Before anything else, see what frames look like
        if global_step == 0:
            for _ in range(args.num_iterations_obs_norm_init * args.num_steps):
                next_obs, *_ = envs.step(envs.sample_actions(run.rng))
                curiosity.see(next_obs)

        # Collect a rollout
        for t in range(args.num_steps):
            global_step += args.num_envs
            obs[t] = next_obs
            logits[t], ext_values[t], int_values[t] = act(next_obs)
            actions[t] = run.rng.categorical(logits[t])
            next_obs, rewards[t], terminated, truncated, info = envs.step(actions[t])
            ends[t] = terminated | truncated
            curiosity_rewards[t] = curiosity.errors(info.get("final_obs", next_obs))
            if info:
                # A truncated episode would have gone on: count the value it still had.
                cut_off = truncated & ~terminated
                if cut_off.any():
                    rewards[t] += args.gamma * cut_off * act(info["final_obs"])[1]
                run.log_episodes(global_step, info)

        # Advantages and returns; intrinsic ones do not end with an episode
        curiosity_rewards = curiosity.scale(curiosity_rewards)
        _, ext_last, int_last = act(next_obs)
        ext_advantages = gae(rewards, ext_values, ext_last, ends, args.gamma, args.gae_lambda)
        int_advantages = gae(
            curiosity_rewards, int_values, int_last, never, args.int_gamma, args.gae_lambda
        )
        ext_returns, int_returns = ext_advantages + ext_values, int_advantages + int_values
        advantages = args.ext_coef * ext_advantages + args.int_coef * int_advantages
        flat_obs = obs.reshape(batch_size, *obs.shape[2:])
        curiosity.see(flat_obs)

        # Flatten the batch
        b_obs = torch.from_numpy(obs).to(run.device).flatten(0, 1)
        b_actions = torch.from_numpy(actions).to(run.device).flatten().unsqueeze(1)
        b_logits = torch.from_numpy(logits).to(run.device).flatten(0, 1)
        b_logprobs = b_logits.log_softmax(-1).gather(1, b_actions).squeeze(1)
        b_ext_values = torch.from_numpy(ext_values).to(run.device).flatten()
        b_ext_returns = torch.from_numpy(ext_returns).to(run.device).flatten()
        b_int_returns = torch.from_numpy(int_returns).to(run.device).flatten()
        b_frames = curiosity.normalize(flat_obs)
        b_advantages = torch.from_numpy(advantages).to(run.device).flatten()

        # Optimise the policy, the values and the predictor
        clipfracs = []
        for _ in range(args.update_epochs):
            permutation = torch.from_numpy(run.rng.permutation(batch_size)).to(run.device)
            for mb in permutation.split(minibatch_size):
                # The predictor learns on a random part of the minibatch
                errors = rnd(b_frames[mb])
                part = torch.rand(len(mb), device=run.device) < args.update_proportion
                forward_loss = (errors * part).sum() / part.sum().clamp(min=1)

                new_logits, new_ext_value, new_int_value = agent(b_obs[mb])
                log_probs = new_logits.log_softmax(-1)
                entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
                logratio = log_probs.gather(1, b_actions[mb]).squeeze(1) - b_logprobs[mb]
                ratio = logratio.exp()

                mb_advantages = b_advantages[mb]
                if args.norm_adv:
                    std, mean = torch.std_mean(mb_advantages)
                    mb_advantages = (mb_advantages - mean) / (std + 1e-8)

                # Policy loss: the pessimistic one of the plain and the clipped ratio
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                pg_loss = -torch.min(mb_advantages * ratio, mb_advantages * clipped).mean()

                # Value loss
                v_error = (new_ext_value - b_ext_returns[mb]).square()
                if args.clip_vloss:
                    moved = (new_ext_value - b_ext_values[mb]).clamp(
                        -args.clip_coef, args.clip_coef
                    )
                    v_clipped = (b_ext_values[mb] + moved - b_ext_returns[mb]).square()
                    v_error = torch.max(v_error, v_clipped)
                ext_v_loss = 0.5 * v_error.mean()
                int_v_loss = 0.5 * (new_int_value - b_int_returns[mb]).square().mean()
                v_loss = ext_v_loss + int_v_loss

                loss = pg_loss - args.ent_coef * entropy + args.vf_coef * v_loss + forward_loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

            with torch.no_grad():
                old_approx_kl = -logratio.mean()
                approx_kl = (ratio - 1 - logratio).mean()
                clipfracs.append((ratio - 1.0).abs().gt(args.clip_coef).float().mean().item())
            if args.target_kl is not None and approx_kl > args.target_kl:
                break

        run.log(
            global_step,
            {
                "charts/learning_rate": optimizer.lr,
                "charts/episode_curiosity_reward": curiosity_rewards.mean(),
                "losses/value_loss": v_loss.item(),
                "losses/policy_loss": pg_loss.item(),
                "losses/entropy": entropy.item(),
                "losses/old_approx_kl": old_approx_kl.item(),
                "losses/approx_kl": approx_kl.item(),
                "losses/fwd_loss": forward_loss.item(),
                "losses/clipfrac": np.mean(clipfracs),
            },
        )
    envs.close()


if __name__ == "__main__":
    main(Args, train)
