"""PPO with Random Network Distillation (Burda et al., 2019) for Atari games in EnvPool.

Curiosity for games with rare rewards: a network learns to predict the output of a fixed
random network on each new frame. Its error is large where the agent has seldom been, and
serves as a second, intrinsic reward with a value of its own that never ends with an episode.
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
from cleanrl_worker.kit.inference import Policy, categorical_policy, on_arrays
from cleanrl_worker.kit.normalize import RunningMeanStd
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch

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
class Args(TorchArgs):
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


def layer_init(layer: nn.Module, std: float = math.sqrt(2), bias: float = 0.0) -> nn.Module:
    """Orthogonal weights with gain `std` and a constant bias."""
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class Agent(nn.Module):
    """One trunk, three heads: action logits, the extrinsic and the intrinsic value."""

    def __init__(self, envs: Batch) -> None:
        super().__init__()
        self.network = nn.Sequential(
            ScaledPixels(),
            layer_init(nn.Conv2d(envs.single_observation_space.shape[0], 32, 8, stride=4)),
            nn.ReLU(),
            layer_init(nn.Conv2d(32, 64, 4, stride=2)),
            nn.ReLU(),
            layer_init(nn.Conv2d(64, 64, 3, stride=1)),
            nn.ReLU(),
            nn.Flatten(),
            layer_init(nn.Linear(64 * 7 * 7, 256)),
            nn.ReLU(),
            layer_init(nn.Linear(256, 448)),
            nn.ReLU(),
        ).to(memory_format=torch.channels_last)  # speed: how convolutions like their weights
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
        """Divide a rollout's errors, `(steps, envs)`, by the spread of their returns."""
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


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    agent = Agent(envs)
    agent.load_state_dict(model["agent"])
    act = on_arrays(agent)
    # The value of the game's own reward: curiosity is a means, not what a return is made of.
    return categorical_policy(lambda obs: act(obs)[0], lambda obs: act(obs)[1])


