"""DQN: what its target, its loss, its target network and its exploration must be."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mutants import reference
from mutants.learning import CATCH, Learning
from mutants.noise_envs import DISCRETE
from mutants.subject import Check, Mutant, Subject
from mutants.trial import Turn, rehearse

GAMMA = 0.9
FLAT: dict[str, Any] = {
    "env_id": DISCRETE,
    "total_timesteps": 60,
    "learning_starts": 20,
    "buffer_size": 64,
    "batch_size": 16,
    "train_frequency": 3,
    "target_network_frequency": 7,
    "gamma": GAMMA,
    "learning_rate": 1e-2,
}
FRAMES: dict[str, Any] = {
    **FLAT,
    "env_id": "mosaic/Catch-v0",
    "total_timesteps": 24,
    "learning_starts": 10,
    "batch_size": 4,
    "learning_rate": 1e-3,
}


def _turns(subject: Subject, **arguments: object) -> list[Turn]:
    settings = FRAMES if "atari" in subject.name else FLAT
    return rehearse(subject.module, **{**settings, **arguments})


def _network(subject: Subject, state: dict[str, Tensor]) -> nn.Module:
    network = reference.nature_cnn(4) if "atari" in subject.name else reference.mlp([3, 120, 84, 3])
    return reference.load(network, state)


def _numbers(subject: Subject, obs: Tensor) -> Tensor:
    return obs / 255 if "atari" in subject.name else obs


def gradient_is_that_of_the_squared_error(subject: Subject) -> None:
    """Each update follows the gradient of the mean squared difference to the reward plus the
    discounted largest value of the next state under the target network, zero after the end."""
    for turn in reference.learning_turns(_turns(subject)):
        online = _network(subject, turn.before["q_network"])
        target = _network(subject, turn.before["target_network"])
        batch = turn.draws[0].batch
        following = target(_numbers(subject, batch.next_obs)).detach()
        aim = batch.rewards + GAMMA * following.max(dim=1).values * (1 - batch.dones)
        values = online(_numbers(subject, batch.obs))
        taken = values[torch.arange(len(values)), batch.actions[:, 0]]
        loss = ((taken - aim) ** 2).mean()
        expected = reference.gradient_of(loss, online)
        reference.assert_same_gradient(reference.learned_gradient(turn), expected)


def gradient_is_that_of_the_squared_error_in_jax(subject: Subject) -> None:
    """The same with JAX's own differentiation of the loss written out."""
    import jax
    import jax.numpy as jnp

    values = subject.module.q_values
    for turn in reference.learning_turns(_turns(subject)):
        batch = turn.draws[0].batch
        data = {name: getattr(batch, name).numpy() for name in ("obs", "next_obs", "rewards")}
        following = np.asarray(values(turn.before["target_network"], jnp.asarray(data["next_obs"])))
        aim = data["rewards"] + GAMMA * following.max(axis=1) * (1 - batch.dones.numpy())
        rows, actions = np.arange(len(aim)), batch.actions.numpy()[:, 0]

        def loss(params: Any, obs: Any, aim: Any = aim, at: Any = (rows, actions)) -> Any:
            return jnp.mean((values(params, obs)[at] - aim) ** 2)

        expected = jax.grad(loss)(turn.before["q_network"], jnp.asarray(data["obs"]))
        reference.assert_same_tree(reference.learned_tree(turn), expected)


def memory_holds_what_happened(subject: Subject) -> None:
    """Truncation is no end, and no transition leads into the next episode."""
    reference.assert_true_transitions(_turns(subject, total_timesteps=150))


def memory_of_frames_holds_what_happened(subject: Subject) -> None:
    """A lost life ends an episode, and stacks never mix two games."""
    turns = _turns(
        subject, total_timesteps=64, learning_starts=56, train_frequency=1, batch_size=32
    )
    reference.assert_true_transitions(turns, frozenset({"terminated", "ordinary"}))


def target_network_moves_when_it_should(subject: Subject) -> None:
    """The target is equal to the network at the start, and moves by tau every seven steps once
    learning has started, whether or not the network learns in that step."""
    follows = (
        reference.assert_tree_follows if "jax" in subject.name else reference.assert_target_follows
    )
    settings = FRAMES if "atari" in subject.name else FLAT
    turns = _turns(subject, tau=0.3)
    for turn in turns:
        moves = turn.step >= settings["learning_starts"] and turn.step % 7 == 0
        follows(turn, "target_network", "q_network", 0.3 if moves else 0.0)
    start = turns[0].before
    twins = Turn(0, {"target": start["target_network"]}, {"target": start["q_network"]})
    follows(twins, "target", "target", 0.0)


