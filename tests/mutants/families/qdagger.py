"""QDagger: Q-learning and imitation together, and how imitation fades."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import torch

from cleanrl_worker.kit.atari import AtariEnvs
from mutants import reference
from mutants.families.dqn import FRAMES
from mutants.learning import CATCH, Learning
from mutants.rollouts import SmallQ
from mutants.subject import Mutant, Subject
from mutants.trial import Ended, Trial, Turn, rehearse

FILE = "cleanrl/qdagger_dqn_atari_impalacnn.py"
GAMMA, TEMPERATURE, TEACHER_RETURN = 0.9, 0.5, 10.0
SETTINGS: dict[str, Any] = {
    **FRAMES,
    "total_timesteps": 36,
    "teacher_steps": 16,
    "offline_steps": 6,
    "learning_starts": 28,
    "temperature": TEMPERATURE,
    "train_frequency": 3,
    "target_network_frequency": 4,
    "tau": 0.3,
}


class Taught(Trial):
    """A trial whose first episodes are the teacher's: the run's curve is the student's alone."""

    def to_report(self, turn: Turn) -> list[Ended]:
        """The student's episodes."""
        return turn.ended if turn.step >= self.args.teacher_steps else []


def _turns(subject: Subject, **arguments: object) -> list[Turn]:
    _with_teacher(subject.module)
    return rehearse(subject.module, kind=Taught, **{**SETTINGS, **arguments})


def _with_teacher(module: ModuleType) -> None:
    """A teacher with random weights stands in for a trained one, which a file would hold."""
    module.QNetwork = module.TeacherNetwork = SmallQ
    torch.manual_seed(7)
    weights = module.TeacherNetwork(AtariEnvs("mosaic/Catch-v0", 1)).state_dict()
    module.find_teacher = lambda args, run, algorithm: None
    module.load_teacher = lambda path, args, algorithm: ({"q_network": weights}, TEACHER_RETURN)


def gradient_is_that_of_both_losses(subject: Subject) -> None:
    """The squared error of Q-learning plus the cross entropy to the teacher's softened choice,
    which counts fully while the student has fewer than ten scores."""
    turns = _turns(subject)
    envs = AtariEnvs("mosaic/Catch-v0", 1)
    for turn in reference.learning_turns(turns):
        batch = turn.draws[0].batch
        student, target, teacher = (SmallQ(envs) for _ in range(3))
        student.load_state_dict(turn.before["q_network"])
        target.load_state_dict(turn.before["target_network"])
        teacher.load_state_dict(turn.before["teacher"])
        following = target(batch.next_obs).detach().max(dim=1).values
        aim = batch.rewards + GAMMA * following * (1 - batch.dones)
        values = student(batch.obs)
        taken = values[torch.arange(len(aim)), batch.actions[:, 0]]
        choice = (teacher(batch.obs) / TEMPERATURE).softmax(dim=1).detach()
        imitation = -(choice * (values / TEMPERATURE).log_softmax(dim=1)).sum(dim=1).mean()
        loss = (taken - aim).square().mean() + imitation
        expected = reference.gradient_of(loss, student)
        reference.assert_same_gradient(reference.learned_gradient(turn), expected)


def phases_follow_each_other(subject: Subject) -> None:
    """The teacher plays, then the student learns in every turn without playing, then it plays and
    learns every third step; the target moves every fourth step once learning has begun."""
    turns = _turns(subject)
    for turn in turns:
        offline = 16 <= turn.step < 22
        online = turn.step >= 28
        assert bool(turn.steps) != offline
        assert reference.updated(turn) == (offline or (online and turn.step % 3 == 0))
        moves = (offline or online) and turn.step % 4 == 0
        tau = 0.3 if moves else 0.0
        reference.assert_target_follows(turn, "target_network", "q_network", tau)


def imitation_fades_as_the_student_catches_up(subject: Subject) -> None:
    """1 without ten scores or far behind, the missing share of the teacher's score in between, and
    0 from the teacher's score on."""
    progress = subject.module.Progress(TEACHER_RETURN)
    assert progress.distill_coeff() == 1.0
    for score, wanted in ((0.0, 1.0), (4.0, 0.6), (10.0, 0.0), (14.0, 0.0)):
        progress.student_returns.extend([score] * 10)
        np.testing.assert_allclose(progress.distill_coeff(), wanted, atol=1e-9)


_LOSS, _PHASES = (gradient_is_that_of_both_losses,), (phases_follow_each_other,)
_FADES = (imitation_fades_as_the_student_catches_up,)
MUTANTS = [
    Mutant(FILE, " * (1 - data.dones)", "", "the future counts after the end", _LOSS),
    Mutant(FILE, "target_network(data.next_obs)", "q_network(data.next_obs)", "no target", _LOSS),
    Mutant(
        FILE,
        "(teacher(data.obs) / args.temperature)",
        "teacher(data.obs)",
        "the teacher's choice is not softened",
        _LOSS,
    ),
    Mutant(
        FILE,
        "q_loss + progress.distill_coeff() * distill_loss",
        "q_loss",
        "the student does not imitate",
        _LOSS,
    ),
    Mutant(
        FILE,
        "q_loss + progress.distill_coeff() * distill_loss",
        "progress.distill_coeff() * distill_loss",
        "the student only imitates",
        _LOSS,
    ),
    Mutant(FILE, "max(1.0 - float", "max(0.0 * float", "imitation ends at once", _FADES),
    Mutant(FILE, "len(self.student_returns) < 10", "True", "imitation never fades", _FADES),
    Mutant(FILE, "target.lerp_(network, args.tau)", "target.lerp_(network, 1.0)", "tau", _PHASES),
    Mutant(
        FILE,
        "source = taught if offline else memory",
        "source = memory",
        "nothing is learned from the teacher's play",
        _PHASES,
    ),
]

# Both students learn from the same number of steps. One has a teacher that can play; the other's
# has learned nothing, so that it has only its own rewards to learn from.
LEARNING = [
    Learning(
        name,
        f"{CATCH} --train-teacher-steps 14000 --teacher-steps 2000 --offline-steps 500 "
        "--total-timesteps 2700 --learning-starts 2600 --buffer-size 14000 --learning-rate 3e-4 "
        "--temperature 0.1",
        "--train-teacher-steps 200",
        5,
        slow=True,
    )
    for name in ("qdagger_dqn_atari_impalacnn", "qdagger_dqn_atari_jax_impalacnn")
]
