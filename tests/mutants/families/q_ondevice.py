"""DQN and PQN on the device: each compiled iteration is computed again in torch."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mutants import reference
from mutants.harmless import Harmless
from mutants.learning import Learning
from mutants.on_device import (
    DISCRETE,
    as_linear,
    assert_uniform,
    begun,
    layers_of,
    plain_moments,
    rehearse_on_device,
    watch_draws,
)
from mutants.rollouts import Rollout, plain_adam, q_lambda_returns
from mutants.subject import Mutant, Subject
from mutants.trial import Turn

DQN = "cleanrl/dqn_ondevice.py"
PQN = "cleanrl/pqn_ondevice.py"
_PARTS = ("kernel", "bias", "scale", "shift")
_DQN: dict[str, Any] = {
    "env_id": DISCRETE,
    "total_timesteps": 300,
    "learning_starts": 120,
    "buffer_size": 90,
    "batch_size": 16,
    "train_frequency": 3,
    "target_network_frequency": 7,
    "gamma": 0.9,
    "tau": 0.3,
    "learning_rate": 1e-2,
}
_PQN: dict[str, Any] = {
    "env_id": DISCRETE,
    "total_timesteps": 192,
    "num_envs": 3,
    "num_steps": 16,
    "num_minibatches": 3,
    "update_epochs": 2,
    "learning_rate": 3e-3,
    "gamma": 0.9,
    "q_lambda": 0.6,
    "max_grad_norm": 0.3,
}


def _load(network: nn.Module, layers: list[dict[str, Tensor]]) -> nn.Module:
    tensors = [layer[part] for layer in layers for part in _PARTS if part in layer]
    return reference.load(network, {str(i): tensor for i, tensor in enumerate(tensors)})


def _assert_same(network: nn.Module, layers: list[dict[str, Tensor]]) -> None:
    tensors = [layer[part] for layer in layers for part in _PARTS if part in layer]
    for parameter, reached in zip(network.parameters(), tensors, strict=True):
        torch.testing.assert_close(reached, parameter.detach(), rtol=2e-3, atol=3e-5)


def _dqn_turns(subject: Subject, **arguments: Any) -> tuple[list[Turn], Any]:
    watch_draws(subject.module)
    return rehearse_on_device(subject.module, **{**_DQN, **arguments})


def iterations_are_those_of_dqn(subject: Subject) -> None:
    """Networks after each iteration are those of a plain implementation with torch's Adam: learning
    and the target network begin at their step and keep their frequencies. Of the newest update the
    loss and the values are logged, and zero before the first."""
    # Of two environments; with one, counting turns would be as good as counting steps.
    turns, args = _dqn_turns(
        subject, num_envs=2, total_timesteps=600, learning_starts=223, train_frequency=6,
        target_network_frequency=14,
    )  # fmt: skip
    begins = layers_of(turns[0].before["agent"])
    _assert_same(
        _load(reference.mlp([3, 120, 84, 3]), begins),
        layers_of(turns[0].before["state"], ".target_params"),
    )
    logged = {"losses/td_loss": 0.0, "losses/q_values": 0.0}
    for turn in turns:
        online, target = (
            _load(reference.mlp([3, 120, 84, 3]), layers)
            for layers in (
                layers_of(turn.before["agent"]),
                layers_of(turn.before["state"], ".target_params"),
            )
        )
        moments = plain_moments(turn.before["state"], ".moments", _PARTS)
        adam = plain_adam(torch.optim.Adam, online, moments, args.learning_rate, 1e-8)
        draws = iter(turn.draws)
        for step in range(turn.step, turn.step + 200, 2):
            if step < args.learning_starts:
                continue
            if step % args.train_frequency == 0:
                batch = next(draws).batch
                with torch.no_grad():
                    best = target(batch.next_obs).max(dim=1).values
                aim = batch.rewards + args.gamma * best * (1 - batch.dones)
                taken = online(batch.obs)[torch.arange(args.batch_size), batch.actions.long()]
                loss = ((taken - aim) ** 2).mean()
                adam.zero_grad()
                loss.backward()
                adam.step()
                logged = {"losses/td_loss": loss.item(), "losses/q_values": taken.mean().item()}
            if step % args.target_network_frequency == 0:
                with torch.no_grad():
                    for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                        slow.copy_((1 - args.tau) * slow + args.tau * fast)
        assert next(draws, None) is None, "it learned more often than it should"
        _assert_same(online, layers_of(turn.after["agent"]))
        _assert_same(target, layers_of(turn.after["state"], ".target_params"))
        _assert_logged(turn, logged)
    assert [bool(turn.draws) for turn in turns] == [False, True, True]


def memory_holds_what_happened(subject: Subject) -> None:
    """Truncation is no end, no transition leads into the next episode, and only the newest
    transitions are kept."""
    turns, args = _dqn_turns(subject, train_frequency=1)
    reference.assert_true_transitions(turns)
    steps = [step for turn in turns for step in turn.steps]
    newest = {step.obs[0].tobytes() for step in steps[-args.buffer_size :]}
    last = turns[-1].draws[-1].batch.obs.numpy()
    assert all(row.tobytes() in newest for row in last)


def _assert_logged(turn: Turn, wanted: dict[str, float]) -> None:
    for name, number in wanted.items():
        np.testing.assert_allclose(turn.logged[name], number, rtol=2e-3, atol=1e-6, err_msg=name)


_SCHEDULE: dict[str, Any] = {
    "total_timesteps": 6400,
    "start_e": 0.9,
    "end_e": 0.1,
    "exploration_fraction": 0.8,
}


def _explores(turns: list[Turn], q: nn.Module, args: Any) -> None:
    """Whether actions are random as often as the schedule says, and greedy otherwise."""
    steps = [step for turn in turns for step in turn.steps]
    taken = np.stack([step.actions for step in steps])
    with torch.no_grad():
        greedy = q(torch.from_numpy(np.stack([step.obs for step in steps]))).argmax(-1).numpy()
    begins = np.arange(len(steps)) * args.num_envs
    fallen = begins / (args.exploration_fraction * args.total_timesteps)
    epsilon = np.maximum(args.start_e + (args.end_e - args.start_e) * fallen, args.end_e)[:, None]

    def assert_about(found: np.ndarray, wanted: np.ndarray) -> None:
        # The environments may all explore at the same time.
        spread = np.sqrt(args.num_envs * wanted.sum())
        assert wanted.sum() > 30
        assert abs(found.sum() - wanted.sum()) < 4 * spread

    for part in np.array_split(np.arange(len(steps)), 8):
        wanted = np.broadcast_to(epsilon[part] * 2 / 3, greedy[part].shape)
        assert_about(taken[part] != greedy[part], wanted)
    for action in range(3):
        other = greedy != action
        assert_about((taken == action) & other, epsilon / 3 * other)


def exploration_falls_from_random_to_greedy(subject: Subject) -> None:
    """Random actions, all equally likely, become rarer from the first step on, until they are as
    rare as they will stay; all others are greedy."""
    settings = {**_SCHEDULE, "num_envs": 2, "learning_starts": 10_000}
    turns, args = _dqn_turns(subject, **settings)
    online = _load(reference.mlp([3, 120, 84, 3]), layers_of(turns[0].before["agent"]))
    _explores(turns, online, args)


def the_network_begins_as_torch_would(subject: Subject) -> None:
    """Weights are uniform within torch's bounds, biases zero, and no two layers are drawn with the
    same random key."""
    layers = begun(subject.module, "init_q_network", DISCRETE)
    for layer, sizes in zip(layers, ((3, 120), (120, 84), (84, 3)), strict=True):
        assert_uniform(layer, *sizes)


def _normalised() -> nn.Sequential:
    sizes = (nn.Linear(3, 120), nn.LayerNorm(120), nn.ReLU(), nn.Linear(120, 84))
    return nn.Sequential(*sizes, nn.LayerNorm(84), nn.ReLU(), nn.Linear(84, 3))


def pqn_explores_ever_less(subject: Subject) -> None:
    """Random actions, all equally likely, become rarer from step to step, also within a rollout,
    until they are as rare as they will stay; all others are greedy."""
    settings = {**_SCHEDULE, "num_envs": 4, "num_steps": 800, "learning_rate": 1e-12}
    settings |= {"num_minibatches": 1, "update_epochs": 1}
    turns, args = rehearse_on_device(subject.module, **{**_PQN, **settings})
    _explores(turns, _load(_normalised(), layers_of(turns[0].before["agent"])), args)


def the_layers_are_normalised(subject: Subject) -> None:
    """Weights begin orthogonal with gain sqrt 2 and each layer drawn with a random key of its own;
    the network is that of torch's own layers, also for rows that hardly differ from zero."""
    layers = begun(subject.module, "init_q_network", DISCRETE)
    for layer, shape in zip(layers, ((120, 3), (84, 120), (3, 84)), strict=True):
        assert as_linear(layer).weight.shape == shape
        reference.assert_orthogonal(as_linear(layer), 2**0.5)
    for layer in layers[:-1]:
        np.testing.assert_array_equal(layer["scale"], 1.0)
        np.testing.assert_array_equal(layer["shift"], 0.0)
    rng = np.random.default_rng(0)
    drawn = [
        {name: rng.normal(size=np.shape(part)).astype(np.float32) for name, part in layer.items()}
        for layer in layers
    ]
    # Without biases, so that only what is added to the variance keeps it from zero.
    drawn[0]["bias"] *= 0.0
    plain = _load(
        _normalised(),
        [{name: torch.from_numpy(part.T) for name, part in layer.items()} for layer in drawn],
    )
    for size in (1.0, 1e-3):
        rows = (size * rng.normal(size=(5, 3))).astype(np.float32)
        wanted = plain(torch.from_numpy(rows)).detach()
        np.testing.assert_allclose(
            subject.module.q_network(drawn, rows), wanted, rtol=1e-3, atol=1e-3
        )


