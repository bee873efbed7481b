"""Proximal Policy Optimization (Schulman et al., 2017) with memory, on the device.

Alternate between collecting a short rollout with the current policy and several epochs of
minibatch updates on it. The clipped ratio keeps each update close to the policy that
collected the data. The agent remembers the past with an LSTM; a minibatch therefore holds
whole rollouts of some environments. These are in JAX too, so that one compiled program does
it all.
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
from cleanrl_worker.kit.inference import Policy, categorical_policy
from cleanrl_worker.kit.jax_backend import Array, jax, jnp, optax, trained
from cleanrl_worker.kit.recurrent import ArrayMemory, RecurrentPolicy, actor_and_critic
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch
from cleanrl_worker.ondevice.batch import DeviceEnvs, Ended, Games, Outcome, ended_episodes
from cleanrl_worker.ondevice.learner import Learner, Row
from cleanrl_worker.ondevice.loops import unroll
from cleanrl_worker.ondevice.members import chosen_member

ALGORITHM = {
    "title": "Proximal Policy Optimization with an LSTM, on the device",
    "paper": "Schulman et al. 2017, https://arxiv.org/abs/1707.06347",
    "family": "PPO",
    "actions": ["discrete"],
    "observations": ["vector"],
    "default_env": "mosaic/Recall-v0",
    "requires": ["base", "jax"],
    "on_device": True,
}
SMOKE = {"total_timesteps": 4096}
HIDDEN = 64


@dataclass
class Args(DeviceArgs):
    exp_name: str = "ppo_rnn_ondevice"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "mosaic/Recall-v0"
    """the id of the environment"""
    total_timesteps: int = 500000
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


class TrainState(NamedTuple):
    """Everything that changes."""

    params: Params
    moments: optax.OptState
    games: Games
    memory: Array
    """what is remembered of each environment, `(2, num_envs, HIDDEN)`"""
    begins: Array
    """1 where an episode begins, and what is remembered belongs to the one before"""
    key: Array
    iteration: Array


class Sample(NamedTuple):
    """What one step of every environment leaves for learning."""

    obs: Array
    begins: Array
    actions: Array
    logprobs: Array
    values: Array
    memory: Array
    """what is remembered after the step"""
    outcome: Outcome


def init_agent(envs: Batch, key: Array) -> Params:
    """Parameters of one trunk, an LSTM, and two heads: action logits and the value."""
    inputs = math.prod(envs.single_observation_space.shape)
    actions = int(envs.single_action_space.n)
    keys = jax.random.split(key, 5)
    orthogonal = jax.nn.initializers.orthogonal(1.0)
    return {
        "trunk": dense(keys[0], inputs, 64, math.sqrt(2)),
        "lstm": {
            "kernel": orthogonal(keys[1], (64, 4 * HIDDEN)),
            "recurrent": orthogonal(keys[2], (HIDDEN, 4 * HIDDEN)),
            "bias": jnp.zeros(4 * HIDDEN),
        },
        "actor": dense(keys[3], HIDDEN, actions, 0.01),
        "critic": dense(keys[4], HIDDEN, 1, 1.0),
    }


def features(params: Params, obs: Array) -> Array:
    """What observations contribute to the gates of the LSTM; NumPy arrays give NumPy arrays."""
    tanh = np.tanh if isinstance(obs, np.ndarray) else jnp.tanh
    return linear(params["lstm"], tanh(linear(params["trunk"], obs)))


def lstm(params: Params, inputs: Array, begins: Array, memory: Array) -> Array:
    """What is remembered after one more step (Hochreiter and Schmidhuber, 1997).

    Where an episode begins, the past is forgotten first. The first part is also the output.
    """
    xp = np if isinstance(inputs, np.ndarray) else jnp
    output, cell = memory * (1.0 - begins)[:, None]
    gates = inputs + output @ params["lstm"]["recurrent"]
    take, keep, new, show = xp.split(gates, 4, axis=-1)

    def share(gate: Array) -> Array:
        return 0.5 * (xp.tanh(0.5 * gate) + 1.0)  # the logistic function, without overflow

    cell = share(keep) * cell + share(take) * xp.tanh(new)
    return xp.stack([share(show) * xp.tanh(cell), cell])


def critic(params: Params, output: Array) -> Array:
    """State values, without an axis of their own."""
    return linear(params["critic"], output).squeeze(-1)


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    params = trained(partial(init_agent, envs), chosen_member(args, model))

    def step(obs: np.ndarray, begins: np.ndarray, memory: np.ndarray) -> tuple:
        memory = lstm(params, features(params, obs), begins, memory)
        return linear(params["actor"], memory[0]), critic(params, memory[0]), memory

    memory = ArrayMemory(step, np.zeros((2, envs.num_envs, HIDDEN), np.float32))
    return RecurrentPolicy(memory, categorical_policy(*actor_and_critic(memory)))


def gae(args: Args, outcome: Outcome, values: Array, next_values: Array) -> Array:
    """Advantages (Schulman et al., 2016): A(t) = delta(t) + gamma lambda A(t+1), where
    delta(t) = r(t) + gamma V(t+1) - V(t).

    The next value is that of the true next state, so a truncated episode is bootstrapped like any
    other step. Only termination makes it worthless; any end stops the sum over later steps.
    """
    goes_on = 1.0 - (outcome.terminated | outcome.truncated)
    deltas = outcome.rewards + args.gamma * (1.0 - outcome.terminated) * next_values - values
    decay = args.gamma * args.gae_lambda * goes_on

    def backwards(following: Array, now: tuple) -> tuple:
        delta, decay = now
        following = delta + decay * following
        return following, following

    _, advantages = jax.lax.scan(
        backwards, jnp.zeros_like(values[0]), (deltas, decay), reverse=True, unroll=unroll()
    )
    return advantages


def ppo_loss(params: Params, args: Args, mb: dict) -> tuple[Array, Row]:
    """The loss of a minibatch, and what is logged of it."""

    def remember(memory: Array, now: tuple) -> tuple:
        memory = lstm(params, *now, memory)
        return memory, memory[0]

    # speed: what does not depend on the memory is computed for all steps at once
    inputs = features(params, mb["obs"])
    steps = (inputs, mb["begins"])
    _, outputs = jax.lax.scan(remember, mb["memory"], steps, unroll=unroll())
    log_probs = jax.nn.log_softmax(linear(params["actor"], outputs))
    new_values = critic(params, outputs)
    entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
    logprobs = jnp.take_along_axis(log_probs, mb["actions"][..., None], -1)[..., 0]
    logratio = logprobs - mb["logprobs"]
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
    if args.num_envs % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide --num-envs "
            f"{args.num_envs}: a minibatch holds whole rollouts of some environments."
        )

    envs = DeviceEnvs(args.env_id, args.num_envs)
    run.check_spaces(envs)

    def optimizer(args: Args) -> optax.GradientTransformation:
        clip = optax.clip_by_global_norm(args.max_grad_norm)
        return optax.chain(clip, optax.scale_by_adam(eps=1e-5))

    def init(args: Args, key: Array) -> TrainState:
        agent_key, envs_key, key = jax.random.split(key, 3)
        params = init_agent(envs, agent_key)
        moments = optimizer(args).init(params)
        memory, begins = jnp.zeros((2, args.num_envs, HIDDEN)), jnp.ones(args.num_envs)
        games = envs.reset(envs_key)
        return TrainState(params, moments, games, memory, begins, key, jnp.int32(0))

    def iterate(args: Args, state: TrainState) -> tuple[TrainState, Row, Ended]:
        """Collect a rollout and learn from it; compiled, many times in one call."""
        key, acting, stepping, shuffling = jax.random.split(state.key, 4)
        learning_rate = jnp.float32(args.learning_rate)
        if args.anneal_lr:
            num_iterations = args.total_timesteps // batch_size
            learning_rate *= 1.0 - state.iteration / num_iterations

        # Collect a rollout
        def act(carry: tuple, now: tuple) -> tuple:
            games, memory, begins = carry
            noise, draw = now
            memory = lstm(state.params, features(state.params, games.obs), begins, memory)
            logits, values = (
                linear(state.params["actor"], memory[0]),
                critic(state.params, memory[0]),
            )
            actions = (logits + noise).argmax(axis=-1)
            logprobs = jnp.take_along_axis(jax.nn.log_softmax(logits), actions[:, None], 1)[:, 0]
            after, outcome = envs.step(games, actions, draw)
            sample = Sample(games.obs, begins, actions, logprobs, values, memory, outcome)
            begins = (outcome.terminated | outcome.truncated).astype(jnp.float32)
            return (after, memory, begins), sample

        # speed: the Gumbel noise that turns argmax into a sample, for all steps at once
        shape = (args.num_steps, args.num_envs, int(envs.single_action_space.n))
        noise = jax.random.gumbel(acting, shape)
        draws = envs.draws(stepping, args.num_steps)
        first = (state.games, state.memory, state.begins)
        final, samples = jax.lax.scan(act, first, (noise, draws), unroll=envs.unroll)

        # The value of each true next state, given what was remembered until then
        following = features(state.params, samples.outcome.next_obs)
        look = jax.vmap(partial(lstm, state.params, begins=jnp.zeros(args.num_envs)))
        next_values = critic(state.params, look(following, memory=samples.memory)[:, 0])
        values = samples.values
        advantages = gae(args, samples.outcome, values, next_values)
        returns = advantages + values

        # Rollouts stay whole, so that the memory can follow them through time
        batch = {
            "obs": samples.obs,
            "begins": samples.begins,
            "actions": samples.actions,
            "logprobs": samples.logprobs,
            "advantages": advantages,
            "returns": returns,
            "values": values,
        }
        batch["memory"] = state.memory

        # Optimise the policy and the value network
        adam = optimizer(args)

        def update(carry: tuple, some: Array) -> tuple:
            """One gradient step on a minibatch; none once the policy has moved too far."""
            params, moments, stopped = carry
            mb = jax.tree.map(lambda values: values[:, some], batch)
            (_, losses), gradient = jax.value_and_grad(ppo_loss, has_aux=True)(params, args, mb)
            direction, new_moments = adam.update(gradient, moments)
            new_params = jax.tree.map(lambda p, d: p - learning_rate * d, params, direction)
            if args.target_kl is not None:
                keep = partial(jax.tree.map, partial(jnp.where, stopped))
                new_params, new_moments = keep(params, new_params), keep(moments, new_moments)
            return (new_params, new_moments, stopped), losses

        def epoch(carry: tuple, key: Array) -> tuple:
            order = jax.random.permutation(key, args.num_envs)
            some = order.reshape(args.num_minibatches, -1)
            ran = ~carry[2]
            carry, losses = jax.lax.scan(update, carry, some)
            params, moments, stopped = carry
            if args.target_kl is not None:
                stopped |= losses["losses/approx_kl"][-1] > args.target_kl
            return (params, moments, stopped), (losses, ran)

        keys = jax.random.split(shuffling, args.update_epochs)
        (params, moments, _), (losses, ran) = jax.lax.scan(
            epoch, (state.params, state.moments, jnp.array(False)), keys
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
        after = TrainState(params, moments, *final, key, state.iteration + 1)
        return after, row, ended_episodes(samples.outcome)

    Learner(args, run, envs, init, iterate, batch_size).train()


if __name__ == "__main__":
    main(Args, train)
