"""C51: its projection, its loss, its greedy action, and that it learns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mutants import reference
from mutants.families.dqn import (
    FLAT,
    FRAMES,
    memory_holds_what_happened,
    memory_of_frames_holds_what_happened,
)
from mutants.learning import CATCH, Learning
from mutants.subject import Check, Mutant, Subject
from mutants.trial import Turn, rehearse

GAMMA = 0.9
ATOMS = np.linspace(-3, 3, 11, dtype=np.float32)
SETTINGS = {"n_atoms": 11, "v_min": -3.0, "v_max": 3.0}


def _turns(subject: Subject, **arguments: object) -> list[Turn]:
    settings = FRAMES if "atari" in subject.name else FLAT
    return rehearse(subject.module, **{**settings, **SETTINGS, **arguments})


def _network(subject: Subject, state: dict[str, Tensor]) -> nn.Module:
    frames = "atari" in subject.name
    network = reference.nature_cnn(4 * 11) if frames else reference.mlp([3, 120, 84, 3 * 11])
    return reference.load(network, state, without=("atoms",))


def _pmfs(subject: Subject, network: nn.Module, obs: Tensor) -> Tensor:
    rows = obs / 255 if "atari" in subject.name else obs
    return network(rows).reshape(len(obs), -1, 11).softmax(dim=2)


def gradient_is_that_of_the_cross_entropy(subject: Subject) -> None:
    """Each update follows the gradient of the cross entropy to the projected distribution of the
    reward plus the discounted return of the action with the best mean under the target network."""
    for turn in reference.learning_turns(_turns(subject)):
        batch = turn.draws[0].batch
        each = np.arange(len(batch.rewards))
        target = _network(subject, turn.before["target_network"])
        following = _pmfs(subject, target, batch.next_obs).detach().numpy()
        best = (following * ATOMS).sum(axis=2).argmax(axis=1)
        discounts = GAMMA * (1 - batch.dones.numpy())
        aim = reference.projected(following[each, best], batch.rewards.numpy(), discounts, ATOMS)
        online = _network(subject, turn.before["q_network"])
        taken = _pmfs(subject, online, batch.obs)[each, batch.actions[:, 0]]
        loss = -(torch.from_numpy(aim).float() * taken.log()).sum(dim=1).mean()
        expected = reference.gradient_of(loss, online)
        reference.assert_same_gradient(reference.learned_gradient(turn), expected)


def gradient_is_that_of_the_cross_entropy_in_jax(subject: Subject) -> None:
    """The same with JAX's own differentiation of the loss written out."""
    import jax
    import jax.numpy as jnp

    for turn in reference.learning_turns(_turns(subject)):
        batch = turn.draws[0].batch
        each, actions = np.arange(len(batch.rewards)), batch.actions.numpy()[:, 0]
        following = _jax_pmfs(subject, turn.before["target_network"], batch.next_obs.numpy())
        following = np.asarray(following)
        best = (following * ATOMS).sum(axis=2).argmax(axis=1)
        discounts = GAMMA * (1 - batch.dones.numpy())
        aim = reference.projected(following[each, best], batch.rewards.numpy(), discounts, ATOMS)

        def loss(params: Any, obs: Any, aim: Any = aim, at: Any = (each, actions)) -> Any:
            return -(aim * jnp.log(_jax_pmfs(subject, params, obs)[at])).sum(axis=1).mean()

        expected = jax.grad(loss)(turn.before["q_network"], jnp.asarray(batch.obs.numpy()))
        reference.assert_same_tree(reference.learned_tree(turn), expected)


def _jax_pmfs(subject: Subject, params: Any, obs: Any) -> Any:
    import jax
    import jax.numpy as jnp

    logits = subject.module.return_logits(params, jnp.asarray(obs), 11)
    return jax.nn.softmax(logits, axis=2)


def target_network_moves_when_it_should(subject: Subject) -> None:
    """The target moves by tau every seven steps once learning has started, and never else."""
    follows = (
        reference.assert_tree_follows if "jax" in subject.name else reference.assert_target_follows
    )
    settings = FRAMES if "atari" in subject.name else FLAT
    for turn in _turns(subject, tau=0.3):
        moves = turn.step >= settings["learning_starts"] and turn.step % 7 == 0
        follows(turn, "target_network", "q_network", 0.3 if moves else 0.0)


def acts_by_the_best_mean(subject: Subject) -> None:
    """Without exploration the action with the largest expected return is taken."""
    turns = _turns(subject, total_timesteps=30, learning_starts=30, start_e=0.0, end_e=0.0)
    state = turns[0].before["q_network"]
    network = None if "jax" in subject.name else _network(subject, state)
    for turn in turns:
        step = turn.steps[0]
        if network is None:
            pmfs = np.asarray(_jax_pmfs(subject, state, step.obs))
        else:
            pmfs = _pmfs(subject, network, torch.from_numpy(step.obs)).detach().numpy()
        assert int((pmfs * ATOMS).sum(axis=2).argmax()) == int(step.actions[0])