def _best(q: nn.Module, obs: Tensor) -> Tensor:
    values: Tensor = q(obs.flatten(0, 1))
    return values.amax(-1).view(obs.shape[:2])


def iterations_are_those_of_pqn(subject: Subject) -> None:
    """Weights after each iteration are those of a plain implementation: Q(lambda) returns summed by
    their definition, torch's own RAdam and clipping. Episodes end both ways. Of the last minibatch
    the loss and the values are logged, and the learning rate."""
    assert _same_pqn(subject) == {"terminated", "truncated"}


def the_learning_rate_stays(subject: Subject) -> None:
    """Without annealing it is still that of the paper, with one learning rate."""
    _same_pqn(subject, anneal_lr=False)


def _same_pqn(subject: Subject, **arguments: Any) -> set[str]:
    turns, args = rehearse_on_device(subject.module, **{**_PQN, **arguments})
    kinds = set()
    for turn in turns:
        q = _load(_normalised(), layers_of(turn.before["agent"]))
        rollout = Rollout.of(turn)
        kinds |= rollout.kinds
        with torch.no_grad():
            returns = q_lambda_returns(rollout, partial(_best, q), args.gamma, args.q_lambda)
        share = 1 - turn.step / args.total_timesteps if args.anneal_lr else 1.0
        lr = share * args.learning_rate
        moments = plain_moments(turn.before["state"], ".moments[1]", _PARTS)
        radam = plain_adam(torch.optim.RAdam, q, moments, lr, 1e-8)
        obs, actions = rollout.obs.flatten(0, 1), rollout.actions.flatten().long()
        size = len(obs) // args.num_minibatches
        for order in turn.orders:
            for start in range(0, len(obs), size):
                mb = torch.from_numpy(order[start : start + size])
                taken = q(obs[mb])[torch.arange(size), actions[mb]]
                loss = ((taken - returns.flatten()[mb]) ** 2).mean()
                radam.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(q.parameters(), args.max_grad_norm)
                radam.step()
        wanted = {"losses/td_loss": loss.item(), "losses/q_values": taken.mean().item()}
        _assert_logged(turn, {**wanted, "charts/learning_rate": lr})
        _assert_same(q, layers_of(turn.after["agent"]))
    return kinds


