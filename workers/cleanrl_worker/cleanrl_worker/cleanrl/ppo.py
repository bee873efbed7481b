"""Proximal Policy Optimization (Schulman et al., 2017) for discrete actions.

Alternate between collecting a short rollout with the current policy and several epochs of
minibatch updates on it. The clipped ratio keeps each update close to the policy that
collected the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cleanrl_worker.agents.minigrid import MinigridAgent
from cleanrl_worker.agents.mlp import MLPAgent
from cleanrl_worker.kit.acceleration import accelerated
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy, categorical_policy, numpy_forward, remembered
from cleanrl_worker.kit.observations import is_image
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.returns import gae
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.storage import Stored

ALGORITHM = {
    "title": "Proximal Policy Optimization, discrete actions",
    "paper": "Schulman et al. 2017, https://arxiv.org/abs/1707.06347",
    "family": "PPO",
    "actions": ["discrete"],
    "observations": ["vector", "grid"],
    "default_env": "CartPole-v1",
    "requires": ["base"],
}
SMOKE = {"total_timesteps": 2048}


@dataclass
class Args(TorchArgs):
    exp_name: str = "ppo"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "CartPole-v1"
    """the id of the environment"""
    total_timesteps: int = 500000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 2.5e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 4
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


def make_agent(envs: Envs) -> MLPAgent | MinigridAgent:
    """A convolutional agent for grids, a small MLP for everything flat."""
    network = MinigridAgent if is_image(envs.single_observation_space) else MLPAgent
    return network(envs.single_observation_space.shape, int(envs.single_action_space.n))


def make_policy(envs: Envs, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    agent = make_agent(envs)
    agent.load_state_dict(model["agent"])
    return categorical_policy(agent.policy_network())


def train(args: Args, run: Run) -> None:
    batch_size = args.num_envs * args.num_steps
    if batch_size % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide the batch of "
            f"{batch_size} (--num-envs {args.num_envs} times --num-steps {args.num_steps})."
        )
    minibatch_size = batch_size // args.num_minibatches
    num_iterations = args.total_timesteps // batch_size

    envs = run.make_envs(args.num_envs)
    agent = make_agent(envs).to(run.device)
    optimizer = Adam(
        agent.parameters(), args.learning_rate, eps=1e-5, max_grad_norm=args.max_grad_norm
    )
    policy, value = numpy_forward(agent.policy_network()), numpy_forward(agent.value_network())
    on_grids = is_image(envs.single_observation_space)

    # Storage of one rollout
    shape = (args.num_steps, args.num_envs)
    obs = Stored(
        (*shape, *envs.single_observation_space.shape),
        torch.from_numpy(envs.obs).dtype,
        run.device,
    )
    logits = Stored((*shape, int(envs.single_action_space.n)), torch.float32, run.device)
    actions = Stored(shape, torch.int64, run.device)
    values = Stored(shape, torch.float32, run.device)
    advantages = Stored(shape, torch.float32, run.device)
    rewards = np.zeros(shape, np.float32)
    ends = np.zeros(shape, np.bool_)

    # The same, flattened
    b_obs = obs.tensor.flatten(0, 1)
    b_actions = actions.tensor.flatten().unsqueeze(1)
    b_logprobs = torch.zeros(batch_size, device=run.device)
    b_values = values.tensor.flatten()
    b_advantages = advantages.tensor.flatten()

    def update(rows: Tensor) -> tuple[Tensor, ...]:
        """One step on a minibatch; what is logged about it."""
        new_logits, new_value = agent(b_obs[rows])
        log_probs = new_logits.log_softmax(-1)
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        logratio = log_probs.gather(1, b_actions[rows]).squeeze(1) - b_logprobs[rows]
        ratio = logratio.exp()

        mb_advantages, mb_values = b_advantages[rows], b_values[rows]
        mb_returns = mb_advantages + mb_values
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
        return v_loss.detach(), pg_loss.detach(), entropy.detach(), logratio.detach()

    update = accelerated(update, args, run.device)

    envs.reset(seed=args.seed)
    run.remember({"agent": agent}, optimizer=optimizer, envs=envs)
    next_obs = envs.obs
    for global_step in run.steps(batch_size):
        if args.anneal_lr:
            optimizer.lr = (1.0 - global_step / (num_iterations * batch_size)) * args.learning_rate

        # Collect a rollout; while the policy stays the same, a grid is judged once
        act = remembered(policy) if on_grids else policy
        for t in range(args.num_steps):
            global_step += args.num_envs
            obs.array[t] = next_obs
            logits.array[t] = step_logits = act(next_obs)
            actions.array[t] = step_actions = run.rng.categorical(step_logits)
            next_obs, rewards[t], terminated, truncated, info = envs.step(step_actions)
            ends[t] = terminated | truncated
            if info:
                # A truncated episode would have gone on: count the value it still had.
                cut_off = truncated & ~terminated
                if cut_off.any():
                    rewards[t] += args.gamma * cut_off * value(info["final_obs"]).ravel()
                run.log_episodes(global_step, info)

        # Advantages (Schulman et al., 2016): the errors r + gamma V(s') - V(s) of this and all
        # later steps of the episode, weighted by (gamma lambda)^k
        values.array[:] = value(obs.array.reshape(batch_size, *obs.array.shape[2:])).reshape(shape)
        last_value = value(next_obs).ravel()
        advantages.array[:] = gae(
            rewards, values.array, last_value, ends, args.gamma, args.gae_lambda
        )
        for stored in (obs, logits, actions, values, advantages):
            stored.send()
        b_logprobs.copy_(
            logits.tensor.flatten(0, 1).log_softmax(-1).gather(1, b_actions).squeeze(1)
        )

        # Optimise the policy and the value network
        clipfracs = []
        for _ in range(args.update_epochs):
            order = torch.from_numpy(run.rng.permutation(batch_size)).to(run.device)
            for rows in order.split(minibatch_size):
                v_loss, pg_loss, entropy, logratio = update(rows)
            ratio = logratio.exp()
            approx_kl = (ratio - 1 - logratio).mean().item()
            clipfracs.append((ratio - 1.0).abs().gt(args.clip_coef).float().mean().item())
            if args.target_kl is not None and approx_kl > args.target_kl:
                break

        returns = advantages.array + values.array
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
                "losses/clipfrac": np.mean(clipfracs),
                "losses/explained_variance": (
                    1 - advantages.array.var() / variance if variance > 0 else np.nan
                ),
            },
        )
    envs.close()


if __name__ == "__main__":
    main(Args, train)
