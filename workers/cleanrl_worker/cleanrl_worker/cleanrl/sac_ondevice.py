"""Soft Actor-Critic (Haarnoja et al., 2018) with a learned temperature, on the device.

Maximise the return plus the entropy of the policy. Two critics learn the soft value of
actions, the smaller one is believed; the actor is a Gaussian squashed by tanh; the
temperature alpha weighs entropy against reward and is tuned to a target entropy.
Environments and replay memory are in JAX too, so that one compiled program does it all.
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
from cleanrl_worker.kit.inference import Policy, judged_policy
from cleanrl_worker.kit.jax_backend import Array, jax, jnp, optax, trained
from cleanrl_worker.kit.judging import Shown, jax_judge
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch
from cleanrl_worker.ondevice.batch import DeviceEnvs, Ended, Games, ended_episodes
from cleanrl_worker.ondevice.judging import critics_of_member
from cleanrl_worker.ondevice.learner import Learner, Row
from cleanrl_worker.ondevice.members import chosen_member
from cleanrl_worker.ondevice.replay import Memory, Transitions, draw, empty_memory, remember

ALGORITHM = {
    "title": "Soft Actor-Critic, on the device",
    "paper": "Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905",
    "family": "continuous",
    "actions": ["continuous"],
    "observations": ["vector"],
    "default_env": "Pendulum-v1",
    "requires": ["base", "jax"],
    "on_device": True,
}
SMOKE = {"total_timesteps": 600, "learning_starts": 300, "buffer_size": 1000}
LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0
# Steps of each environment in one iteration; losses are logged as often as in the torch file.
TURNS = 100


@dataclass
class Args(DeviceArgs):
    exp_name: str = "sac_ondevice"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "Pendulum-v1"
    """the id of the environment"""
    total_timesteps: int = 1000000
    """total timesteps of the experiment [>=1]"""
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
    learning_starts: int = 5000
    """the step at which learning starts; actions are random before [>=0]"""
    policy_lr: float = 3e-4
    """the learning rate of the actor [>0]"""
    q_lr: float = 1e-3
    """the learning rate of the critics and of the temperature [>0]"""
    policy_frequency: int = 2
    """updates of the critics between two turns of the actor, which then takes as many [>=1]"""
    target_network_frequency: int = 1
    """updates of the critics for one of the target networks [>=1]"""
    alpha: float = 0.2
    """the temperature when it is not tuned [>0]"""
    autotune: bool = True
    """if toggled, the temperature is tuned to a target entropy"""
    updates_per_turn: int = 1
    """updates of the critics after each turn of all environments; more for many of them [>=1]"""


class TrainState(NamedTuple):
    """Everything that changes."""

    params: Layers
    """the actor"""
    critics: Params
    targets: Params
    log_alpha: Array
    actor_moments: optax.OptState
    q_moments: optax.OptState
    alpha_moments: optax.OptState
    memory: Memory
    games: Games
    key: Array
    global_step: Array
    losses: Params


def init_actor(envs: Batch, key: Array) -> Layers:
    """Parameters of the network from an observation to a Gaussian over actions."""
    inputs = math.prod(envs.single_observation_space.shape)
    outputs = math.prod(envs.single_action_space.shape)
    keys = jax.random.split(key, 3)
    return [
        dense(keys[0], inputs, 256, draw=TORCH_WEIGHTS),
        dense(keys[1], 256, 256, draw=TORCH_WEIGHTS),
        dense(keys[2], 256, 2 * outputs, draw=TORCH_WEIGHTS),
    ]


def init_critic(envs: Batch, key: Array) -> Layers:
    """Parameters of the network from an observation and an action to a soft value."""
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


def soft_value(critic: Layers, obs: Array, actions: Array) -> Array:
    """The soft value of an action in a state; NumPy arrays give NumPy arrays."""
    xp = np if isinstance(obs, np.ndarray) else jnp
    return network(critic, xp.concatenate([obs, actions], axis=1)).squeeze(1)


def gaussian(actor: Layers, obs: Array) -> tuple[Array, Array]:
    """Mean and logarithm of the standard deviation, before actions are squashed."""
    xp = np if isinstance(obs, np.ndarray) else jnp
    mean, log_std = xp.split(network(actor, obs), 2, axis=1)
    return mean, LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (xp.tanh(log_std) + 1)


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    actor = trained(partial(init_actor, envs), chosen_member(args, model))
    scale, centre = action_scale(envs)

    def act(obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray:
        mean, log_std = gaussian(actor, obs)
        if not deterministic:
            mean = mean + np.exp(log_std) * rng.standard_normal(mean.shape, np.float32)
        return np.tanh(mean) * scale + centre

    critics = critics_of_member(args, model, partial(init_critic, envs))
    return judged_policy(act, jax_judge(critics, soft_value, envs.single_action_space))


def train(args: Args, run: Run) -> None:
    envs = DeviceEnvs(args.env_id, args.num_envs)
    run.check_spaces(envs)
    scale, centre = action_scale(envs)
    adam = optax.scale_by_adam()
    # Tune alpha so that the policy keeps an entropy of minus one nat for each action dimension
    target_entropy = -float(len(scale))

    def init(args: Args, key: Array) -> TrainState:
        actor_key, qf1_key, qf2_key, envs_key, key = jax.random.split(key, 5)
        actor = init_actor(envs, actor_key)
        critics = {"qf1": init_critic(envs, qf1_key), "qf2": init_critic(envs, qf2_key)}
        # A copy: two names for one array could not both be given to the compiled program.
        targets = jax.tree.map(jnp.copy, critics)
        log_alpha = jnp.float32(0.0) if args.autotune else jnp.log(jnp.float32(args.alpha))
        moments = (adam.init(actor), adam.init(critics), adam.init(log_alpha))
        memory, games = empty_memory(envs, args.buffer_size), envs.reset(envs_key)
        tags = ("qf1_values", "qf2_values", "qf1_loss", "qf2_loss", "actor_loss", "alpha_loss")
        losses = {tag: jnp.float32(0) for tag in tags}
        return TrainState(
            actor, critics, targets, log_alpha, *moments, memory, games, key, jnp.int32(0), losses
        )

    def sample(actor: Layers, obs: Array, noise: Array) -> tuple[Array, Array]:
        """The actions that standard normal noise leads to, and their log-probabilities."""
        mean, log_std = gaussian(actor, obs)
        squashed = jnp.tanh(mean + jnp.exp(log_std) * noise)
        log_prob = -0.5 * jnp.square(noise) - log_std - 0.5 * math.log(2 * math.pi)
        # The change of variables: how much tanh and the scale compress the action
        log_prob = log_prob - jnp.log(scale * (1 - jnp.square(squashed)) + 1e-6)
        return squashed * scale + centre, log_prob.sum(axis=1)

    def smaller_value(critics: Params, obs: Array, actions: Array) -> Array:
        values = (soft_value(critics[name], obs, actions) for name in ("qf1", "qf2"))
        return jnp.minimum(*values)

    def update_critics(args: Args, state: TrainState, data: Transitions, key: Array) -> TrainState:
        """Move Q(s, a) towards r + gamma (min_i Q'_i(s', a') - alpha log pi(a'|s'))."""
        noise = jax.random.normal(key, data.actions.shape)
        next_actions, next_log_pi = sample(state.params, data.next_obs, noise)
        next_value = smaller_value(state.targets, data.next_obs, next_actions)
        next_value -= jnp.exp(state.log_alpha) * next_log_pi
        target = data.rewards + (1 - data.dones) * args.gamma * next_value

        def td_loss(critics: Params) -> tuple[Array, Params]:
            values = {name: soft_value(q, data.obs, data.actions) for name, q in critics.items()}
            losses = {name: jnp.square(value - target).mean() for name, value in values.items()}
            measured = {f"{name}_values": value.mean() for name, value in values.items()}
            measured |= {f"{name}_loss": loss for name, loss in losses.items()}
            return losses["qf1"] + losses["qf2"], measured

        gradient, measured = jax.grad(td_loss, has_aux=True)(state.critics)
        step, moments = adam.update(gradient, state.q_moments)
        critics = jax.tree.map(lambda p, s: p - args.q_lr * s, state.critics, step)
        losses = {**state.losses, **measured}
        return state._replace(critics=critics, q_moments=moments, losses=losses)

    def update_actor(args: Args, state: TrainState, data: Transitions, key: Array) -> TrainState:
        """Towards actions of a high soft value: a high value and a high entropy."""
        noise = jax.random.normal(key, data.actions.shape)
        alpha = jnp.exp(state.log_alpha)

        def actor_loss(actor: Layers) -> tuple[Array, Array]:
            pi, log_pi = sample(actor, data.obs, noise)
            value = smaller_value(state.critics, data.obs, pi)
            return (alpha * log_pi - value).mean(), log_pi

        (loss, log_pi), gradient = jax.value_and_grad(actor_loss, has_aux=True)(state.params)
        step, moments = adam.update(gradient, state.actor_moments)
        actor = jax.tree.map(lambda p, s: p - args.policy_lr * s, state.params, step)
        state = state._replace(params=actor, actor_moments=moments)

        # The temperature rises while the entropy of these actions is below its target
        alpha_loss = -alpha * (log_pi + target_entropy).mean()
        losses = {**state.losses, "actor_loss": loss, "alpha_loss": alpha_loss}
        if not args.autotune:
            return state._replace(losses=losses)
        # The loss is alpha times a constant, so it is its own gradient in the logarithm.
        step, moments = adam.update(alpha_loss, state.alpha_moments)
        log_alpha = state.log_alpha - args.q_lr * step
        return state._replace(log_alpha=log_alpha, alpha_moments=moments, losses=losses)

    def learn(
        args: Args, memory: Memory, state: TrainState, number: Array, key: Array
    ) -> TrainState:
        """One update of the critics, and what is due with its number."""
        drawing, aiming, *acting = jax.random.split(key, 2 + args.policy_frequency)
        data = draw(memory, drawing, args.batch_size)
        state = update_critics(args, state, data, aiming)

        def due(frequency: int) -> Array:
            # Updates count, whatever the number of environments
            return number % frequency == 0

        def climb(state: TrainState) -> TrainState:
            # The actor learns less often, but as many times in total
            for one in acting:
                state = update_actor(args, state, data, one)
            return state

        state = jax.lax.cond(due(args.policy_frequency), climb, lambda state: state, state)
        # The target networks follow: target <- tau * network + (1 - tau) * target
        tau = args.tau * due(args.target_network_frequency)
        targets = optax.incremental_update(state.critics, state.targets, tau)
        return state._replace(targets=targets)

    def learn_from(args: Args, memory: Memory, state: TrainState, key: Array) -> TrainState:
        """The updates of one turn."""
        first = state.global_step // args.num_envs * args.updates_per_turn
        numbers = first + jnp.arange(args.updates_per_turn)
        keys = jax.random.split(key, args.updates_per_turn)
        state, _ = jax.lax.scan(
            lambda state, now: (learn(args, memory, state, *now), None), state, (numbers, keys)
        )
        return state

    def iterate(args: Args, state: TrainState) -> tuple[TrainState, Row, Ended]:
        """Take some steps and learn from the memory; compiled, many times in one call."""
        key, stepping, exploring, acting, learning = jax.random.split(state.key, 5)
        shape = (TURNS, args.num_envs, len(scale))
        at_random = centre + scale * jax.random.uniform(exploring, shape, minval=-1.0)
        noise = jax.random.normal(acting, shape)
        draws, keys = envs.draws(stepping, TURNS), jax.random.split(learning, TURNS)

        def turn(state: TrainState, now: tuple) -> tuple:
            envs_draw, at_random, noise, key = now
            # Act: at random at first, then as the policy samples
            learning = state.global_step >= args.learning_starts
            sampled, _ = sample(state.params, state.games.obs, noise)
            actions = jnp.where(learning, sampled, at_random)
            games, outcome = envs.step(state.games, actions, envs_draw)

            # The state that followed, not the one a new episode began with
            memory = remember(state.memory, state.games, actions, outcome)
            # speed: only what may change goes through a branch, which copies it; not the memory
            state = state._replace(memory=None, games=games)

            state = jax.lax.cond(
                learning, lambda: learn_from(args, memory, state, key), lambda: state
            )
            global_step = state.global_step + args.num_envs
            return state._replace(memory=memory, global_step=global_step), outcome

        random = (draws, at_random, noise, keys)
        state, outcomes = jax.lax.scan(turn, state._replace(key=key), random)
        row = {f"losses/{tag}": value for tag, value in state.losses.items()}
        row["losses/qf_loss"] = (row["losses/qf1_loss"] + row["losses/qf2_loss"]) / 2
        row["losses/alpha"] = jnp.exp(state.log_alpha)
        return state, row, ended_episodes(outcomes)

    learner = Learner(args, run, envs, init, iterate, TURNS * args.num_envs)
    run.show(critics=Shown(lambda: learner.state.critics))
    learner.train()


if __name__ == "__main__":
    main(Args, train)