_LEARNS, _REMEMBERS = (iterations_are_those_of_dqn,), (memory_holds_what_happened,)
_EXPLORES, _TURN = (exploration_falls_from_random_to_greedy,), (iterations_are_those_of_pqn,)
_BEGINS, _LAYERS = (the_network_begins_as_torch_would,), (the_layers_are_normalised,)
_RANDOM, _STAYS = (pqn_explores_ever_less,), (the_learning_rate_stays,)

# All slow: each compiles a program of its own, which takes seconds.
MUTANTS = [
    Mutant(file, old, new, why, checks, slow=True)
    for file, old, new, why, checks in (
        (DQN, " * (1 - data.dones)", "", "the future counts after the end", _LEARNS),
        (DQN, "q_network(target_params, ", "q_network(params, ", "no target network", _LEARNS),
        (DQN, ".max(axis=1)\n", ".mean(axis=1)\n", "the average of the next values", _LEARNS),
        (DQN, "data.actions[:, None]", "0 * data.actions[:, None]", "another action", _LEARNS),
        (DQN, "state.target_params, args.tau)", "state.target_params, 1.0)", "no tau", _LEARNS),
        (DQN, "every(args.train_frequency)", "every(1)", "it learns at every step", _LEARNS),
        (DQN, "state.global_step >= args.learning_starts", "True", "it starts early", _LEARNS),
        (
            DQN,
            "remember(state.memory, state.games, actions, outcome)",
            "remember(state.memory, state.games, actions, outcome._replace(next_obs=games.obs))",
            "the reset state as the next state",
            _REMEMBERS,
        ),
        (DQN, "(exploring) < epsilon", "(exploring) < args.start_e", "random for ever", _EXPLORES),
        (DQN, "(exploring) < epsilon", "(exploring) < -1", "no exploration", _EXPLORES),
        (DQN, "), 0, actions_n)", "), 1, actions_n)", "an action is never tried", _EXPLORES),
        (DQN, "jnp.copy, params", "jnp.zeros_like, params", "a target of zeros", _LEARNS),
        (DQN, "TURNS * args.num_envs", "TURNS", "too few steps are counted", _LEARNS),
        (DQN, "old_value.mean()", "old_value.sum()", "a curve of sums", _LEARNS),
        (DQN, "dense(keys[1]", "dense(keys[0]", "the same random numbers twice", _BEGINS),
        (DQN, "84, draw=TORCH_WEIGHTS", "84", "other weights than torch's", _BEGINS),
        (PQN, "(1 - terminated) * ", "", "termination is ignored", _TURN),
        (PQN, "jnp.where(ended, value, mixed)", "mixed", "returns cross episodes", _TURN),
        (PQN, "args.q_lambda * following + ", "0 * following + ", "lambda is ignored", _TURN),
        (
            PQN,
            "optax.clip_by_global_norm(args.max_grad_norm)",
            "optax.identity()",
            "no clip",
            _TURN,
        ),
        (PQN, "centred / spread", "centred", "no layer normalisation", _TURN),
        (PQN, "1.0 - state.iteration /", "1.0 + state.iteration /", "the rate rises", _TURN),
        (PQN, "if args.anneal_lr:", "if True:", "--no-anneal-lr is ignored", _STAYS),
        (PQN, "old_values.mean()", "old_values.sum()", "a curve of sums", _TURN),
        (PQN, "0, actions_n", "1, actions_n", "an action is never tried", _RANDOM),
        (PQN, "state.iteration * batch_size + ", "", "each rollout explores again", _RANDOM),
        (PQN, "+ 1e-5)", "+ 1e-3)", "small values are damped", _LAYERS),
        (PQN, "split(key, 3), math.sqrt(2)", "split(key, 3), 1.0", "smaller weights", _LAYERS),
    )
]

_LAST = "there is no such place, and JAX then takes the last one, which is the one that is meant"
HARMLESS = [
    Harmless("keys = jax.random.split(key, 3)", "3", "", "keys to spare", ("dqn_ondevice",)),
    Harmless("jax.random.split(key, 3), math", "3", "", "keys to spare", ("pqn_ondevice",)),
    Harmless("dense(keys[2], ", "2", "", _LAST, ("dqn_ondevice",)),
    Harmless("jnp.take_along_axis(values", "0", "1", _LAST, ("pqn_ondevice",)),
    Harmless("        :, 0", "0", "1", _LAST, ("dqn_ondevice",)),
]

LEARNING = [
    Learning(
        "dqn_ondevice",
        "--total-timesteps 25000 --learning-starts 1000 --exploration-fraction 0.3 "
        "--target-network-frequency 250 --learning-rate 1e-3 --seed 2",
        "--learning-rate 1e-12",
        2,
        slow=True,
    ),
    Learning("pqn_ondevice", "--total-timesteps 60000", "--learning-rate 1e-12", 2, slow=True),
]
