"""Proximal Policy Optimization (Schulman et al., 2017) for continuous actions, on the device.

Alternate between collecting a short rollout with the current policy and several epochs of
minibatch updates on it. The clipped ratio keeps each update close to the policy that
collected the data. The policy is a Gaussian whose mean is a network's output and whose
standard deviation is learned beside it. Observations and rewards are normalised as they come.
The environments are in JAX too, so that one compiled program does it all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from cleanrl_worker.agents.jax_layers import Params, dense, linear
from cleanrl_worker.kit.args import DeviceArgs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy, gaussian_policy, prepared
from cleanrl_worker.kit.jax_backend import Array, jax, jnp, optax, trained
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch
from cleanrl_worker.ondevice.batch import DeviceEnvs, Ended, Games, Outcome, ended_episodes
from cleanrl_worker.ondevice.learner import Learner, Row
from cleanrl_worker.ondevice.loops import unroll
from cleanrl_worker.ondevice.members import chosen_member
from cleanrl_worker.ondevice.normalize import (
    Statistics,
    no_statistics,
    normalized,
    scaled_rewards,
    seen,
)

ALGORITHM = {
    "title": "Proximal Policy Optimization, continuous actions, on the device",
    "paper": "Schulman et al. 2017, https://arxiv.org/abs/1707.06347",
    "family": "PPO",
    "actions": ["continuous"],
    "observations": ["vector"],
    "default_env": "Pendulum-v1",
    "requires": ["base", "jax"],
    "on_device": True,
}
SMOKE = {"total_timesteps": 2048, "num_steps": 512}


@dataclass
class Args(DeviceArgs):
    exp_name: str = "ppo_continuous_ondevice"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "Pendulum-v1"
    """the id of the environment"""
    total_timesteps: int = 1000000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 3e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 1
    """the number of parallel environments [>=1]"""
    num_steps: int = 2048
    """the number of steps each environment takes in a rollout [>=1]"""
    anneal_lr: bool = True
    """if toggled, the learning rate falls to zero over the run"""
    gamma: float = 0.99
    """the discount factor [0,1]"""
    gae_lambda: float = 0.95
    """the lambda of generalised advantage estimation [0,1]"""
    num_minibatches: int = 32
    """the number of minibatches in an epoch [>=1]"""
    update_epochs: int = 10
    """the number of epochs in an update [>=1]"""
    norm_adv: bool = True
    """if toggled, advantages are normalised in each minibatch"""
    clip_coef: float = 0.2
    """the clipping coefficient of the surrogate objective [>0]"""
    clip_vloss: bool = True
    """if toggled, the value loss is clipped like the policy's"""
    ent_coef: float = 0.0
    """the weight of the entropy bonus [>=0]"""
    vf_coef: float = 0.5
    """the weight of the value loss [>=0]"""
    max_grad_norm: float = 0.5
    """the largest norm of a gradient [>0]"""
    target_kl: float | None = None
    """stop an update early when the policy has moved this far [>0]"""


class TrainState(NamedTuple):
    """Everything that changes."""

    params: Params
    moments: optax.OptState
    games: Games
    discounted: Array
    """the discounted return of each environment so far, and what is known of such returns"""
    returns_rms: Statistics
    key: Array
    iteration: Array


class Sample(NamedTuple):
    """What one step of every environment leaves for learning."""

    obs: Array
    next_obs: Array
    actions: Array
    outcome: Outcome


def init_agent(envs: Batch, key: Array) -> Params:
    """What acts: separate networks for the policy (a Gaussian) and the value, and the statistics
    that observations are normalised with."""
    inputs = math.prod(envs.single_observation_space.shape)
    outputs = math.prod(envs.single_action_space.shape)
    keys = jax.random.split(key, 6)
    gain = math.sqrt(2)
    networks = {
        "critic": [
            dense(keys[0], inputs, 64, gain),
            dense(keys[1], 64, 64, gain),
            dense(keys[2], 64, 1, 1.0),
        ],
        "actor_mean": [
            dense(keys[3], inputs, 64, gain),
            dense(keys[4], 64, 64, gain),
            dense(keys[5], 64, outputs, 0.01),
        ],
        "actor_logstd": jnp.zeros(outputs),
    }
    return {"networks": networks, "obs_rms": no_statistics(envs.single_observation_space.shape)}


def network(layers: list[Params], rows: Array) -> Array:
    """Apply the layers with Tanh between them; NumPy arrays give NumPy arrays."""
    tanh = np.tanh if isinstance(rows, np.ndarray) else jnp.tanh
    for layer in layers[:-1]:
        rows = tanh(linear(layer, rows))
    return linear(layers[-1], rows)


def critic(networks: Params, obs: Array) -> Array:
    """State values, without an axis of their own."""
    return network(networks["critic"], obs).squeeze(-1)


