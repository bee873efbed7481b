"""QDagger in JAX: the same promises as its torch form, around small networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mutants import reference
from mutants.families.qdagger import (
    GAMMA,
    SETTINGS,
    TEACHER_RETURN,
    TEMPERATURE,
    Taught,
    imitation_fades_as_the_student_catches_up,
)
from mutants.subject import Check, Mutant, Subject
from mutants.trial import Turn, rehearse

FILE = "cleanrl/qdagger_dqn_atari_jax_impalacnn.py"
_PIXELS = 4 * 84 * 84


def _turns(subject: Subject, **arguments: object) -> list[Turn]:
    _made_small(subject.module)
    return rehearse(subject.module, kind=Taught, **{**SETTINGS, **arguments})


def _made_small(module: Any) -> None:
    """Linear networks in place of both convolutional ones: compiling those takes many seconds."""
    import jax

    def init(envs: Any, key: Any) -> Any:
        return {"kernel": 0.02 * jax.random.normal(key, (_PIXELS, int(envs.single_action_space.n)))}

    def values(params: Any, obs: Any) -> Any:
        return (obs.reshape(len(obs), -1) / 255.0) @ params["kernel"]

    module.init_q_network = module.init_teacher = init
    module.q_values = module.teacher_values = values
    weights = {"['kernel']": torch.randn(_PIXELS, 4, generator=torch.Generator().manual_seed(7))}
    module.find_teacher = lambda args, run, algorithm: None
    module.load_teacher = lambda path, args, algorithm: ({"q_network": weights}, TEACHER_RETURN)


def _values(params: Any, obs: Tensor) -> Tensor:
    kernel = torch.from_numpy(np.array(params["kernel"]))
    return (obs.flatten(1) / 255) @ kernel.requires_grad_()


def gradient_is_that_of_both_losses(subject: Subject) -> None:
    """The squared error of Q-learning plus the cross entropy to the teacher's softened choice,
    which counts fully while the student has fewer than ten scores."""
    for turn in reference.learning_turns(_turns(subject)):
        batch = turn.draws[0].batch
        kernel = torch.from_numpy(np.array(turn.before["q_network"]["kernel"])).requires_grad_()
        with torch.no_grad():
            following = _values(turn.before["target_network"], batch.next_obs).max(dim=1).values
            preferred = _values(turn.before["teacher"], batch.obs) / TEMPERATURE
        aim = batch.rewards + GAMMA * following * (1 - batch.dones)
        values = (batch.obs.flatten(1) / 255) @ kernel
        taken = values[torch.arange(len(aim)), batch.actions[:, 0]]
        student = torch.log_softmax(values / TEMPERATURE, dim=1)
        imitation = -(preferred.softmax(dim=1) * student).sum(dim=1).mean()
        loss = (taken - aim).square().mean() + imitation
        (expected,) = torch.autograd.grad(loss, kernel)
        learned = torch.from_numpy(np.array(reference.learned_tree(turn)["kernel"]))
        reference.assert_same_gradient(learned, expected.flatten())


def phases_follow_each_other(subject: Subject) -> None:
    """The teacher plays, then the student learns in every turn without playing, then it plays and
    learns every third step; the target moves every fourth step once learning has begun."""
    for turn in _turns(subject):
        offline = 16 <= turn.step < 22
        online = turn.step >= 28
        assert bool(turn.steps) != offline
        assert reference.updated(turn) == (offline or (online and turn.step % 3 == 0))
        moves = (offline or online) and turn.step % 4 == 0
        tau = 0.3 if moves else 0.0
        reference.assert_tree_follows(turn, "target_network", "q_network", tau)


_LOSS: tuple[Check, ...] = (gradient_is_that_of_both_losses,)
_PHASES: tuple[Check, ...] = (phases_follow_each_other,)
_FADES: tuple[Check, ...] = (imitation_fades_as_the_student_catches_up,)
MUTANTS = [
    Mutant(FILE, ' * (1 - data["dones"])', "", "the future counts after the end", _LOSS),
    Mutant(
        FILE,
        'q_values(target_params, data["next_obs"])',
        'q_values(params, data["next_obs"])',
        "no target network",
        _LOSS,
    ),
    Mutant(
        FILE,
        'teacher_values(teacher_params, data["obs"]) / args.temperature',
        'teacher_values(teacher_params, data["obs"])',
        "the teacher's choice is not softened",
        _LOSS,
    ),
    Mutant(
        FILE,
        "q_loss + distill_coeff * distill_loss",
        "q_loss",
        "the student does not imitate",
        _LOSS,
    ),
    Mutant(
        FILE,
        "q_loss + distill_coeff * distill_loss",
        "distill_coeff * distill_loss",
        "the student only imitates",
        _LOSS,
    ),
    Mutant(
        FILE,
        "-(teacher_pi * student_log_pi)",
        "(teacher_pi * student_log_pi)",
        "the student avoids what the teacher does",
        _LOSS,
    ),
    Mutant(FILE, "max(1.0 - float", "max(0.0 * float", "imitation ends at once", _FADES),
    Mutant(FILE, "len(self.student_returns) < 10", "True", "imitation never fades", _FADES),
    Mutant(
        FILE,
        "q_network.value, target_network.value, args.tau",
        "q_network.value, target_network.value, 1.0",
        "tau is ignored",
        _PHASES,
    ),
    Mutant(
        FILE,
        "source = taught if offline else memory",
        "source = memory",
        "nothing is learned from the teacher's play",
        _PHASES,
    ),
]
