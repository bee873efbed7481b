"""Deep Q-Network (Mnih et al., 2015) for flat observations, on the device.

Learn the value of each action by moving it towards the reward plus the discounted value of
the best next action, as a slow copy of the network (the target network) estimates it.
Environments and replay memory are in JAX too, so that one compiled program does it all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from cleanrl_worker.agents.jax_layers import TORCH_WEIGHTS, Layers, dense, linear, relu
from cleanrl_worker.kit.args import DeviceArgs
from cleanrl_worker.kit.inference import Policy, greedy_policy
from cleanrl_worker.kit.jax_backend import Array, jax, jnp, optax, trained
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch
from cleanrl_worker.ondevice.batch import DeviceEnvs, Ended, Games, ended_episodes
from cleanrl_worker.ondevice.learner import Learner, Row
from cleanrl_worker.ondevice.members import chosen_member
from cleanrl_worker.ondevice.replay import Memory, Transitions, draw, empty_memory, remember

ALGORITHM = {
    "title": "Deep Q-Network, on the device",
    "paper": "Mnih et al. 2015, https://doi.org/10.1038/nature14236",
    "family": "Q-learning",
    "actions": ["discrete"],
    "observations": ["vector"],
    "default_env": "CartPole-v1",
    "requires": ["base", "jax"],
    "on_device": True,
}
SMOKE = {"total_timesteps": 2000, "learning_starts": 500, "buffer_size": 2000}
# Steps of each environment in one iteration; losses are logged as often as in dqn.py.
TURNS = 100


@dataclass
class Args(DeviceArgs):
    exp_name: str = "dqn_ondevice"
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


class TrainState(NamedTuple):
    """Everything that changes."""

    params: Layers
    target_params: Layers
    moments: optax.OptState
    memory: Memory
    games: Games
    key: Array
    global_step: Array
    td_loss: Array
    q_values: Array


def init_q_network(envs: Batch, key: Array) -> Layers:
    """Parameters of the network from an observation to the value of each action."""
    keys = jax.random.split(key, 3)
    return [
        dense(keys[0], math.prod(envs.single_observation_space.shape), 120, draw=TORCH_WEIGHTS),
        dense(keys[1], 120, 84, draw=TORCH_WEIGHTS),
        dense(keys[2], 84, int(envs.single_action_space.n), draw=TORCH_WEIGHTS),
    ]


def q_network(params: Layers, obs: Array) -> Array:
    """The value of each action; NumPy arrays give NumPy arrays."""
    hidden = relu(linear(params[0], obs))
    hidden = relu(linear(params[1], hidden))
    return linear(params[2], hidden)


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    params = trained(partial(init_q_network, envs), chosen_member(args, model))
    return greedy_policy(partial(q_network, params), epsilon=args.end_e)


def td_loss(params: Layers, args: Args, target_params: Layers, data: Transitions) -> tuple:
    """The squared error of the values, and their mean."""
    target_max = q_network(target_params, data.next_obs).max(axis=1)
    td_target = data.rewards + args.gamma * target_max * (1 - data.dones)
    old_value = jnp.take_along_axis(q_network(params, data.obs), data.actions[:, None], axis=1)[
        :, 0
    ]
    return jnp.square(old_value - td_target).mean(), old_value.mean()


def train(args: Args, run: Run) -> None:
    envs = DeviceEnvs(args.env_id, args.num_envs)
    run.check_spaces(envs)
    actions_n = int(envs.single_action_space.n)
    adam = optax.scale_by_adam()

    def init(args: Args, key: Array) -> TrainState:
        network_key, envs_key, key = jax.random.split(key, 3)
        params = init_q_network(envs, network_key)
        memory, games = empty_memory(envs, args.buffer_size), envs.reset(envs_key)
        nothing = jnp.float32(0)
        # A copy: two names for one array could not both be given to the compiled program.
        target_params = jax.tree.map(jnp.copy, params)
        moments = adam.init(params)
        return TrainState(
            params, target_params, moments, memory, games, key, jnp.int32(0), nothing, nothing
        )

    def iterate(args: Args, state: TrainState) -> tuple[TrainState, Row, Ended]:
        """Take some steps and learn from the memory; compiled, many times in one call."""
        key, stepping, *keys = jax.random.split(state.key, 5)
        draws = envs.draws(stepping, TURNS)
        exploring, choosing, drawing = (jax.random.split(one, TURNS) for one in keys)

        def update(state: TrainState, key: Array) -> tuple:
            """One gradient step: the network, its moments, and what is logged."""
            data = draw(state.memory, key, args.batch_size)
            loss = partial(td_loss, args=args, target_params=state.target_params, data=data)
            (error, q_values), gradient = jax.value_and_grad(loss, has_aux=True)(state.params)
            step, moments = adam.update(gradient, state.moments)
            params = jax.tree.map(lambda p, s: p - args.learning_rate * s, state.params, step)
            return params, moments, error, q_values

        def turn(state: TrainState, now: tuple) -> tuple:
            envs_draw, exploring, choosing, drawing = now
            # Act: at random with probability epsilon, else greedily
            duration = args.exploration_fraction * args.total_timesteps
            slope = (args.end_e - args.start_e) / duration
            epsilon = jnp.maximum(slope * state.global_step + args.start_e, args.end_e)
            at_random = jax.random.randint(choosing, (args.num_envs,), 0, actions_n)
            greedy = q_network(state.params, state.games.obs).argmax(axis=1)
            actions = jnp.where(jax.random.uniform(exploring) < epsilon, at_random, greedy)
            games, outcome = envs.step(state.games, actions, envs_draw)

            # The state that followed, not the one a new episode began with
            memory = remember(state.memory, state.games, actions, outcome)
            state = state._replace(memory=memory, games=games)

            # Learn, and let the target network follow, each at its own frequency
            def every(steps: int) -> Array:
                learning = state.global_step >= args.learning_starts
                return learning & (state.global_step % steps < args.num_envs)

            # speed: only what may change goes through a branch, which copies it; not the memory
            params, moments, error, q_values = jax.lax.cond(
                every(args.train_frequency),
                lambda: update(state, drawing),
                lambda: (state.params, state.moments, state.td_loss, state.q_values),
            )
            target_params = jax.lax.cond(
                every(args.target_network_frequency),
                lambda: optax.incremental_update(params, state.target_params, args.tau),
                lambda: state.target_params,
            )
            state = state._replace(
                params=params, target_params=target_params, moments=moments,
                td_loss=error, q_values=q_values,
            )  # fmt: skip
            return state._replace(global_step=state.global_step + args.num_envs), outcome

        random = (draws, exploring, choosing, drawing)
        state, outcomes = jax.lax.scan(turn, state._replace(key=key), random)
        row = {"losses/td_loss": state.td_loss, "losses/q_values": state.q_values}
        return state, row, ended_episodes(outcomes)

    Learner(args, run, envs, init, iterate, TURNS * args.num_envs).train()


if __name__ == "__main__":
    main(Args, train)