def exploration_falls_from_random_to_greedy(subject: Subject) -> None:
    """Actions are random at first; later the greedy one is taken, except with probability end-e."""
    count = 160 if "atari" in subject.name else 400
    settings = {"exploration_fraction": 0.2, "end_e": 0.1, "learning_starts": count}
    turns = _turns(subject, total_timesteps=count, **settings)
    state = turns[0].before["q_network"]
    if "jax" in subject.name:
        network = partial(subject.module.q_values, state)
        best = [np.asarray(network(turn.steps[0].obs)).argmax() for turn in turns]
    else:
        online = _network(subject, state)
        seen = [_numbers(subject, torch.from_numpy(turn.steps[0].obs)) for turn in turns]
        best = [int(online(obs).argmax()) for obs in seen]
    greedy = [int(turn.steps[0].actions[0]) == one for turn, one in zip(turns, best, strict=True)]
    assert np.mean(greedy[: count // 10]) < 0.8
    assert 0.84 < np.mean(greedy[count // 5 :]) < 0.99


def starts_without_anything_to_draw(subject: Subject) -> None:
    """With --learning-starts 0 learning begins as soon as there is something to learn from."""
    turns = _turns(subject, learning_starts=0, train_frequency=1, total_timesteps=6)
    assert sum(reference.updated(turn) for turn in turns) >= 4


def _mutants(name: str) -> list[Mutant]:
    file = f"cleanrl/{name}.py"
    in_jax, frames = "jax" in name, "atari" in name
    gradient: tuple[Check, ...] = (
        (gradient_is_that_of_the_squared_error_in_jax,)
        if in_jax
        else (gradient_is_that_of_the_squared_error,)
    )
    target: tuple[Check, ...] = (target_network_moves_when_it_should,)
    explores: tuple[Check, ...] = (exploration_falls_from_random_to_greedy,)
    memory: tuple[Check, ...] = (
        (memory_of_frames_holds_what_happened,) if frames else (memory_holds_what_happened,)
    )
    ends = ' * (1 - data["dones"])' if in_jax else " * (1 - dones)"
    online, slow = ("params, ", "target_params, ") if in_jax else ("q_network(", "target_network(")
    if in_jax:
        best = f'q_values({slow}data["next_obs"]).max(axis=1)'
        taken = ('data["actions"], axis=1)', '0 * data["actions"], axis=1)')
        moves = "q_network.value, target_network.value, args.tau\n"
        stuck = "target_network.value, target_network.value, args.tau\n"
        jumps = "q_network.value, target_network.value, 1.0\n"
        average = best.replace("max(", "mean(")
        itself = ('data["next_obs"]).max', 'data["obs"]).max')
    else:
        best, average = f"{slow}next_obs).amax(dim=1)", f"{slow}next_obs).mean(dim=1)"
        taken = (".gather(1, actions)", ".gather(1, 0 * actions)")
        moves, stuck = "target.lerp_(source, args.tau)", "target.lerp_(source, 0.0)"
        jumps = "target.lerp_(source, 1.0)"
        itself = (f"{slow}next_obs)", f"{slow}obs)")
    found = [
        Mutant(file, ends, "", "the future counts after the end of an episode", gradient),
        Mutant(file, best, best.replace(slow, online), "no target network", gradient),
        Mutant(file, best, average, "the average of the next values, not the best", gradient),
        Mutant(file, *itself, "the value of the state itself, not of the next one", gradient),
        Mutant(file, *taken, "the value of another action learns", gradient),
        Mutant(file, moves, stuck, "the target network never moves", target),
        Mutant(file, moves, jumps, "tau is ignored", target),
        Mutant(
            file,
            "run.rng.random() < epsilon",
            "run.rng.random() < args.start_e",
            "exploration never ends",
            explores,
        ),
        Mutant(file, "run.rng.random() < epsilon", "False", "no exploration", explores),
    ]
    if frames:
        found += [
            Mutant(
                file,
                "memory.add(obs, actions, rewards, terminated, info)",
                "memory.add(obs, actions, rewards, terminated & False, info)",
                "a lost life is no end",
                memory,
            ),
            Mutant(
                file,
                " or not memory.ready",
                "",
                "nothing to draw at the start",
                (starts_without_anything_to_draw,),
            ),
        ]
    else:
        found += [
            Mutant(
                file,
                'info.get("final_obs", next_obs)',
                "next_obs",
                "the reset state as the next state",
                memory,
            ),
            Mutant(
                file,
                "actions, rewards, terminated)",
                "actions, rewards, terminated | bool(info))",
                "truncation taken as an end",
                memory,
            ),
        ]
    return found


MUTANTS = [mutant for name in ("dqn", "dqn_atari", "dqn_jax") for mutant in _mutants(name)]
MUTANTS += [replace(mutant, slow=True) for mutant in _mutants("dqn_atari_jax")]

_CARTPOLE = (
    "--total-timesteps 25000 --learning-starts 1000 --exploration-fraction 0.3 "
    "--target-network-frequency 250 --learning-rate 1e-3"
)
_CATCH = (
    f"{CATCH} --total-timesteps 8000 --learning-starts 1000 --buffer-size 8000 "
    "--exploration-fraction 0.4 --target-network-frequency 500 --learning-rate 3e-4"
)
_NOTHING = "--total-timesteps 1000"
LEARNING = [
    Learning("dqn", f"{_CARTPOLE} --seed 2", _NOTHING, 2),
    # With the other's seed its untrained policy balances by chance, for 127 steps.
    Learning("dqn_jax", f"{_CARTPOLE} --seed 3", _NOTHING, 2, slow=True),
    Learning("dqn_atari", _CATCH, _NOTHING, 5, slow=True),
    Learning("dqn_atari_jax", _CATCH, _NOTHING, 5, slow=True),
]
