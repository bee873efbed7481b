"""Soft Actor-Critic for discrete actions (Christodoulou, 2019), for Atari games.

Maximise the score plus the entropy of the policy. With few actions the expectations over the
policy are exact sums, so neither sampling nor its noise is needed in the updates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.agents.pixels import ScaledPixels
from cleanrl_worker.kit.acceleration import accelerator
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.atari import AtariEnvs
from cleanrl_worker.kit.frame_replay import FrameReplayBuffer
from cleanrl_worker.kit.inference import Policy, categorical_policy, numpy_forward
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch
from cleanrl_worker.kit.weights import load_weights, trained_critics

ALGORITHM = {
    "title": "Soft Actor-Critic, discrete actions, Atari",
    "paper": "Christodoulou 2019, https://arxiv.org/abs/1910.07207",
    "family": "continuous",
    "actions": ["discrete"],
    "observations": ["image"],
    "default_env": "BeamRiderNoFrameskip-v4",
    "requires": ["base", "atari"],
}
SMOKE = {"total_timesteps": 320, "learning_starts": 100, "buffer_size": 400, "batch_size": 8}


@dataclass
class Args(TorchArgs):
    exp_name: str = "sac_atari"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "BeamRiderNoFrameskip-v4"
    """the id of the environment"""
    total_timesteps: int = 5000000
    """total timesteps of the experiment [>=1]"""
    num_envs: int = 1
    """the number of parallel environments [>=1]"""
    buffer_size: int = 1000000
    """the number of frames in the replay memory [>=1]"""
    gamma: float = 0.99
    """the discount factor [0,1]"""
    tau: float = 1.0
    """how far the target networks move at an update; 1 copies (0,1]"""
    batch_size: int = 64
    """the number of transitions in an update [>=1]"""
    learning_starts: int = 20000
    """the step at which learning starts; actions are random before [>=0]"""
    policy_lr: float = 3e-4
    """the learning rate of the actor [>0]"""
    q_lr: float = 3e-4
    """the learning rate of the critics and of the temperature [>0]"""
    update_frequency: int = 4
    """steps between two updates [>=1]"""
    target_network_frequency: int = 8000
    """steps between two updates of the target networks [>=1]"""
    alpha: float = 0.2
    """the temperature when it is not tuned [>0]"""
    autotune: bool = True
    """if toggled, the temperature is tuned to a target entropy"""
    target_entropy_scale: float = 0.89
    """the target entropy, as a share of the largest possible one [0,1]"""


def layer_init(layer: nn.Module) -> nn.Module:
    """Kaiming's weights, which keep the size of signals through ReLU, and no bias."""
    nn.init.kaiming_normal_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def network(envs: Batch) -> nn.Sequential:
    """From frames to one number for each action: a value for a critic, a logit for the actor."""
    return nn.Sequential(
        ScaledPixels(),
        layer_init(nn.Conv2d(envs.single_observation_space.shape[0], 32, 8, stride=4)),
        nn.ReLU(),
        layer_init(nn.Conv2d(32, 64, 4, stride=2)),
        nn.ReLU(),
        layer_init(nn.Conv2d(64, 64, 3, stride=1)),
        nn.ReLU(),
        nn.Flatten(),
        layer_init(nn.Linear(64 * 7 * 7, 512)),
        nn.ReLU(),
        layer_init(nn.Linear(512, int(envs.single_action_space.n))),
    ).to(memory_format=torch.channels_last)  # speed: how convolutions like their weights


def make_eval_envs(args: Args, num_envs: int, video_dir: str | None) -> AtariEnvs:
    """Whole games with their true score."""
    return AtariEnvs(args.env_id, num_envs, learning=False, video_dir=video_dir)


@torch.no_grad()
def state_value(actor: nn.Module, critics: list[nn.Module], obs: np.ndarray) -> np.ndarray:
    """What the policy earns by the smaller of both values: sum_a pi(a|s) min_i Q_i(s, a)."""
    rows = torch.from_numpy(obs)
    values = torch.stack([critic(rows) for critic in critics]).amin(dim=0)
    return (actor(rows).softmax(dim=1) * values).sum(dim=1).numpy()


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    actor = network(envs)
    load_weights(actor, model["actor"])
    critics = trained_critics(lambda: network(envs), model)
    judge = None if critics is None else partial(state_value, actor, critics)
    return categorical_policy(numpy_forward(actor), judge)


