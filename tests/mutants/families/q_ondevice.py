"""DQN and PQN on the device: each compiled iteration is computed again in torch."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mutants import reference
from mutants.learning import Learning
from mutants.on_device import (
    DISCRETE,
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
    and the target network begin at their step and keep their frequencies."""
    turns, args = _dqn_turns(subject)
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
        for step in range(turn.step, turn.step + 100):
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
            if step % args.target_network_frequency == 0:
                with torch.no_grad():
                    for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                        slow.copy_((1 - args.tau) * slow + args.tau * fast)
        assert next(draws, None) is None, "it learned more often than it should"
        _assert_same(online, layers_of(turn.after["agent"]))
        _assert_same(target, layers_of(turn.after["state"], ".target_params"))
        if turn.draws:
            np.testing.assert_allclose(turn.logged["losses/td_loss"], loss.item(), rtol=2e-3)


def memory_holds_what_happened(subject: Subject) -> None:
    """Truncation is no end, no transition leads into the next episode, and only the newest
    transitions are kept."""
    turns, args = _dqn_turns(subject, train_frequency=1)
    reference.assert_true_transitions(turns)
    steps = [step for turn in turns for step in turn.steps]
    newest = {step.obs[0].tobytes() for step in steps[-args.buffer_size :]}
    last = turns[-1].draws[-1].batch.obs.numpy()
    assert all(row.tobytes() in newest for row in last)


def exploration_falls_from_random_to_greedy(subject: Subject) -> None:
    """Actions are random at first; later the greedy one is taken, except with probability end-e."""
    settings = {"exploration_fraction": 0.25, "end_e": 0.1, "learning_starts": 10_000}
    turns, _ = _dqn_turns(subject, total_timesteps=800, **settings)
    online = _load(reference.mlp([3, 120, 84, 3]), layers_of(turns[0].before["agent"]))
    steps = [step for turn in turns for step in turn.steps]
    best = [int(online(torch.from_numpy(step.obs)).argmax()) for step in steps]
    greedy = [int(step.actions[0]) == one for step, one in zip(steps, best, strict=True)]
    assert np.mean(greedy[:60]) < 0.8
    assert 0.86 < np.mean(greedy[200:]) < 0.98


def _best(q: nn.Module, obs: Tensor) -> Tensor:
    values: Tensor = q(obs.flatten(0, 1))
    return values.amax(-1).view(obs.shape[:2])


def iterations_are_those_of_pqn(subject: Subject) -> None:
    """Weights after each iteration are those of a plain implementation: Q(lambda) returns summed by
    their definition, torch's own RAdam and clipping. Episodes end both ways."""
    turns, args = rehearse_on_device(subject.module, **_PQN)
    kinds = set()
    for turn in turns:
        sizes = (nn.Linear(3, 120), nn.LayerNorm(120), nn.ReLU(), nn.Linear(120, 84))
        q = nn.Sequential(*sizes, nn.LayerNorm(84), nn.ReLU(), nn.Linear(84, 3))
        _load(q, layers_of(turn.before["agent"]))
        rollout = Rollout.of(turn)
        kinds |= rollout.kinds
        with torch.no_grad():
            returns = q_lambda_returns(rollout, partial(_best, q), args.gamma, args.q_lambda)
        lr = (1 - turn.step / args.total_timesteps) * args.learning_rate
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
        np.testing.assert_allclose(turn.logged["losses/td_loss"], loss.item(), rtol=2e-3)
        _assert_same(q, layers_of(turn.after["agent"]))
    assert kinds == {"terminated", "truncated"}


_LEARNS, _REMEMBERS = (iterations_are_those_of_dqn,), (memory_holds_what_happened,)
_EXPLORES, _TURN = (exploration_falls_from_random_to_greedy,), (iterations_are_those_of_pqn,)

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
    )
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
