"""Deep Deterministic Policy Gradient (Lillicrap et al., 2016), in JAX.

A critic learns the value of actions as Q-learning does; the actor follows the critic's
gradient uphill. Noise on the actions explores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from cleanrl_worker.agents.jax_layers import Layers, dense, linear, relu
from cleanrl_worker.kit.actions import action_scale
from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.inference import Policy, judged_policy, noisy_policy
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
from cleanrl_worker.kit.judging import jax_judge
from cleanrl_worker.kit.replay import ReplayBuffer
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch

ALGORITHM = {
    "title": "Deep Deterministic Policy Gradient, in JAX",
    "paper": "Lillicrap et al. 2016, https://arxiv.org/abs/1509.02971",
    "family": "continuous",
    "actions": ["continuous"],
    "observations": ["vector"],
    "default_env": "Hopper-v5",
    "requires": ["base", "jax"],
}
SMOKE = {
    "env_id": "Pendulum-v1",
    "total_timesteps": 600,
    "learning_starts": 300,
    "buffer_size": 1000,
}


@dataclass
class Args(RunArgs):
    exp_name: str = "ddpg_continuous_action_jax"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "Hopper-v5"
    """the id of the environment"""
    total_timesteps: int = 1000000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 3e-4
    """the learning rate of the optimizers [>0]"""
    num_envs: int = 1
    """the number of parallel environments [>=1]"""
    buffer_size: int = 1000000
    """the number of transitions in the replay memory [>=1]"""
    gamma: float = 0.99
    """the discount factor [0,1]"""
    tau: float = 0.005
    """how far the target networks move at an update (0,1]"""
    batch_size: int = 256
    """the number of transitions in an update [>=1]"""
    exploration_noise: float = 0.1
    """the standard deviation of the exploration noise, in units of the action range [>=0]"""
    learning_starts: int = 25000
    """the step at which learning starts; actions are random before [>=0]"""
    policy_frequency: int = 2
    """updates of the critic for one of the actor [>=1]"""


def init_critic(envs: Batch, key: Array) -> Layers:
    """Parameters of the network from an observation and an action to a value."""
    inputs = math.prod(envs.single_observation_space.shape)
    inputs += math.prod(envs.single_action_space.shape)
    keys = jax.random.split(key, 3)
    return [dense(keys[0], inputs, 256), dense(keys[1], 256, 256), dense(keys[2], 256, 1)]


def critic_value(params: Layers, obs: Array, actions: Array) -> Array:
    """The value of an action in a state; NumPy for arrays, JAX for everything else."""
    first, second, last = params
    xp = np if isinstance(obs, np.ndarray) else jnp
    hidden = relu(linear(first, xp.concatenate([obs, actions], axis=1)))
    hidden = relu(linear(second, hidden))
    return linear(last, hidden).squeeze(1)


def init_actor(envs: Batch, key: Array) -> Layers:
    """Parameters of the network from an observation to an action."""
    inputs = math.prod(envs.single_observation_space.shape)
    outputs = math.prod(envs.single_action_space.shape)
    keys = jax.random.split(key, 3)
    return [dense(keys[0], inputs, 256), dense(keys[1], 256, 256), dense(keys[2], 256, outputs)]


def actor_action(params: Layers, scale: np.ndarray, centre: np.ndarray, obs: Array) -> Array:
    """The action to take in a state; NumPy for arrays, JAX for everything else."""
    first, second, last = params
    hidden = relu(linear(first, obs))
    hidden = relu(linear(second, hidden))
    tanh = np.tanh if isinstance(obs, np.ndarray) else jnp.tanh
    return tanh(linear(last, hidden)) * scale + centre


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    scale, centre = action_scale(envs)
    act = partial(actor_action, trained(partial(init_actor, envs), model["actor"]), scale, centre)
    critics = [trained(partial(init_critic, envs), model["qf1"])] if "qf1" in model else None
    judge = jax_judge(critics, critic_value, envs.single_action_space)
    return judged_policy(noisy_policy(act, args.exploration_noise * scale), judge)


def train(args: Args, run: Run) -> None:
    actor_key, critic_key = jax.random.split(start(args))
    envs = run.make_envs(args.num_envs)
    scale, centre = action_scale(envs)
    adam = optax.adam(args.learning_rate)
    actor, qf1 = Tree(init_actor(envs, actor_key)), Tree(init_critic(envs, critic_key))
    targets = Tree({"actor": actor.value, "qf1": qf1.value})
    actor_optimizer, q_optimizer = Tree(adam.init(actor.value)), Tree(adam.init(qf1.value))
    memory = ReplayBuffer(args.buffer_size, envs, HOST)

    @jax.jit
    def update_critic(qf1: Layers, targets: dict, moments: optax.OptState, data: dict) -> tuple:
        next_actions = actor_action(targets["actor"], scale, centre, data["next_obs"])
        next_value = critic_value(targets["qf1"], data["next_obs"], next_actions)
        target = data["rewards"] + (1 - data["dones"]) * args.gamma * next_value

        def td_loss(qf1: Layers) -> tuple:
            values = critic_value(qf1, data["obs"], data["actions"])
            return jnp.square(values - target).mean(), values.mean()

        (loss, value), gradient = jax.value_and_grad(td_loss, has_aux=True)(qf1)
        step, moments = adam.update(gradient, moments)
        return optax.apply_updates(qf1, step), moments, loss, value

    @jax.jit
    def update_actor(
        actor: Layers, qf1: Layers, targets: dict, moments: optax.OptState, obs: Array
    ) -> tuple:
        def negative_value(actor: Layers) -> Array:
            return -critic_value(qf1, obs, actor_action(actor, scale, centre, obs)).mean()

        loss, gradient = jax.value_and_grad(negative_value)(actor)
        step, moments = adam.update(gradient, moments)
        actor = optax.apply_updates(actor, step)
        targets = optax.incremental_update({"actor": actor, "qf1": qf1}, targets, args.tau)
        return actor, targets, moments, loss

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember(
        {"actor": actor},
        judges={"qf1": qf1},
        targets=targets,
        actor_optimizer=actor_optimizer,
        q_optimizer=q_optimizer,
        memory=memory,
        envs=envs,
    )
    obs = envs.obs
    low, high = envs.single_action_space.low, envs.single_action_space.high
    actor_loss = 0.0
    # Each turn takes num_envs steps; the loop also ends when the run is told to stop
    for global_step in run.steps(args.num_envs):
        # Act, with noise to explore
        if global_step < args.learning_starts:
            actions = envs.sample_actions(run.rng)
        else:
            actions = actor_action(actor.numpy(), scale, centre, obs)
            noise = run.rng.standard_normal(actions.shape, np.float32)
            actions = (actions + args.exploration_noise * scale * noise).clip(low, high)
        next_obs, rewards, terminated, _, info = envs.step(actions)
        if info:
            run.log_episodes(global_step, info)

        # The state that followed, not the one a new episode began with.
        # Only `terminated` ends the future: an episode that ran out of time could have gone on
        memory.add(obs, info.get("final_obs", next_obs), actions, rewards, terminated)
        obs = next_obs

        if global_step < args.learning_starts:
            continue
        data = arrays(memory.sample(args.batch_size, run.rng))
        qf1.value, q_optimizer.value, qf1_loss, qf1_value = update_critic(
            qf1.value, targets.value, q_optimizer.value, data
        )

        # Actor, and the targets with it; turns of this loop count, not steps of the environments
        if (global_step // args.num_envs) % args.policy_frequency == 0:
            actor.value, targets.value, actor_optimizer.value, actor_loss = update_actor(
                actor.value, qf1.value, targets.value, actor_optimizer.value, data["obs"]
            )

        if global_step % 100 < args.num_envs:
            run.log(
                global_step,
                {
                    "losses/qf1_values": qf1_value,
                    "losses/qf1_loss": qf1_loss,
                    "losses/actor_loss": actor_loss,
                },
            )
    envs.close()


if __name__ == "__main__":
    main(Args, train)
