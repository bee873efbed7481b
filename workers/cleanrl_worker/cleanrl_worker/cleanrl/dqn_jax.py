"""Deep Q-Network (Mnih et al., 2015) for flat observations, in JAX.

Learn the value of each action by moving it towards the reward plus the discounted value of
the best next action, as a slow copy of the network (the target network) estimates it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from cleanrl_worker.agents.jax_layers import Layers, dense, linear, relu
from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.inference import Policy, greedy_policy
from cleanrl_worker.kit.jax_backend import (
    HOST,
    Array,
    Tree,
    arrays,
    jax,
    jnp,
    optax,
    start,
    trained,
)
from cleanrl_worker.kit.replay import ReplayBuffer
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.schedules import linear_schedule
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch

ALGORITHM = {
    "title": "Deep Q-Network, in JAX",
    "paper": "Mnih et al. 2015, https://doi.org/10.1038/nature14236",
    "family": "Q-learning",
    "actions": ["discrete"],
    "observations": ["vector"],
    "default_env": "CartPole-v1",
    "requires": ["base", "jax"],
}
SMOKE = {"total_timesteps": 2000, "learning_starts": 500, "buffer_size": 2000}


@dataclass
class Args(RunArgs):
    exp_name: str = "dqn_jax"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "CartPole-v1"
    """the id of the environment"""
    total_timesteps: int = 500000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 2.5e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 1
    """the number of parallel environments [>=1]"""
    buffer_size: int = 10000
    """the number of transitions in the replay memory [>=1]"""
    gamma: float = 0.99
    """the discount factor [0,1]"""
    tau: float = 1.0
    """how far the target network moves at an update; 1 copies (0,1]"""
    target_network_frequency: int = 500
    """steps between two updates of the target network [>=1]"""
    batch_size: int = 128
    """the number of transitions in an update [>=1]"""
    start_e: float = 1.0
    """the probability of a random action at the start [0,1]"""
    end_e: float = 0.05
    """the probability of a random action at the end [0,1]"""
    exploration_fraction: float = 0.5
    """the share of total-timesteps in which exploration falls from start-e to end-e (0,1]"""
    learning_starts: int = 10000
    """the step at which learning starts [>=0]"""
    train_frequency: int = 10
    """steps between two updates [>=1]"""


def init_q_network(envs: Batch, key: Array) -> Layers:
    """Parameters of the network from an observation to the value of each action."""
    inputs = math.prod(envs.single_observation_space.shape)
    keys = jax.random.split(key, 3)
    return [
        dense(keys[0], inputs, 120),
        dense(keys[1], 120, 84),
        dense(keys[2], 84, int(envs.single_action_space.n)),
    ]


def q_values(params: Layers, obs: Array) -> Array:
    """The value of each action."""
    first, second, last = params
    hidden = relu(linear(first, obs))
    hidden = relu(linear(second, hidden))
    return linear(last, hidden)


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    params = trained(partial(init_q_network, envs), model["q_network"])
    return greedy_policy(partial(q_values, params), epsilon=args.end_e)


def train(args: Args, run: Run) -> None:
    key = start(args)
    envs = run.make_envs(args.num_envs)
    adam = optax.adam(args.learning_rate)
    q_network = Tree(init_q_network(envs, key))
    # Targets come from a copy that lags behind, so that learning does not chase its own estimates
    target_network = Tree(q_network.value)
    optimizer = Tree(adam.init(q_network.value))
    # Steps in a row are much alike; batches are drawn from a memory that mixes many of them
    memory = ReplayBuffer(args.buffer_size, envs, HOST)

    @jax.jit
    def update(params: Layers, target_params: Layers, moments: optax.OptState, data: dict) -> tuple:
        target_max = q_values(target_params, data["next_obs"]).max(axis=1)
        td_target = data["rewards"] + args.gamma * target_max * (1 - data["dones"])

        def td_loss(params: Layers) -> tuple:
            old_value = jnp.take_along_axis(q_values(params, data["obs"]), data["actions"], axis=1)
            return jnp.square(old_value.squeeze(1) - td_target).mean(), old_value.mean()

        (loss, q_value), gradient = jax.value_and_grad(td_loss, has_aux=True)(params)
        step, moments = adam.update(gradient, moments)
        return optax.apply_updates(params, step), moments, loss, q_value

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember(
        {"q_network": q_network},
        target_network=target_network,
        optimizer=optimizer,
        memory=memory,
        envs=envs,
    )
    obs = envs.obs
    # Each turn takes num_envs steps; the loop also ends when the run is told to stop
    for global_step in run.steps(args.num_envs):
        # Act: at random with probability epsilon, else greedily
        epsilon = linear_schedule(
            args.start_e, args.end_e, args.exploration_fraction * args.total_timesteps, global_step
        )
        if run.rng.random() < epsilon:
            actions = envs.sample_actions(run.rng)
        else:
            actions = q_values(q_network.numpy(), obs).argmax(axis=1)
        next_obs, rewards, terminated, _, info = envs.step(actions)
        if info:
            run.log_episodes(global_step, info)

        # The state that followed, not the one a new episode began with.
        # Only `terminated` ends the future: an episode that ran out of time could have gone on
        memory.add(obs, info.get("final_obs", next_obs), actions, rewards, terminated)
        obs = next_obs

        # Nothing is learned before there is enough to learn from
        if global_step < args.learning_starts or not memory.ready:
            continue
        if global_step % args.train_frequency < args.num_envs:
            data = arrays(memory.sample(args.batch_size, run.rng))
            q_network.value, optimizer.value, loss, q_value = update(
                q_network.value, target_network.value, optimizer.value, data
            )
            if global_step % 100 < args.num_envs:
                run.log(global_step, {"losses/td_loss": loss, "losses/q_values": q_value})

        if global_step % args.target_network_frequency < args.num_envs:
            target_network.value = optax.incremental_update(
                q_network.value, target_network.value, args.tau
            )
    envs.close()


if __name__ == "__main__":
    main(Args, train)