def gaussian_log_prob(actions: Array, mean: Array, logstd: Array) -> Array:
    """The log-density of independent Gaussians, one sum a row."""
    distance = (actions - mean) / jnp.exp(logstd)
    return (-0.5 * jnp.square(distance) - logstd - 0.5 * math.log(2 * math.pi)).sum(axis=-1)


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation, with the statistics it was trained with."""
    params = trained(partial(init_agent, envs), chosen_member(args, model))
    networks, statistics = params["networks"], params["obs_rms"]
    mean = partial(network, networks["actor_mean"])
    logstd = torch.from_numpy(networks["actor_logstd"])
    act = gaussian_policy(mean, logstd, partial(critic, networks))
    return prepared(act, partial(normalized, statistics))


def gae(args: Args, outcome: Outcome, rewards: Array, values: Array, next_values: Array) -> Array:
    """Advantages (Schulman et al., 2016): A(t) = delta(t) + gamma lambda A(t+1), where
    delta(t) = r(t) + gamma V(t+1) - V(t).

    The next value is that of the true next state, so a truncated episode is bootstrapped like any
    other step. Only termination makes it worthless; any end stops the sum over later steps.
    """
    goes_on = 1.0 - (outcome.terminated | outcome.truncated)
    deltas = rewards + args.gamma * (1.0 - outcome.terminated) * next_values - values
    decay = args.gamma * args.gae_lambda * goes_on

    def backwards(following: Array, now: tuple) -> tuple:
        delta, decay = now
        following = delta + decay * following
        return following, following

    _, advantages = jax.lax.scan(
        backwards, jnp.zeros_like(values[0]), (deltas, decay), reverse=True, unroll=unroll()
    )
    return advantages


def ppo_loss(networks: Params, args: Args, mb: dict) -> tuple[Array, Row]:
    """The loss of a minibatch, and what is logged of it."""
    mean, logstd = network(networks["actor_mean"], mb["obs"]), networks["actor_logstd"]
    new_values = critic(networks, mb["obs"])
    entropy = (0.5 + 0.5 * math.log(2 * math.pi) + logstd).sum()
    logratio = gaussian_log_prob(mb["actions"], mean, logstd) - mb["logprobs"]
    ratio = jnp.exp(logratio)
    advantages = mb["advantages"]
    if args.norm_adv:
        advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)

    # Policy loss: the pessimistic one of the plain and the clipped ratio
    clipped_ratio = ratio.clip(1 - args.clip_coef, 1 + args.clip_coef)
    pg_loss = -jnp.minimum(advantages * ratio, advantages * clipped_ratio).mean()

    # Value loss
    v_errors = jnp.square(new_values - mb["returns"])
    if args.clip_vloss:
        moved = (new_values - mb["values"]).clip(-args.clip_coef, args.clip_coef)
        v_errors = jnp.maximum(v_errors, jnp.square(mb["values"] + moved - mb["returns"]))
    v_loss = 0.5 * v_errors.mean()

    loss = pg_loss - args.ent_coef * entropy + args.vf_coef * v_loss
    return loss, {
        "losses/value_loss": v_loss,
        "losses/policy_loss": pg_loss,
        "losses/entropy": entropy,
        "losses/old_approx_kl": -logratio.mean(),
        "losses/approx_kl": (ratio - 1 - logratio).mean(),
        "losses/clipfrac": (jnp.abs(ratio - 1) > args.clip_coef).mean(),
    }


def train(args: Args, run: Run) -> None:
    batch_size = args.num_envs * args.num_steps
    minibatch_size = batch_size // args.num_minibatches
    if batch_size % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide the batch of "
            f"{batch_size} (--num-envs {args.num_envs} times --num-steps {args.num_steps})."
        )

    envs = DeviceEnvs(args.env_id, args.num_envs)
    run.check_spaces(envs)

    def optimizer(args: Args) -> optax.GradientTransformation:
        clip = optax.clip_by_global_norm(args.max_grad_norm)
        return optax.chain(clip, optax.scale_by_adam(eps=1e-5))

    def init(args: Args, key: Array) -> TrainState:
        agent_key, envs_key, key = jax.random.split(key, 3)
        params, games = init_agent(envs, agent_key), envs.reset(envs_key)
        params["obs_rms"] = seen(params["obs_rms"], games.obs)
        moments = optimizer(args).init(params["networks"])
        discounted, returns_rms = jnp.zeros(args.num_envs), no_statistics(())
        return TrainState(params, moments, games, discounted, returns_rms, key, jnp.int32(0))

    def iterate(args: Args, state: TrainState) -> tuple[TrainState, Row, Ended]:
        """Collect a rollout and learn from it; compiled, many times in one call."""
        key, acting, stepping, shuffling = jax.random.split(state.key, 4)
        learning_rate = jnp.float32(args.learning_rate)
        if args.anneal_lr:
            num_iterations = args.total_timesteps // batch_size
            learning_rate *= 1.0 - state.iteration / num_iterations

        networks = state.params["networks"]

        # Collect a rollout; every observation counts, also those that episodes end and begin with
        def act(carry: tuple, now: tuple) -> tuple:
            games, statistics = carry
            noise, draw = now
            obs = normalized(statistics, games.obs)
            mean = network(networks["actor_mean"], obs)
            actions = mean + jnp.exp(networks["actor_logstd"]) * noise
            after, outcome = envs.step(games, actions, draw)
            begun = outcome.terminated | outcome.truncated
            new = jnp.concatenate([outcome.next_obs, after.obs])
            statistics = seen(statistics, new, jnp.concatenate([jnp.ones_like(begun), begun]))
            next_obs = normalized(statistics, outcome.next_obs)
            return (after, statistics), Sample(obs, next_obs, actions, outcome)

        # speed: the noise that turns the mean into a sample, for all steps at once
        shape = (args.num_steps, args.num_envs, math.prod(envs.single_action_space.shape))
        noise = jax.random.normal(acting, shape)
        draws = envs.draws(stepping, args.num_steps)
        (games, obs_rms), samples = jax.lax.scan(
            act, (state.games, state.params["obs_rms"]), (noise, draws), unroll=envs.unroll
        )
        outcome = samples.outcome

        # Rewards in units of the spread of discounted returns
        def scale(carry: tuple, now: tuple) -> tuple:
            discounted, statistics = carry
            rewards, terminated = now
            discounted = discounted * args.gamma * (1.0 - terminated) + rewards
            statistics = seen(statistics, discounted)
            return (discounted, statistics), scaled_rewards(statistics, rewards)

        (discounted, returns_rms), rewards = jax.lax.scan(
            scale, (state.discounted, state.returns_rms), (outcome.rewards, outcome.terminated),
            unroll=unroll(),
        )  # fmt: skip

        # speed: the networks did not change during the rollout, so one pass is enough
        values = critic(networks, samples.obs)
        next_values = critic(networks, samples.next_obs)
        mean = network(networks["actor_mean"], samples.obs)
        logprobs = gaussian_log_prob(samples.actions, mean, networks["actor_logstd"])
        advantages = gae(args, outcome, rewards, values, next_values)
        returns = advantages + values

        # Flatten the batch
        batch = {
            "obs": samples.obs,
            "actions": samples.actions,
            "logprobs": logprobs,
            "advantages": advantages,
            "returns": returns,
            "values": values,
        }
        batch = jax.tree.map(lambda rows: rows.reshape(batch_size, *rows.shape[2:]), batch)

        # Optimise the policy and the value network
        adam = optimizer(args)

        def update(carry: tuple, rows: Array) -> tuple:
            """One gradient step on a minibatch; none once the policy has moved too far."""
            networks, moments, stopped = carry
            mb = jax.tree.map(lambda values: values[rows], batch)
            (_, losses), gradient = jax.value_and_grad(ppo_loss, has_aux=True)(networks, args, mb)
            direction, new_moments = adam.update(gradient, moments)
            new = jax.tree.map(lambda p, d: p - learning_rate * d, networks, direction)
            if args.target_kl is not None:
                keep = partial(jax.tree.map, partial(jnp.where, stopped))
                new, new_moments = keep(networks, new), keep(moments, new_moments)
            return (new, new_moments, stopped), losses

        def epoch(carry: tuple, key: Array) -> tuple:
            rows = jax.random.permutation(key, batch_size).reshape(-1, minibatch_size)
            ran = ~carry[2]
            carry, losses = jax.lax.scan(update, carry, rows, unroll=unroll())
            networks, moments, stopped = carry
            if args.target_kl is not None:
                stopped |= losses["losses/approx_kl"][-1] > args.target_kl
            return (networks, moments, stopped), (losses, ran)

        keys = jax.random.split(shuffling, args.update_epochs)
        (networks, moments, _), (losses, ran) = jax.lax.scan(
            epoch, (networks, state.moments, jnp.array(False)), keys
        )
        # Those of the last minibatch that learned; after --target-kl epochs are skipped.
        last = {tag: values[ran.sum() - 1, -1] for tag, values in losses.items()}
        clipfracs = losses["losses/clipfrac"].mean(axis=1)
        row = {
            "charts/learning_rate": learning_rate,
            **last,
            "losses/clipfrac": (clipfracs * ran).sum() / ran.sum(),
            "losses/explained_variance": 1 - (returns - values).var() / returns.var(),
        }
        params = {"networks": networks, "obs_rms": obs_rms}
        after = TrainState(
            params, moments, games, discounted, returns_rms, key, state.iteration + 1
        )
        return after, row, ended_episodes(outcome)

    Learner(args, run, envs, init, iterate, batch_size).train()


if __name__ == "__main__":
    main(Args, train)
