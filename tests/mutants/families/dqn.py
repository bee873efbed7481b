"""DQN: what its target, its loss, its target network and its exploration must be."""

from __future__ import annotations

import numpy as np
import torch

from mutants import reference
from mutants.learning import Learning
from mutants.noise_envs import DISCRETE
from mutants.subject import Mutant, Subject
from mutants.trial import Turn, rehearse

FILE = "cleanrl/dqn.py"
GAMMA = 0.9


def _turns(subject: Subject, **arguments: object) -> list[Turn]:
    settings = {
        "env_id": DISCRETE,
        "total_timesteps": 60,
        "learning_starts": 20,
        "buffer_size": 64,
        "batch_size": 16,
        "train_frequency": 3,
        "target_network_frequency": 7,
        "gamma": GAMMA,
        "learning_rate": 1e-2,
        **arguments,
    }
    return rehearse(subject.module, **settings)


def gradient_is_that_of_the_squared_error(subject: Subject) -> None:
    """Each update follows the gradient of the mean squared difference to the reward plus the
    discounted largest value of the next state under the target network, zero after the end."""
    for turn in reference.learning_turns(_turns(subject)):
        online = reference.load(reference.mlp([3, 120, 84, 3]), turn.before["q_network"])
        target = reference.load(reference.mlp([3, 120, 84, 3]), turn.before["target_network"])
        batch = turn.draws[0].batch
        following = target(batch.next_obs).detach().numpy()
        aim = batch.rewards.numpy() + GAMMA * following.max(axis=1) * (1 - batch.dones.numpy())
        taken = online(batch.obs)[torch.arange(16), batch.actions[:, 0]]
        loss = ((taken - torch.from_numpy(aim)) ** 2).mean()
        expected = reference.gradient_of(loss, online)
        reference.assert_same_gradient(reference.learned_gradient(turn), expected)
        if turn.logged.get("losses/td_loss") is not None:
            np.testing.assert_allclose(turn.logged["losses/td_loss"], loss.item(), rtol=1e-4)


def memory_holds_what_happened(subject: Subject) -> None:
    """Truncation is no end, and no transition leads into the next episode."""
    reference.assert_true_transitions(_turns(subject, total_timesteps=150))


def target_network_moves_when_it_should(subject: Subject) -> None:
    """The target is equal to the network at the start, and moves by tau every seven steps, whether
    or not the network learns in that step."""
    turns = _turns(subject, tau=0.3)
    first = turns[0].before
    assert torch.equal(reference.flat(first["target_network"]), reference.flat(first["q_network"]))
    for turn in turns:
        if turn.step >= 20 and turn.step % 7 == 0:
            reference.assert_target_follows(turn, "target_network", "q_network", 0.3)
        else:
            before, after = turn.before["target_network"], turn.after["target_network"]
            assert torch.equal(reference.flat(before), reference.flat(after))


def exploration_falls_from_random_to_greedy(subject: Subject) -> None:
    """Actions are random at first; later the greedy one is taken, except with probability end-e."""
    turns = _turns(
        subject, total_timesteps=900, exploration_fraction=0.2, end_e=0.1, learning_starts=900
    )
    online = reference.load(reference.mlp([3, 120, 84, 3]), turns[0].before["q_network"])
    greedy = [_acts_greedily(turn, online) for turn in turns]
    assert np.mean(greedy[:30]) < 0.7
    assert 0.85 < np.mean(greedy[180:]) < 0.99


def _acts_greedily(turn: Turn, online: torch.nn.Module) -> bool:
    step = turn.steps[0]
    return int(online(torch.from_numpy(step.obs)).argmax()) == int(step.actions[0])


GRADIENT = (gradient_is_that_of_the_squared_error,)
MEMORY = (memory_holds_what_happened,)
TARGET = (target_network_moves_when_it_should,)
EXPLORATION = (exploration_falls_from_random_to_greedy,)

MUTANTS = [
    Mutant(FILE, " * (1 - dones)", "", "the future counts after the end of an episode", GRADIENT),
    Mutant(
        FILE,
        "target_network(next_obs).amax(dim=1)",
        "q_network(next_obs).amax(dim=1)",
        "no target network: values chase themselves",
        GRADIENT,
    ),
    Mutant(
        FILE,
        "target_network(next_obs).amax(dim=1)",
        "target_network(next_obs).mean(dim=1)",
        "the average of the next values, not the best",
        GRADIENT,
    ),
    Mutant(
        FILE,
        "target_network(next_obs).amax(dim=1)",
        "target_network(obs).amax(dim=1)",
        "the value of the state itself, not of the next one",
        GRADIENT,
    ),
    Mutant(
        FILE, ".gather(1, actions)", ".gather(1, 0 * actions)", "the wrong action learns", GRADIENT
    ),
    Mutant(
        FILE, "target.lerp_(source, args.tau)", "pass", "the target network never moves", TARGET
    ),
    Mutant(
        FILE,
        "target.lerp_(source, args.tau)",
        "target.lerp_(source, 1.0)",
        "tau is ignored",
        TARGET,
    ),
    Mutant(
        FILE,
        'info.get("final_obs", next_obs)',
        "next_obs",
        "the reset state as the next state",
        MEMORY,
    ),
    Mutant(
        FILE,
        "actions, rewards, terminated)",
        "actions, rewards, terminated | bool(info))",
        "truncation taken as an end",
        MEMORY,
    ),
    Mutant(
        FILE,
        "run.rng.random() < epsilon",
        "run.rng.random() < args.start_e",
        "exploration never ends",
        EXPLORATION,
    ),
    Mutant(FILE, "run.rng.random() < epsilon", "False", "no exploration", EXPLORATION),
]

_CARTPOLE = "--learning-starts 1000 --exploration-fraction 0.3 --target-network-frequency 250"
LEARNING = [
    Learning(
        "dqn",
        f"--total-timesteps 25000 {_CARTPOLE} --learning-rate 1e-3",
        "--total-timesteps 1000",
        2,
    ),
]