def train(args: Args, run: Run) -> None:
    envs = AtariEnvs(args.env_id, args.num_envs, video_dir=run.video_dir)
    run.check_spaces(envs)
    actor = network(envs).to(run.device)
    qf1, qf1_target = network(envs).to(run.device), network(envs).to(run.device)
    qf2, qf2_target = network(envs).to(run.device), network(envs).to(run.device)
    # A larger epsilon than usual, for stability at the start
    actor_optimizer = Adam(actor.parameters(), args.policy_lr, eps=1e-4)
    q_optimizer = Adam([*qf1.parameters(), *qf2.parameters()], args.q_lr, eps=1e-4)
    qf1_target.requires_grad_(False).load_state_dict(qf1.state_dict())
    qf2_target.requires_grad_(False).load_state_dict(qf2.state_dict())
    target_parameters = [*qf1_target.parameters(), *qf2_target.parameters()]

    # Tune alpha so that the policy keeps a share of the entropy of random play
    target_entropy = args.target_entropy_scale * math.log(int(envs.single_action_space.n))
    first_alpha = 1.0 if args.autotune else args.alpha
    temperature = nn.ParameterDict({"log_alpha": torch.tensor([math.log(first_alpha)])})
    log_alpha = temperature.to(run.device)["log_alpha"]
    alpha_optimizer = Adam([log_alpha], args.q_lr, eps=1e-4)

    memory = FrameReplayBuffer(args.buffer_size, envs, run.device)
    accelerate = accelerator(args, run.device)

    @accelerate  # speed: --compile and --cudagraphs take such functions as one piece
    @torch.no_grad()
    def look(obs: Tensor) -> Tensor:
        return actor(obs)

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember(
        {"actor": actor},
        judges={"qf1": qf1, "qf2": qf2},
        qf1_target=qf1_target,
        qf2_target=qf2_target,
        temperature=temperature,
        actor_optimizer=actor_optimizer,
        q_optimizer=q_optimizer,
        alpha_optimizer=alpha_optimizer,
        memory=memory,
        envs=envs,
    )
    obs = envs.obs
    # Each turn takes num_envs steps; the loop also ends when the run is told to stop
    for global_step in run.steps(args.num_envs):
        # Act: at random at first, then as the policy samples
        if global_step < args.learning_starts:
            actions = envs.sample_actions(run.rng)
        else:
            logits = look(torch.from_numpy(obs).to(run.device)).cpu().numpy()
            actions = run.rng.categorical(logits)
        next_obs, rewards, terminated, _, info = envs.step(actions)
        if info:
            run.log_episodes(global_step, info)

        # Remember the frames; where a game ended, info has the last one.
        # Only `terminated` ends the future: an episode that ran out of time could have gone on
        memory.add(obs, actions, rewards, terminated, info)
        obs = next_obs
        if global_step < args.learning_starts or not memory.ready:
            continue

        # Learn, every so many steps; one turn of this loop takes num_envs of them
        if global_step % args.update_frequency < args.num_envs:

            @accelerate
            def update(
                obs: Tensor, actions: Tensor, next_obs: Tensor, rewards: Tensor, dones: Tensor
            ) -> Tensor:
                """One step of all networks on a batch; what is logged about it."""
                alpha = log_alpha.detach().exp()

                # Critics: Q(s, a) towards r + gamma E_pi[min_i Q'_i(s', a') - alpha log pi(a'|s')]
                with torch.no_grad():
                    next_log_pi = actor(next_obs).log_softmax(dim=1)
                    next_qf = torch.min(qf1_target(next_obs), qf2_target(next_obs))
                    next_value = (next_log_pi.exp() * (next_qf - alpha * next_log_pi)).sum(dim=1)
                    target = rewards + (1 - dones) * args.gamma * next_value
                qf1_values = qf1(obs).gather(1, actions).squeeze(1)
                qf2_values = qf2(obs).gather(1, actions).squeeze(1)
                qf1_loss = nn.functional.mse_loss(qf1_values, target)
                qf2_loss = nn.functional.mse_loss(qf2_values, target)
                q_optimizer.zero_grad()
                (qf1_loss + qf2_loss).backward()
                q_optimizer.step()

                # Actor: the expectation over all actions, no sampling needed
                log_pi = actor(obs).log_softmax(dim=1)
                with torch.no_grad():
                    min_qf = torch.min(qf1(obs), qf2(obs))
                actor_loss = (log_pi.exp() * (alpha * log_pi - min_qf)).sum(dim=1).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()

                # Temperature: up when the policy is less random than wanted
                entropy = -(log_pi.exp() * log_pi).sum(dim=1).mean().detach()
                alpha_loss = (log_alpha.exp() * (entropy - target_entropy)).mean()
                if args.autotune:
                    alpha_optimizer.zero_grad()
                    alpha_loss.backward()
                    alpha_optimizer.step()
                values = [qf1_values.mean(), qf2_values.mean()]
                return torch.stack([*values, qf1_loss, qf2_loss, actor_loss, alpha_loss]).detach()

            losses = update(*memory.sample(args.batch_size, run.rng))
            if global_step % 100 < args.num_envs:
                qf1_value, qf2_value, qf1_loss, qf2_loss, actor_loss, alpha_loss = losses.tolist()
                run.log(
                    global_step,
                    {
                        "losses/qf1_values": qf1_value,
                        "losses/qf2_values": qf2_value,
                        "losses/qf1_loss": qf1_loss,
                        "losses/qf2_loss": qf2_loss,
                        "losses/qf_loss": (qf1_loss + qf2_loss) / 2,
                        "losses/actor_loss": actor_loss,
                        "losses/alpha": log_alpha.exp().item(),
                        "losses/alpha_loss": alpha_loss,
                    },
                )

        # The target networks follow: target <- tau * network + (1 - tau) * target
        if global_step % args.target_network_frequency < args.num_envs:
            with torch.no_grad():
                torch._foreach_lerp_(target_parameters, q_optimizer.parameters, args.tau)
    envs.close()


if __name__ == "__main__":
    main(Args, train)
