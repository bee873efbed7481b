"""Parallelised Q-Network (Gallici et al., 2024) for flat observations, on the device.

Q-learning without replay memory and target network: layer normalisation keeps the values stable,
and several environments at once supply varied data. Each short rollout is learned from with
Q(lambda) returns. The environments are in JAX too, so that one compiled program does it all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from cleanrl_worker.agents.jax_layers import Params, dense, linear
from cleanrl_worker.kit.args import DeviceArgs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy, greedy_policy
from cleanrl_worker.kit.jax_backend import Array, jax, jnp, optax, trained
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch
from cleanrl_worker.ondevice.batch import DeviceEnvs, Ended, Games, Outcome, ended_episodes
from cleanrl_worker.ondevice.learner import Learner, Row
from cleanrl_worker.ondevice.loops import unroll
from cleanrl_worker.ondevice.members import chosen_member

ALGORITHM = {
    "title": "Parallelised Q-Network, on the device",
    "paper": "Gallici et al. 2024, https://arxiv.org/abs/2407.04811",
    "family": "variants",
    "actions": ["discrete"],
    "observations": ["vector"],
    "default_env": "CartPole-v1",
    "requires": ["base", "jax"],
    "on_device": True,
}
SMOKE = {"total_timesteps": 2048}


@dataclass
class Args(DeviceArgs):
    exp_name: str = "pqn_ondevice"
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
    num_minibatches: int = 4
    """the number of minibatches in an epoch [>=1]"""
    update_epochs: int = 4
    """the number of epochs in an update [>=1]"""
    anneal_lr: bool = True
    """if toggled, the learning rate falls to zero over the run"""
    gamma: float = 0.99
    """the discount factor [0,1]"""
    start_e: float = 1.0
    """the probability of a random action at the start [0,1]"""
    end_e: float = 0.05
    """the probability of a random action at the end [0,1]"""
    exploration_fraction: float = 0.5
    """the share of total-timesteps in which exploration falls from start-e to end-e (0,1]"""
    max_grad_norm: float = 10.0
    """the largest norm of a gradient [>0]"""
    q_lambda: float = 0.65
    """the lambda of the Q(lambda) returns [0,1]"""


class TrainState(NamedTuple):
    """Everything that changes."""

    params: list[Params]
    moments: optax.OptState
    games: Games
    key: Array
    iteration: Array


class Sample(NamedTuple):
    """What one step of every environment leaves for learning."""

    obs: Array
    actions: Array
    outcome: Outcome


def init_q_network(envs: Batch, key: Array) -> list[Params]:
    """Parameters from an observation to the value of each action, normalised after each layer."""
    inputs = math.prod(envs.single_observation_space.shape)
    sizes = (inputs, 120, 84, int(envs.single_action_space.n))
    keys, gain = jax.random.split(key, 3), math.sqrt(2)
    layers = [dense(keys[i], sizes[i], sizes[i + 1], gain) for i in range(3)]
    for layer, size in zip(layers[:-1], sizes[1:-1], strict=True):
        layer["scale"], layer["shift"] = jnp.ones(size), jnp.zeros(size)
    return layers


def q_network(layers: list[Params], rows: Array) -> Array:
    """The value of each action; NumPy arrays give NumPy arrays."""
    xp = np if isinstance(rows, np.ndarray) else jnp
    for layer in layers[:-1]:
        rows = linear(layer, rows)
        centred = rows - rows.mean(axis=-1, keepdims=True)
        spread = xp.sqrt(xp.square(centred).mean(axis=-1, keepdims=True) + 1e-5)
        rows = xp.maximum(layer["scale"] * centred / spread + layer["shift"], 0.0)
    return linear(layers[-1], rows)


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    params = trained(partial(init_q_network, envs), chosen_member(args, model))
    return greedy_policy(partial(q_network, params), epsilon=args.end_e)


def q_lambda_returns(args: Args, outcome: Outcome, next_values: Array) -> Array:
    """R(t) = r(t) + gamma (lambda R(t+1) + (1 - lambda) max Q(t+1)).

    The next value is that of the true next state: where an episode was cut off, it is all that is
    added; where it terminated, nothing is.
    """
    ended = outcome.terminated | outcome.truncated

    def backwards(following: Array, now: tuple) -> tuple:
        reward, terminated, ended, value = now
        mixed = args.q_lambda * following + (1 - args.q_lambda) * value
        following = reward + args.gamma * (1 - terminated) * jnp.where(ended, value, mixed)
        return following, following

    steps = (outcome.rewards, outcome.terminated, ended, next_values)
    _, returns = jax.lax.scan(backwards, next_values[-1], steps, reverse=True, unroll=unroll())
    return returns


def td_loss(params: list[Params], mb: dict) -> tuple[Array, Array]:
    """The squared error of the values of the actions taken, and their mean."""
    values = q_network(params, mb["obs"])
    old_values = jnp.take_along_axis(values, mb["actions"][:, None], 1)[:, 0]
    return jnp.square(old_values - mb["returns"]).mean(), old_values.mean()


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
    actions_n = int(envs.single_action_space.n)

    def optimizer(args: Args) -> optax.GradientTransformation:
        clip = optax.clip_by_global_norm(args.max_grad_norm)
        return optax.chain(clip, optax.scale_by_radam())

    def init(args: Args, key: Array) -> TrainState:
        network_key, envs_key, key = jax.random.split(key, 3)
        params = init_q_network(envs, network_key)
        moments = optimizer(args).init(params)
        return TrainState(params, moments, envs.reset(envs_key), key, jnp.int32(0))

    def iterate(args: Args, state: TrainState) -> tuple[TrainState, Row, Ended]:
        """Collect a rollout and learn from it; compiled, many times in one call."""
        key, exploring, choosing, stepping, shuffling = jax.random.split(state.key, 5)
        learning_rate = jnp.float32(args.learning_rate)
        if args.anneal_lr:
            num_iterations = args.total_timesteps // batch_size
            learning_rate *= 1.0 - state.iteration / num_iterations

        # Collect a rollout, each environment at random with probability epsilon
        duration = args.exploration_fraction * args.total_timesteps
        slope = (args.end_e - args.start_e) / duration
        steps = state.iteration * batch_size + jnp.arange(args.num_steps) * args.num_envs
        epsilons = jnp.maximum(args.start_e + slope * steps, args.end_e)
        shape = (args.num_steps, args.num_envs)
        explores = jax.random.uniform(exploring, shape) < epsilons[:, None]
        at_random = jax.random.randint(choosing, shape, 0, actions_n)

        def act(games: Games, now: tuple) -> tuple:
            explore, at_random, draw = now
            best = q_network(state.params, games.obs).argmax(axis=1)
            actions = jnp.where(explore, at_random, best)
            after, outcome = envs.step(games, actions, draw)
            return after, Sample(games.obs, actions, outcome)

        random = (explores, at_random, envs.draws(stepping, args.num_steps))
        games, samples = jax.lax.scan(act, state.games, random, unroll=envs.unroll)

        # speed: the network did not change during the rollout, so one pass is enough
        next_values = q_network(state.params, samples.outcome.next_obs).max(axis=-1)
        returns = q_lambda_returns(args, samples.outcome, next_values)

        # Flatten the batch
        batch = {"obs": samples.obs, "actions": samples.actions, "returns": returns}
        batch = jax.tree.map(lambda rows: rows.reshape(batch_size, *rows.shape[2:]), batch)

        # Learn from the rollout
        radam = optimizer(args)

        def update(carry: tuple, rows: Array) -> tuple:
            """Move the values of the actions taken towards their returns."""
            params, moments = carry
            mb = jax.tree.map(lambda values: values[rows], batch)
            losses, gradient = jax.value_and_grad(td_loss, has_aux=True)(params, mb)
            direction, moments = radam.update(gradient, moments)
            params = jax.tree.map(lambda p, d: p - learning_rate * d, params, direction)
            return (params, moments), losses

        def epoch(carry: tuple, key: Array) -> tuple:
            rows = jax.random.permutation(key, batch_size).reshape(-1, minibatch_size)
            return jax.lax.scan(update, carry, rows, unroll=unroll())

        keys = jax.random.split(shuffling, args.update_epochs)
        (params, moments), (losses, q_values) = jax.lax.scan(
            epoch, (state.params, state.moments), keys
        )
        row = {
            "charts/learning_rate": learning_rate,
            "losses/td_loss": losses[-1, -1],
            "losses/q_values": q_values[-1, -1],
        }
        after = TrainState(params, moments, games, key, state.iteration + 1)
        return after, row, ended_episodes(samples.outcome)

    Learner(args, run, envs, init, iterate, batch_size).train()


if __name__ == "__main__":
    main(Args, train)
