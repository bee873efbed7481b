"""PPO (Schulman et al., 2017) for Atari games in EnvPool, in JAX.

Alternate between collecting a short rollout with the current policy and several epochs of
minibatch updates on it. The clipped ratio keeps each update close to the policy that
collected the data. Choosing an action and stepping the games are one compiled function
(EnvPool's XLA interface), and so is the update on a minibatch.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from cleanrl_worker.agents.jax_layers import (
    Params,
    conv,
    convolve,
    dense,
    linear,
    relu,
    scaled_pixels,
)
from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.envpool import EnvPoolEnvs
from cleanrl_worker.kit.envpool_xla import Games, Outcome, XlaEnvs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy
from cleanrl_worker.kit.jax_backend import Array, Tree, jax, jnp, optax, start, trained
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch

ALGORITHM = {
    "title": "Proximal Policy Optimization, Atari in EnvPool, in JAX",
    "paper": "Schulman et al. 2017, https://arxiv.org/abs/1707.06347",
    "family": "PPO",
    "actions": ["discrete"],
    "observations": ["image"],
    "default_env": "Breakout-v5",
    "requires": ["base", "envpool", "jax"],
}
SMOKE = {"total_timesteps": 256, "num_envs": 2, "num_steps": 32}


@dataclass
class Args(RunArgs):
    exp_name: str = "ppo_atari_envpool_xla_jax"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "Breakout-v5"
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
    ent_coef: float = 0.01
    """the weight of the entropy bonus [>=0]"""
    vf_coef: float = 0.5
    """the weight of the value loss [>=0]"""
    max_grad_norm: float = 0.5
    """the largest norm of a gradient [>0]"""
    target_kl: float | None = None
    """stop an update early when the policy has moved this far [>0]"""


class Sample(NamedTuple):
    """What one step of every environment leaves for learning."""

    obs: Array
    actions: Array
    logprobs: Array
    values: Array
    outcome: Outcome


def init_agent(envs: Batch, key: Array) -> Params:
    """Parameters of one trunk with two heads: action logits and the value."""
    trunk_key, actor_key, critic_key = jax.random.split(key, 3)
    keys = jax.random.split(trunk_key, 4)
    std = math.sqrt(2)
    convs = [
        conv(keys[0], 8, envs.single_observation_space.shape[0], 32, std),
        conv(keys[1], 4, 32, 64, std),
        conv(keys[2], 3, 64, 64, std),
    ]
    return {
        "trunk": {"convs": convs, "hidden": dense(keys[3], 7 * 7 * 64, 512, std)},
        "actor": dense(actor_key, 512, int(envs.single_action_space.n), std=0.01),
        "critic": dense(critic_key, 512, 1, std=1.0),
    }


@jax.jit
def forward(params: Params, obs: Array) -> tuple[Array, Array]:
    """Action logits and state values."""
    first, second, third = params["trunk"]["convs"]
    maps = relu(convolve(first, scaled_pixels(obs), stride=4))
    maps = relu(convolve(second, maps, stride=2))
    maps = relu(convolve(third, maps, stride=1))
    hidden = relu(linear(params["trunk"]["hidden"], maps.reshape(len(maps), -1)))
    return linear(params["actor"], hidden), linear(params["critic"], hidden).squeeze(-1)


def make_eval_envs(args: Args, num_envs: int, video_dir: str | None) -> EnvPoolEnvs:
    """Whole games with their true score."""
    return EnvPoolEnvs(args.env_id, num_envs, learning=False, video_dir=video_dir)


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    params = jax.device_put(trained(partial(init_agent, envs), model["agent"]))

    def act(obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray:
        logits = np.asarray(forward(params, obs)[0])
        return logits.argmax(axis=-1) if deterministic else rng.categorical(logits)

    return act


def gae(args: Args, samples: Sample, last_value: Array) -> Array:
    """Generalised advantage estimation over a rollout, `(steps, envs)`.

    The observation after an ended episode is its true last one, so a truncated episode is
    bootstrapped like any other step; only the sum over later steps stops there.
    """
    outcome = samples.outcome
    next_values = jnp.concatenate([samples.values[1:], last_value[None]])
    bootstrap = args.gamma * next_values * (1 - outcome.terminated)
    deltas = outcome.rewards + bootstrap - samples.values
    ended = outcome.terminated | outcome.truncated
    decay = args.gamma * args.gae_lambda * (1 - ended)

    def backwards(following: Array, now: tuple) -> tuple:
        delta, decay = now
        following = delta + decay * following
        return following, following

    _, advantages = jax.lax.scan(
        backwards, jnp.zeros_like(last_value), (deltas, decay), reverse=True
    )
    return advantages


def ppo_loss(params: Params, args: Args, mb: dict) -> tuple[Array, dict]:
    """The loss of a minibatch, over the steps that were no mere resets."""
    logits, new_value = forward(params, mb["obs"])
    log_probs = jax.nn.log_softmax(logits)
    weights = mb["valid"] / jnp.maximum(mb["valid"].sum(), 1)

    def mean(rows: Array) -> Array:
        return (weights * rows).sum()

    entropy = mean(-(jnp.exp(log_probs) * log_probs).sum(-1))
    logratio = jnp.take_along_axis(log_probs, mb["actions"][:, None], 1)[:, 0] - mb["logprobs"]
    ratio = jnp.exp(logratio)

    advantages = mb["advantages"]
    if args.norm_adv:
        centred = advantages - mean(advantages)
        advantages = centred / (jnp.sqrt(mean(jnp.square(centred))) + 1e-8)

    # Policy loss: the pessimistic one of the plain and the clipped ratio
    clipped = ratio.clip(1 - args.clip_coef, 1 + args.clip_coef)
    pg_loss = -mean(jnp.minimum(advantages * ratio, advantages * clipped))
    v_loss = 0.5 * mean(jnp.square(new_value - mb["returns"]))
    loss = pg_loss - args.ent_coef * entropy + args.vf_coef * v_loss
    return loss, {
        "losses/loss": loss,
        "losses/value_loss": v_loss,
        "losses/policy_loss": pg_loss,
        "losses/entropy": entropy,
        "losses/approx_kl": mean(ratio - 1 - logratio),
        "losses/clipfrac": mean(jnp.abs(ratio - 1) > args.clip_coef),
    }


def train(args: Args, run: Run) -> None:
    batch_size = args.num_envs * args.num_steps
    if batch_size % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide the batch of "
            f"{batch_size} (--num-envs {args.num_envs} times --num-steps {args.num_steps})."
        )
    num_iterations = args.total_timesteps // batch_size

    agent_key, sampling_key = jax.random.split(start(args))
    envs = XlaEnvs(args.env_id, args.num_envs, video_dir=run.video_dir)
    run.check_spaces(envs)
    agent, key = Tree(init_agent(envs, agent_key)), Tree(sampling_key)
    adam = optax.chain(optax.clip_by_global_norm(args.max_grad_norm), optax.scale_by_adam(eps=1e-5))
    optimizer = Tree(adam.init(agent.value))

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember({"agent": agent}, optimizer=optimizer, key=key, envs=envs)
    step = envs.xla_step()

    @jax.jit
    def act(params: Params, games: Games, key: Array) -> tuple[Games, Array, Sample]:
        key, choice = jax.random.split(key)
        logits, values = forward(params, games.obs)
        actions = jax.random.categorical(choice, logits)
        logprobs = jnp.take_along_axis(jax.nn.log_softmax(logits), actions[:, None], 1)[:, 0]
        after, outcome = step(games, actions)
        return after, key, Sample(games.obs, actions, logprobs, values, outcome)

    @jax.jit
    def flatten(params: Params, samples: Sample, last_obs: Array) -> dict:
        _, last_value = forward(params, last_obs)
        advantages = gae(args, samples, last_value)
        batch = {
            "obs": samples.obs,
            "actions": samples.actions,
            "logprobs": samples.logprobs,
            "advantages": advantages,
            "returns": advantages + samples.values,
            "valid": samples.outcome.valid.astype(jnp.float32),
        }
        return jax.tree.map(lambda rows: rows.reshape(batch_size, *rows.shape[2:]), batch)

    @jax.jit
    def update(
        params: Params, moments: optax.OptState, batch: dict, rows: Array, learning_rate: Array
    ) -> tuple[Params, optax.OptState, dict]:
        mb = jax.tree.map(lambda values: values[rows], batch)
        (_, losses), gradient = jax.value_and_grad(ppo_loss, has_aux=True)(params, args, mb)
        move, moments = adam.update(gradient, moments)
        move = jax.tree.map(lambda change: -learning_rate * change, move)
        return optax.apply_updates(params, move), moments, losses

    # Each turn takes batch_size steps; the loop also ends when the run is told to stop
    for global_step in run.steps(batch_size):
        began = time.monotonic()
        learning_rate = args.learning_rate
        if args.anneal_lr:
            learning_rate *= 1.0 - global_step / (num_iterations * batch_size)

        # Collect a rollout
        games, collected = envs.games, []
        for _ in range(args.num_steps):
            games, key.value, sample = act(agent.value, games, key.value)
            collected.append(sample)
        envs.games = games
        samples = jax.tree.map(lambda *steps: jnp.stack(steps), *collected)
        global_step += batch_size
        run.log_episodes(global_step, envs.note(samples.obs, samples.actions, samples.outcome))

        # Optimise the policy and the value
        batch = flatten(agent.value, samples, games.obs)
        for _ in range(args.update_epochs):
            permutation = run.rng.permutation(batch_size)
            for rows in np.split(permutation, args.num_minibatches):
                agent.value, optimizer.value, losses = update(
                    agent.value, optimizer.value, batch, rows, learning_rate
                )
            if args.target_kl is not None and losses["losses/approx_kl"] > args.target_kl:
                break

        sps_update = batch_size / (time.monotonic() - began)
        averages = {"charts/SPS_update": sps_update, **envs.averages}
        run.log(global_step, {"charts/learning_rate": learning_rate, **averages, **losses})
    envs.close()


if __name__ == "__main__":
    main(Args, train)
