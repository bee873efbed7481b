"""SAC with discrete actions: exact expectations over the policy, and that it learns."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from mutants import reference
from mutants.families.dqn import FRAMES
from mutants.learning import CATCH, Learning
from mutants.reference import assert_same_gradient, gradient_of, learned_gradient, learning_turns
from mutants.subject import Mutant, Subject
from mutants.trial import Turn, rehearse

FILE = "cleanrl/sac_atari.py"
GAMMA, TAU, SCALE = 0.9, 0.3, 0.5
SETTINGS: dict[str, Any] = {
    **{name: FRAMES[name] for name in ("env_id", "learning_starts", "buffer_size", "batch_size")},
    "gamma": GAMMA,
    "total_timesteps": 20,
    "update_frequency": 3,
    "target_network_frequency": 7,
    "tau": TAU,
    "target_entropy_scale": SCALE,
}


def _turns(subject: Subject, **arguments: object) -> list[Turn]:
    return rehearse(subject.module, **{**SETTINGS, **arguments})


def _net(state: dict[str, Tensor]) -> nn.Module:
    return reference.load(reference.nature_cnn(4), state)


def critics_follow_the_soft_value(subject: Subject) -> None:
    """Both move towards the reward plus the discounted expectation, over the policy, of the smaller
    target value less alpha times the log-probability; zero after the end."""
    # Late enough that a life was lost, with batches that hold such a step
    settings = {"total_timesteps": 58, "learning_starts": 56, "update_frequency": 1}
    turns = learning_turns(_turns(subject, **settings, batch_size=24), "q_optimizer")
    assert any(turn.draws[0].batch.dones.any() for turn in turns)
    for turn in turns:
        batch = turn.draws[0].batch
        alpha = float(turn.before["temperature"]["log_alpha"].exp())
        chances = _net(turn.before["actor"])(batch.next_obs / 255).softmax(dim=1).detach()
        values = [
            _net(turn.before[name])(batch.next_obs / 255) for name in ("qf1_target", "qf2_target")
        ]
        soft = (chances * (torch.min(*values) - alpha * chances.log())).sum(dim=1)
        aim = (batch.rewards + GAMMA * (1 - batch.dones) * soft).detach()
        critics = [_net(turn.before[name]) for name in ("qf1", "qf2")]
        each = torch.arange(len(aim))
        loss = sum(
            (critic(batch.obs / 255)[each, batch.actions[:, 0]] - aim).square().mean()
            for critic in critics
        )
        expected = gradient_of(loss, *critics)
        assert_same_gradient(learned_gradient(turn, "q_optimizer"), expected)


def actor_and_temperature_learn(subject: Subject) -> None:
    """The actor's loss is the expectation of alpha log pi minus the smaller value; the temperature
    pulls the entropy to its share of that of random play."""
    for turn in learning_turns(_turns(subject), "actor_optimizer"):
        batch = turn.draws[0].batch
        log_alpha = turn.before["temperature"]["log_alpha"]
        actor = _net(turn.before["actor"])
        chances = actor(batch.obs / 255).softmax(dim=1)
        values = [_net(turn.after[name])(batch.obs / 255).detach() for name in ("qf1", "qf2")]
        loss = (chances * (log_alpha.exp() * chances.log() - torch.min(*values))).sum(dim=1).mean()
        assert_same_gradient(learned_gradient(turn, "actor_optimizer"), gradient_of(loss, actor))
        entropy = -(chances * chances.log()).sum(dim=1).mean().detach()
        wanted = log_alpha.exp() * (entropy - SCALE * math.log(4))
        assert_same_gradient(learned_gradient(turn, "alpha_optimizer"), wanted)


def targets_follow(subject: Subject) -> None:
    """The targets move by tau every seven steps, whether or not the networks learn then."""
    for turn in _turns(subject):
        moves = turn.step >= SETTINGS["learning_starts"] and turn.step % 7 == 0
        for index in (1, 2):
            tau = TAU if moves else 0.0
            reference.assert_target_follows(turn, f"qf{index}_target", f"qf{index}", tau)


_CRITICS, _ACTOR = (critics_follow_the_soft_value,), (actor_and_temperature_learn,)
MUTANTS = [
    Mutant(FILE, "(1 - dones) * ", "", "the future counts after the end", _CRITICS),
    Mutant(FILE, "torch.min(qf1_target", "torch.max(qf1_target", "max for min", _CRITICS),
    Mutant(FILE, "next_qf - alpha * next_log_pi", "next_qf", "no entropy in the target", _CRITICS),
    Mutant(
        FILE,
        "next_log_pi.exp() * (next_qf",
        "0.25 * (next_qf",
        "the next value is not that of the policy",
        _CRITICS,
    ),
    Mutant(FILE, "alpha * log_pi - min_qf", "alpha * log_pi + min_qf", "downhill", _ACTOR),
    Mutant(FILE, "alpha * log_pi - min_qf", "-min_qf", "no entropy for the actor", _ACTOR),
    Mutant(FILE, "entropy - target_entropy", "target_entropy - entropy", "runs away", _ACTOR),
    Mutant(FILE, "parameters, args.tau)", "parameters, 1.0)", "tau is ignored", (targets_follow,)),
]
LEARNING = [
    Learning(
        "sac_atari",
        f"{CATCH} --total-timesteps 9000 --learning-starts 1000 --buffer-size 9000 "
        "--target-network-frequency 500 --target-entropy-scale 0.4 --batch-size 32",
        "--total-timesteps 1000",
        3,
        slow=True,
    ),
]