def _mutants(name: str) -> list[Mutant]:
    file, frames = f"cleanrl/{name}.py", "atari" in name
    gradient: tuple[Check, ...] = (gradient_is_that_of_the_cross_entropy,)
    memory: tuple[Check, ...] = (
        (memory_of_frames_holds_what_happened,) if frames else (memory_holds_what_happened,)
    )
    ends = " * (1 - dones).unsqueeze(1)"
    target: tuple[Check, ...] = (target_network_moves_when_it_should,)
    moves = "target.lerp_(source, args.tau)"
    found = [
        Mutant(file, ends, "", "the future counts after the end of an episode", gradient),
        Mutant(file, "gamma * atoms", "atoms", "no discount", gradient),
        Mutant(
            file,
            "pmfs - to_upper)",
            "pmfs)",
            "the projection makes mass out of nothing",
            gradient,
        ),
        Mutant(
            file,
            "(place - lower) * pmfs",
            "(lower + 1 - place) * pmfs",
            "the projection gives the nearer neighbour less",
            gradient,
        ),
        Mutant(
            file,
            "pmfs = target_network(next_obs)",
            "pmfs = q_network(next_obs)",
            "no target network",
            gradient,
        ),
        Mutant(
            file,
            "(pmfs @ atoms).argmax(dim=1)",
            "(pmfs @ atoms).argmin(dim=1)",
            "the worst next action is believed",
            gradient,
        ),
        Mutant(file, moves, moves.replace("args.tau", "0.0"), "the target never moves", target),
        Mutant(file, moves, moves.replace("args.tau", "1.0"), "tau is ignored", target),
        Mutant(
            file,
            "expected(numpy_forward(q_network.network, accelerate), atoms)",
            "expected(numpy_forward(q_network.network, accelerate), -atoms)",
            "acts by the worst mean",
            (acts_by_the_best_mean,),
        ),
    ]
    if not frames:
        found += [
            Mutant(file, ".clamp(atoms[0], atoms[-1])", "", "atoms leave the range", gradient),
            Mutant(
                file,
                "actions, rewards, terminated)",
                "actions, rewards, terminated | bool(info))",
                "truncation taken as an end",
                memory,
            ),
        ]
    return found


def _jax_mutants(name: str) -> list[Mutant]:
    file = f"cleanrl/{name}.py"
    gradient: tuple[Check, ...] = (gradient_is_that_of_the_cross_entropy_in_jax,)
    target: tuple[Check, ...] = (target_network_moves_when_it_should,)
    acts: tuple[Check, ...] = (acts_by_the_best_mean,)
    by_mean, by_atom = (
        "return (weights @ atoms) / weights.sum(axis=2)",
        "return weights.max(axis=2)",
    )
    if "atari" in name:
        by_mean = "jax.nn.softmax(return_logits(params, obs, len(atoms))) @ atoms"
        by_atom = "return_logits(params, obs, len(atoms)).max(axis=2)"
    following = 'return_logits(target_params, data["next_obs"]'
    moves = "q_network.value, target_network.value, args.tau"
    best = "best = (next_pmfs @ atoms).argmax"
    return [
        Mutant(file, " * (1 - dones[:, None])", "", "the future counts after the end", gradient),
        Mutant(file, "gamma * atoms", "atoms", "no discount", gradient),
        Mutant(file, "(1 - distance).clip(0, 1)", "(1 - distance)", "mass goes astray", gradient),
        Mutant(file, following, following.replace("target_", ""), "no target network", gradient),
        Mutant(file, best, best.replace("max", "min"), "the worst action is believed", gradient),
        Mutant(file, moves, moves.replace("args.tau", "0.0"), "the target never moves", target),
        Mutant(file, moves, moves.replace("args.tau", "1.0"), "tau is ignored", target),
        Mutant(file, by_mean, by_atom, "acts by the likeliest atom, not by the mean", acts),
    ]


MUTANTS = [mutant for name in ("c51", "c51_atari") for mutant in _mutants(name)]
MUTANTS += _jax_mutants("c51_jax")
MUTANTS += [replace(mutant, slow=True) for mutant in _jax_mutants("c51_atari_jax")]

_CARTPOLE = (
    "--total-timesteps 20000 --learning-starts 1000 --exploration-fraction 0.3 "
    "--target-network-frequency 250 --learning-rate 1e-3 --seed 2"
)
_CATCH = (
    f"{CATCH} --total-timesteps 8000 --learning-starts 1000 --buffer-size 8000 "
    "--exploration-fraction 0.4 --target-network-frequency 500 --learning-rate 5e-4"
)
_NOTHING = "--total-timesteps 1000"
LEARNING = [
    Learning("c51", _CARTPOLE, _NOTHING, 2),
    Learning("c51_jax", _CARTPOLE, _NOTHING, 2, slow=True),
    Learning("c51_atari", _CATCH, _NOTHING, 5, slow=True),
    Learning("c51_atari_jax", _CATCH, _NOTHING, 5, slow=True),
]
