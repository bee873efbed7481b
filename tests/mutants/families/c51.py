"""C51: its projection, its loss, its greedy action, and that it learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from mutants import reference
from mutants.families.dqn import (
    ATOMS,
    GAMMA,
    assert_learns,
    best_actions,
    first_weights_are_random,
    memory_holds_what_happened,
    mutants_of_exploration,
    mutants_of_games,
    outputs_of,
    target_network_moves_when_it_should,
    turns_of,
)
from mutants.harmless import Harmless
from mutants.learning import CATCH, Learning
from mutants.subject import Check, Mutant, Subject
from mutants.trial import Turn


def _cross_entropy(
    subject: Subject, turn: Turn, online: nn.Module, target: nn.Module
) -> tuple[Tensor, Tensor]:
    batch = turn.draws[0].batch
    each = np.arange(len(batch.rewards))
    following = outputs_of(subject, target, batch.next_obs).softmax(dim=2).detach().numpy()
    best = (following * ATOMS).sum(axis=2).argmax(axis=1)
    discounts = GAMMA * (1 - batch.dones.numpy())
    aim = reference.projected(following[each, best], batch.rewards.numpy(), discounts, ATOMS)
    taken = outputs_of(subject, online, batch.obs)[each, batch.actions[:, 0]].softmax(dim=1)
    loss = -(torch.from_numpy(aim).float() * taken.log()).sum(dim=1).mean()
    return loss, taken @ torch.from_numpy(ATOMS)


def learns_from_the_cross_entropy(subject: Subject) -> None:
    """Every so many steps, once learning has started, Adam takes one step along the gradient of
    the cross entropy to the projected distribution of the reward plus the discounted return of the
    action with the best mean under the target network. Every hundred steps the curves show that
    entropy and the mean return expected of the actions taken."""
    assert_learns(subject, _cross_entropy, "loss", 0.01 / 32)


def acts_by_the_best_mean(subject: Subject) -> None:
    """Without exploration the action with the largest expected return is taken."""
    turns = turns_of(subject, total_timesteps=30, learning_starts=30, start_e=0.0, end_e=0.0)
    assert best_actions(subject, turns) == [int(turn.steps[0].actions[0]) for turn in turns]


def acts_however_sure_it_is(subject: Subject) -> None:
    """The expected returns are right too where all but a few returns are as good as impossible."""
    numbers = np.random.default_rng(1)
    layers = [
        {"kernel": numbers.normal(size=shape), "bias": np.zeros(shape[1])}
        for shape in ((3, 120), (120, 84), (84, 3 * len(ATOMS)))
    ]
    state = {
        f"{number}.{name}": torch.from_numpy(layer[key].T.astype(np.float32))
        for number, layer in enumerate(layers)
        for name, key in (("weight", "kernel"), ("bias", "bias"))
    }
    obs = numbers.normal(size=(5, 3)).astype(np.float32)
    network = reference.load(reference.mlp([3, 120, 84, 3 * len(ATOMS)]), state)
    logits = outputs_of(subject, network, torch.from_numpy(obs)).detach()
    assert float(logits.max()) > 90, "more than the exponential function can take"
    expected = logits.softmax(dim=2) @ torch.from_numpy(ATOMS)
    params = [{key: layer[key].astype(np.float32) for key in layer} for layer in layers]
    actual = subject.module.action_values(params, ATOMS, obs)
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3)


def _mutants_of_both(name: str) -> list[Mutant]:
    """Those of what is the same in torch and in JAX."""
    file, in_jax, frames = f"cleanrl/{name}.py", "jax" in name, "atari" in name
    learns: tuple[Check, ...] = (learns_from_the_cross_entropy,)
    told = "(jnp.exp(log_pmfs) @ atoms).mean()" if in_jax else "old_value.detach().mean()"
    copied, other = "target_network.load_state_dict(q_network.state_dict())", "pass"
    if in_jax:
        copied = "target_network = Tree(q_network.value)"
        other = "target_network = Tree(init_q_network(envs, args, jax.random.PRNGKey(0)))"
    found = [
        Mutant(
            file,
            "global_step % args.train_frequency < args.num_envs",
            "global_step >= args.learning_starts",
            "it learns in every step, whatever was asked for",
            learns,
        ),
        Mutant(file, ", eps=0.01 / args.batch_size", "", "another Adam than the paper's", learns),
        Mutant(
            file,
            told,
            told.replace("mean", "sum"),
            "the curve shows the sum of the returns, not their mean",
            learns,
        ),
        Mutant(
            file,
            "global_step % 100 < args.num_envs",
            "global_step % 1000 < args.num_envs",
            "the curves have a point in a thousand steps, not ten",
            learns,
        ),
        Mutant(
            file,
            copied,
            other,
            "the target network begins as a stranger",
            (target_network_moves_when_it_should,),
        ),
        *mutants_of_exploration(file),
    ]
    if frames:
        found += mutants_of_games(file)
    return found


def _mutants(name: str) -> list[Mutant]:
    file, frames = f"cleanrl/{name}.py", "atari" in name
    gradient: tuple[Check, ...] = (learns_from_the_cross_entropy,)
    memory: tuple[Check, ...] = (memory_holds_what_happened,)
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
    return found + _mutants_of_both(name)


def _jax_mutants(name: str) -> list[Mutant]:
    file = f"cleanrl/{name}.py"
    gradient: tuple[Check, ...] = (learns_from_the_cross_entropy,)
    target: tuple[Check, ...] = (target_network_moves_when_it_should,)
    acts: tuple[Check, ...] = (acts_by_the_best_mean,)
    by_mean, by_atom = (
        "return (weights @ atoms) / weights.sum(axis=2)",
        "return weights.max(axis=2)",
    )
    if "atari" in name:
        by_mean = "jax.nn.softmax(return_logits(params, obs, len(atoms))) @ atoms"
        by_atom = "return_logits(params, obs, len(atoms)).max(axis=2)"
    key = "keys[0], 8" if "atari" in name else "keys[0], inputs"
    following = 'return_logits(target_params, data["next_obs"]'
    moves = "q_network.value, target_network.value, args.tau"
    best = "best = (next_pmfs @ atoms).argmax"
    found = [
        Mutant(file, " * (1 - dones[:, None])", "", "the future counts after the end", gradient),
        Mutant(file, "gamma * atoms", "atoms", "no discount", gradient),
        Mutant(file, "(1 - distance).clip(0, 1)", "(1 - distance)", "mass goes astray", gradient),
        Mutant(file, "(1 - distance)", "(2 - distance)", "the neighbours get too much", gradient),
        Mutant(file, following, following.replace("target_", ""), "no target network", gradient),
        Mutant(file, best, best.replace("max", "min"), "the worst action is believed", gradient),
        Mutant(file, moves, moves.replace("args.tau", "0.0"), "the target never moves", target),
        Mutant(file, moves, moves.replace("args.tau", "1.0"), "tau is ignored", target),
        Mutant(file, by_mean, by_atom, "acts by the likeliest atom, not by the mean", acts),
        Mutant(
            file,
            key,
            key.replace("0", "1"),
            "two layers begin with the same numbers",
            (first_weights_are_random,),
        ),
    ]
    if "atari" not in name:
        found += [
            Mutant(
                file,
                "dense(keys[1], 120, 84, draw=TORCH_WEIGHTS)",
                "dense(keys[1], 120, 84)",
                "the first distributions are wide, which costs some seeds what they learned",
                (first_weights_are_random,),
            ),
            Mutant(
                file,
                "np.exp(logits - logits.max(axis=2, keepdims=True))",
                "np.exp(logits)",
                "a network that is sure of itself has no values",
                (acts_however_sure_it_is,),
            ),
            Mutant(
                file,
                "actions, rewards, terminated)",
                "actions, rewards, terminated | bool(info))",
                "truncation taken as an end",
                (memory_holds_what_happened,),
            ),
        ]
    return found + _mutants_of_both(name)


MUTANTS = [mutant for name in ("c51", "c51_atari") for mutant in _mutants(name)]
MUTANTS += _jax_mutants("c51_jax")
MUTANTS += [replace(mutant, slow=True) for mutant in _jax_mutants("c51_atari_jax")]

HARMLESS = [
    Harmless(
        "(1 - distance).clip(0, 1)",
        "1",
        "2",
        "one less a distance is at most one",
        ("c51_jax", "c51_atari_jax"),
        before=".clip(0, ",
    ),
]

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
