"""Twin Delayed DDPG, TD3 (Fujimoto et al., 2018), on the device.

DDPG with three remedies against overestimated values: the smaller of two critics is
believed, the actor learns less often than the critics, and noise on the target action
smooths what the critics learn from. Environments and replay memory are in JAX too, so that
one compiled program does it all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from cleanrl_worker.agents.jax_layers import TORCH_WEIGHTS, Layers, Params, dense, linear, relu
from cleanrl_worker.kit.actions import action_scale
from cleanrl_worker.kit.args import DeviceArgs
from cleanrl_worker.kit.inference import Policy, judged_policy, noisy_policy
from cleanrl_worker.kit.jax_backend import Array, jax, jnp, optax, trained
from cleanrl_worker.kit.judging import Shown, jax_judge
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch
from cleanrl_worker.ondevice.batch import DeviceEnvs, Ended, Games, ended_episodes
from cleanrl_worker.ondevice.judging import critics_of_member
from cleanrl_worker.ondevice.learner import Learner, Row
from cleanrl_worker.ondevice.members import chosen_member
from cleanrl_worker.ondevice.replay import Memory, Transitions, draw, empty_memory, remember

ALGORITHM = {
    "title": "Twin Delayed Deep Deterministic Policy Gradient (TD3), on the device",
    "paper": "Fujimoto et al. 2018, https://arxiv.org/abs/1802.09477",
    "family": "continuous",
    "actions": ["continuous"],
    "observations": ["vector"],
    "default_env": "Pendulum-v1",
    "requires": ["base", "jax"],
    "on_device": True,
}
SMOKE = {"total_timesteps": 600, "learning_starts": 300, "buffer_size": 1000}
# Steps of each environment in one iteration; losses are logged as often as in the torch file.
TURNS = 100


@dataclass
class Args(DeviceArgs):
    exp_name: str = "td3_ondevice"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "Pendulum-v1"
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
    policy_noise: float = 0.2
    """the standard deviation of the noise on the target action [>=0]"""
    exploration_noise: float = 0.1
    """the standard deviation of the exploration noise, in units of the action range [>=0]"""
    learning_starts: int = 25000
    """the step at which learning starts; actions are random before [>=0]"""
    policy_frequency: int = 2
    """updates of the critics for one of the actor [>=1]"""
    noise_clip: float = 0.5
    """the largest noise on the target action [>=0]"""


class TrainState(NamedTuple):
    """Everything that changes."""

    params: Layers
    """the actor"""
    critics: Params
    targets: Params
    """slow copies of the actor and both critics"""
    actor_moments: optax.OptState
    q_moments: optax.OptState
    memory: Memory
    games: Games
    key: Array
    global_step: Array
    losses: Params


def init_actor(envs: Batch, key: Array) -> Layers:
    """Parameters of the network from an observation to an action."""
    inputs = math.prod(envs.single_observation_space.shape)
    outputs = math.prod(envs.single_action_space.shape)
    keys = jax.random.split(key, 3)
    return [
        dense(keys[0], inputs, 256, draw=TORCH_WEIGHTS),
        dense(keys[1], 256, 256, draw=TORCH_WEIGHTS),
        dense(keys[2], 256, outputs, draw=TORCH_WEIGHTS),
    ]


def init_critic(envs: Batch, key: Array) -> Layers:
    """Parameters of the network from an observation and an action to a value."""
    inputs = math.prod(envs.single_observation_space.shape)
    inputs += math.prod(envs.single_action_space.shape)
    keys = jax.random.split(key, 3)
    return [
        dense(keys[0], inputs, 256, draw=TORCH_WEIGHTS),
        dense(keys[1], 256, 256, draw=TORCH_WEIGHTS),
        dense(keys[2], 256, 1, draw=TORCH_WEIGHTS),
    ]


def network(layers: Layers, rows: Array) -> Array:
    """Apply the layers with ReLU between them; NumPy arrays give NumPy arrays."""
    for layer in layers[:-1]:
        rows = relu(linear(layer, rows))
    return linear(layers[-1], rows)


def value_of(critic: Layers, obs: Array, actions: Array) -> Array:
    """The value of an action in a state; NumPy arrays give NumPy arrays."""
    xp = np if isinstance(obs, np.ndarray) else jnp
    return network(critic, xp.concatenate([obs, actions], axis=1)).squeeze(1)


def actor_action(actor: Layers, scale: np.ndarray, centre: np.ndarray, obs: Array) -> Array:
    """The action to take in a state; NumPy arrays give NumPy arrays."""
    tanh = np.tanh if isinstance(obs, np.ndarray) else jnp.tanh
    return tanh(network(actor, obs)) * scale + centre


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    actor = trained(partial(init_actor, envs), chosen_member(args, model))
    scale, centre = action_scale(envs)
    act = partial(actor_action, actor, scale, centre)
    critics = critics_of_member(args, model, partial(init_critic, envs))
    judge = jax_judge(critics, value_of, envs.single_action_space)
    return judged_policy(noisy_policy(act, args.exploration_noise * scale), judge)


def train(args: Args, run: Run) -> None:
    envs = DeviceEnvs(args.env_id, args.num_envs)
    run.check_spaces(envs)
    scale, centre = action_scale(envs)
    adam = optax.scale_by_adam()
    low, high = centre - scale, centre + scale

    def init(args: Args, key: Array) -> TrainState:
        actor_key, qf1_key, qf2_key, envs_key, key = jax.random.split(key, 5)
        actor = init_actor(envs, actor_key)
        critics = {"qf1": init_critic(envs, qf1_key), "qf2": init_critic(envs, qf2_key)}
        # Copies: two names for one array could not both be given to the compiled program.
        targets = jax.tree.map(jnp.copy, {"actor": actor, **critics})
        moments = (adam.init(actor), adam.init(critics))
        memory, games = empty_memory(envs, args.buffer_size), envs.reset(envs_key)
        tags = ("qf1_values", "qf2_values", "qf1_loss", "qf2_loss", "actor_loss")
        losses = {tag: jnp.float32(0) for tag in tags}
        return TrainState(
            actor, critics, targets, *moments, memory, games, key, jnp.int32(0), losses
        )

    def update_critics(args: Args, state: TrainState, data: Transitions, key: Array) -> TrainState:
        """Move both towards the smaller value of a smoothed target action."""
        noise = args.policy_noise * jax.random.normal(key, data.actions.shape)
        noise = noise.clip(-args.noise_clip, args.noise_clip) * scale
        next_actions = actor_action(state.targets["actor"], scale, centre, data.next_obs) + noise
        next_actions = next_actions.clip(low, high)
        next_value = jnp.minimum(
            value_of(state.targets["qf1"], data.next_obs, next_actions),
            value_of(state.targets["qf2"], data.next_obs, next_actions),
        )
        target = data.rewards + (1 - data.dones) * args.gamma * next_value

        def td_loss(critics: Params) -> tuple[Array, Params]:
            values = {name: value_of(q, data.obs, data.actions) for name, q in critics.items()}
            losses = {name: jnp.square(value - target).mean() for name, value in values.items()}
            measured = {f"{name}_values": value.mean() for name, value in values.items()}
            measured |= {f"{name}_loss": loss for name, loss in losses.items()}
            return losses["qf1"] + losses["qf2"], measured

        gradient, measured = jax.grad(td_loss, has_aux=True)(state.critics)
        step, moments = adam.update(gradient, state.q_moments)
        critics = jax.tree.map(lambda p, s: p - args.learning_rate * s, state.critics, step)
        losses = {**state.losses, **measured}
        return state._replace(critics=critics, q_moments=moments, losses=losses)

    def update_actor(args: Args, state: TrainState, data: Transitions) -> TrainState:
        """Towards actions of a high value; all targets follow."""

        def negative_value(actor: Layers) -> Array:
            action = actor_action(actor, scale, centre, data.obs)
            return -value_of(state.critics["qf1"], data.obs, action).mean()

        loss, gradient = jax.value_and_grad(negative_value)(state.params)
        step, moments = adam.update(gradient, state.actor_moments)
        actor = jax.tree.map(lambda p, s: p - args.learning_rate * s, state.params, step)
        # The target networks follow: target <- tau * network + (1 - tau) * target
        ahead = {"actor": actor, **state.critics}
        targets = optax.incremental_update(ahead, state.targets, args.tau)
        losses = {**state.losses, "actor_loss": loss}
        return state._replace(params=actor, actor_moments=moments, targets=targets, losses=losses)

    def learn(args: Args, state: TrainState, key: Array) -> TrainState:
        """One update of the critics, and now and then one of the actor; without the memory."""
        drawing, smoothing = jax.random.split(key)
        data = draw(state.memory, drawing, args.batch_size)
        # speed: only what may change goes through a branch, which copies it; not the memory
        state = update_critics(args, state._replace(memory=None), data, smoothing)
        # Turns count, not steps of the environments
        due = state.global_step // args.num_envs % args.policy_frequency == 0
        climb = partial(update_actor, args, data=data)
        return jax.lax.cond(due, climb, lambda state: state, state)

    def iterate(args: Args, state: TrainState) -> tuple[TrainState, Row, Ended]:
        """Take some steps and learn from the memory; compiled, many times in one call."""
        key, stepping, exploring, acting, learning = jax.random.split(state.key, 5)
        shape = (TURNS, args.num_envs, len(scale))
        at_random = centre + scale * jax.random.uniform(exploring, shape, minval=-1.0)
        noise = jax.random.normal(acting, shape)
        draws, keys = envs.draws(stepping, TURNS), jax.random.split(learning, TURNS)

        def turn(state: TrainState, now: tuple) -> tuple:
            envs_draw, at_random, noise, key = now
            # Act: at random at first, then with noise to explore
            learning = state.global_step >= args.learning_starts
            best = actor_action(state.params, scale, centre, state.games.obs)
            noisy = (best + args.exploration_noise * scale * noise).clip(low, high)
            actions = jnp.where(learning, noisy, at_random)
            games, outcome = envs.step(state.games, actions, envs_draw)

            # The state that followed, not the one a new episode began with
            memory = remember(state.memory, state.games, actions, outcome)
            state = state._replace(memory=memory, games=games)

            after = jax.lax.cond(
                learning, lambda: learn(args, state, key), lambda: state._replace(memory=None)
            )
            global_step = state.global_step + args.num_envs
            return after._replace(memory=memory, global_step=global_step), outcome

        random = (draws, at_random, noise, keys)
        state, outcomes = jax.lax.scan(turn, state._replace(key=key), random)
        row = {f"losses/{tag}": value for tag, value in state.losses.items()}
        row["losses/qf_loss"] = (row["losses/qf1_loss"] + row["losses/qf2_loss"]) / 2
        return state, row, ended_episodes(outcomes)

    learner = Learner(args, run, envs, init, iterate, TURNS * args.num_envs)
    run.show(critics=Shown(lambda: learner.state.critics))
    learner.train()


if __name__ == "__main__":
    main(Args, train)