def train(args: Args, run: Run) -> None:
    batch_size = args.num_envs * args.num_steps
    minibatch_size = batch_size // args.num_minibatches
    num_iterations = args.total_timesteps // batch_size
    if batch_size % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide the batch of "
            f"{batch_size} (--num-envs {args.num_envs} times --num-steps {args.num_steps})."
        )

    envs = EnvPoolEnvs(
        args.env_id,
        args.num_envs,
        video_dir=run.video_dir,
        repeat_action_probability=STICKY_ACTIONS,
    )
    run.check_spaces(envs)
    agent = Agent(envs).to(run.device)
    rnd = RNDModel().to(run.device)
    learning = [*agent.parameters(), *rnd.predictor.parameters()]
    optimizer = Adam(learning, args.learning_rate, eps=1e-5)
    accelerate = accelerator(args, run.device)
    act = on_arrays(agent, accelerate)
    curiosity = Curiosity(args, rnd, run.device)

    # Storage of one rollout; the last row of values belongs to the state after it
    shape = (args.num_steps, args.num_envs)
    obs = np.zeros((*shape, *envs.single_observation_space.shape), envs.obs.dtype)
    logits = np.zeros((*shape, int(envs.single_action_space.n)), np.float32)
    actions = np.zeros(shape, np.int64)
    rewards = np.zeros(shape, np.float32)
    ends = np.zeros(shape, np.bool_)
    curiosity_rewards = np.zeros(shape, np.float32)
    ext_values = np.zeros((args.num_steps + 1, args.num_envs), np.float32)
    int_values = np.zeros((args.num_steps + 1, args.num_envs), np.float32)
    ext_advantages = np.zeros(shape, np.float32)
    int_advantages = np.zeros(shape, np.float32)

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember({"agent": agent}, rnd=rnd, optimizer=optimizer, curiosity=curiosity, envs=envs)
    next_obs = envs.obs
    # Each turn takes batch_size steps; the loop also ends when the run is told to stop
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
                # A truncated episode was not lost: add what its last state was still worth.
                cut_off = truncated & ~terminated
                if cut_off.any():
                    rewards[t] += args.gamma * cut_off * act(info["final_obs"])[1]
                run.log_episodes(global_step, info)
        _, ext_values[-1], int_values[-1] = act(next_obs)
        curiosity_rewards = curiosity.scale(curiosity_rewards)

        # Advantages (Schulman et al., 2016): A(t) = delta(t) + gamma lambda A(t+1), where
        # delta(t) = r(t) + gamma V(t+1) - V(t); nothing is added beyond the end of an episode
        goes_on = 1.0 - ends.astype(np.float32)
        ext_deltas = rewards + args.gamma * goes_on * ext_values[1:] - ext_values[:-1]
        ext_decay = args.gamma * args.gae_lambda * goes_on
        # Curiosity is about what was ever seen, so its advantages do not end with an episode
        int_deltas = curiosity_rewards + args.int_gamma * int_values[1:] - int_values[:-1]
        int_decay = args.int_gamma * args.gae_lambda
        ext_advantages[-1], int_advantages[-1] = ext_deltas[-1], int_deltas[-1]
        for t in reversed(range(args.num_steps - 1)):
            ext_advantages[t] = ext_deltas[t] + ext_decay[t] * ext_advantages[t + 1]
            int_advantages[t] = int_deltas[t] + int_decay * int_advantages[t + 1]
        ext_returns = ext_advantages + ext_values[:-1]
        int_returns = int_advantages + int_values[:-1]
        advantages = args.ext_coef * ext_advantages + args.int_coef * int_advantages
        curiosity.see(obs.reshape(batch_size, *obs.shape[2:]))

        # Flatten the batch
        b_obs = torch.from_numpy(obs).to(run.device).flatten(0, 1)
        b_actions = torch.from_numpy(actions).to(run.device).flatten().unsqueeze(1)
        b_logits = torch.from_numpy(logits).to(run.device).flatten(0, 1)
        b_logprobs = b_logits.log_softmax(-1).gather(1, b_actions)
        b_advantages = torch.from_numpy(advantages).to(run.device).flatten()
        b_ext_returns = torch.from_numpy(ext_returns).to(run.device).flatten()
        b_int_returns = torch.from_numpy(int_returns).to(run.device).flatten()
        b_ext_values = torch.from_numpy(ext_values[:-1]).to(run.device).flatten()
        b_frames = curiosity.normalize(obs.reshape(batch_size, *obs.shape[2:]))
        batch = (
            *(b_obs, b_actions, b_logprobs, b_advantages),
            *(b_ext_returns, b_int_returns, b_ext_values, b_frames),
        )

        @accelerate  # speed: --compile and --cudagraphs take this function as one piece
        def update(
            obs: Tensor,
            actions: Tensor,
            old_logprobs: Tensor,
            advantages: Tensor,
            ext_returns: Tensor,
            int_returns: Tensor,
            old_values: Tensor,
            frames: Tensor,
        ) -> tuple[Tensor, ...]:
            """One gradient step on a minibatch; the losses and how far the policy moved."""
            # The predictor learns on a random part of the minibatch
            errors = rnd(frames)
            part = torch.rand(len(frames), device=run.device) < args.update_proportion
            forward_loss = (errors * part).sum() / part.sum().clamp(min=1)

            new_logits, new_values, new_int_values = agent(obs)
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

            # Value losses
            v_errors = (new_values - ext_returns).square()
            if args.clip_vloss:
                moved = (new_values - old_values).clamp(-args.clip_coef, args.clip_coef)
                v_errors = torch.max(v_errors, (old_values + moved - ext_returns).square())
            v_loss = 0.5 * v_errors.mean() + 0.5 * (new_int_values - int_returns).square().mean()

            loss = pg_loss - args.ent_coef * entropy + args.vf_coef * v_loss + forward_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.clip_grad_norm_(args.max_grad_norm)
            optimizer.step()

            losses = (v_loss, pg_loss, entropy, forward_loss, logratio)
            return tuple(loss.detach() for loss in losses)

        # Optimise the policy and the value network
        measured = []
        for _ in range(args.update_epochs):
            order = torch.from_numpy(run.rng.permutation(batch_size)).to(run.device)
            for rows in order.split(minibatch_size):
                measured.append(update(*(tensor[rows] for tensor in batch)))
            v_loss, pg_loss, entropy, forward_loss, logratio = measured[-1]
            approx_kl = (logratio.exp() - 1 - logratio).mean().item()
            if args.target_kl is not None and approx_kl > args.target_kl:
                break

        moved = torch.stack([logratio for *_, logratio in measured]).exp() - 1
        clipfrac = (moved.abs() > args.clip_coef).float().mean()
        run.log(
            global_step,
            {
                "charts/learning_rate": optimizer.lr,
                **envs.averages,
                "charts/episode_curiosity_reward": curiosity_rewards.mean(),
                "losses/value_loss": v_loss.item(),
                "losses/policy_loss": pg_loss.item(),
                "losses/entropy": entropy.item(),
                "losses/old_approx_kl": -logratio.mean().item(),
                "losses/approx_kl": approx_kl,
                "losses/clipfrac": clipfrac.item(),
                "losses/fwd_loss": forward_loss.item(),
            },
        )
    envs.close()


if __name__ == "__main__":
    main(Args, train)
