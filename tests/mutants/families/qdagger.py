"""QDagger: Q-learning and imitation together, and how imitation fades."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.kit.atari import AtariEnvs
from mutants import reference
from mutants.families.dqn import FRAMES
from mutants.harmless import Harmless
from mutants.learning import CATCH, Learning
from mutants.rollouts import SmallQ, games_made
from mutants.subject import Check, Mutant, Subject
from mutants.trial import Ended, Trial, Turn, rehearse

FILE = "cleanrl/qdagger_dqn_atari_impalacnn.py"
GAMMA, TEMPERATURE, TEACHER_RETURN, TAU = 0.9, 0.5, 10.0, 0.3
# Two games side by side; every phase has a hundredth step, when curves get their points.
_TEACHER, _ONLINE, _STARTS, _EVERY = 80, 120, 180, 5
_END_E, _EXPLORING = 0.1, 64
_WHOLE: dict[str, Any] = {
    **FRAMES,
    # With this seed the student ends ten games early enough to see imitation fade.
    "seed": 7,
    "num_envs": 2,
    "total_timesteps": 320,
    "teacher_steps": _TEACHER,
    "offline_steps": _ONLINE - _TEACHER,
    "learning_starts": _STARTS,
    "train_frequency": _EVERY,
    "target_network_frequency": 7,
    "exploration_fraction": _EXPLORING / 320,
    "end_e": _END_E,
    "temperature": TEMPERATURE,
    "tau": TAU,
    "buffer_size": 800,
}
_RECORDED: dict[str, Any] = {
    **_WHOLE,
    "num_envs": 1,
    "teacher_trajectories": "play.npz",
    "total_timesteps": 34,
    "teacher_steps": 12,
    "offline_steps": 4,
    "learning_starts": 26,
    "train_frequency": 3,
}


class Taught(Trial):
    """A trial whose first episodes are the teacher's: the run's curve is the student's alone."""

    def to_report(self, turn: Turn) -> list[Ended]:
        """The student's episodes."""
        return turn.ended if turn.step >= self.args.teacher_steps else []


class _Resumed(Taught):
    """A trial that continues from a checkpoint."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.resumed = True


@dataclass(frozen=True)
class Form:
    """What is different in torch and in JAX.

    Attributes:
        make_small: puts small networks in place of a module's; gives a teacher's weights.
        values: what a saved network says of observations.
        parameters: the learned numbers of a saved network, to be differentiated by.
        gradient: what Adam was given in a turn.
    """

    make_small: Callable[[Any], dict[str, Tensor]]
    values: Callable[[list[Tensor], Tensor], Tensor]
    parameters: Callable[[Any], list[Tensor]]
    gradient: Callable[[Turn], Tensor]


def _small_teacher(module: Any) -> dict[str, Tensor]:
    module.QNetwork = module.TeacherNetwork = SmallQ
    # Not the run's seed, with which an untrained teacher would have the same weights.
    torch.manual_seed(70)
    weights: dict[str, Tensor] = SmallQ(AtariEnvs("mosaic/Catch-v0", 1)).state_dict()
    return weights


def _small_values(parameters: list[Tensor], obs: Tensor) -> Tensor:
    weight, bias, scale, shift, last, last_bias = parameters
    hidden = torch.tanh((obs.flatten(1) / 255 - 0.5) @ weight.T + bias)
    normal = nn.functional.layer_norm(hidden, hidden.shape[1:], scale, shift)
    return normal @ last.T + last_bias


FORMS = {
    FILE: Form(
        _small_teacher,
        _small_values,
        lambda state: [torch.as_tensor(tensor).clone() for tensor in state.values()],
        reference.learned_gradient,
    )
}


def fresh(subject: Subject) -> Any:
    """The file with its real networks, whatever other checks have put in their place."""
    return Subject(subject.file, subject.source).module


def _no_teacher(*arguments: Any) -> Any:
    raise AssertionError("a teacher is loaded where there should be none")


def _turns(
    subject: Subject, settings: dict[str, Any], kind: type[Trial] = Taught, **loaders: Any
) -> tuple[list[Turn], dict[str, Tensor]]:
    """Rehearse with a teacher of random weights, which a file would hold, unless told otherwise."""
    module: ModuleType = fresh(subject)
    weights = FORMS[subject.file].make_small(module)
    defaults: dict[str, Any] = {
        "find_teacher": lambda args, run, algorithm: None,
        "load_teacher": lambda path, args, algorithm: ({"q_network": weights}, TEACHER_RETURN),
        "load_recording": _no_teacher,
    }
    for name, loader in {**defaults, **loaders}.items():
        setattr(module, name, loader)
    return rehearse(module, kind=kind, **settings), weights


@lru_cache(maxsize=1)
def whole_run(subject: Subject) -> tuple[list[Turn], dict[str, Tensor]]:
    """All three phases, which most checks look at, each for another promise."""
    return _turns(subject, _WHOLE)


def _offline(turn: Turn) -> bool:
    return _TEACHER <= turn.step < _ONLINE


def _learns(turn: Turn) -> bool:
    return _offline(turn) or (turn.step >= _STARTS and turn.step % _EVERY < 2)


def _scores(turns: list[Turn], before: Turn) -> list[float]:
    """The student's last ten scores."""
    ended = [one for turn in turns if _ONLINE <= turn.step < before.step for one in turn.ended]
    return [score for one in ended for score in one.returns][-10:]


def _weight_of_imitation(scores: list[float]) -> float:
    return 1.0 if len(scores) < 10 else max(1 - sum(scores) / 10 / TEACHER_RETURN, 0.0)


def _assert_learned(
    form: Form, turn: Turn, preferred: Callable[[Any], Tensor], weight: float
) -> dict[str, float]:
    """The gradient is that of both losses; what curves should show of them."""
    data, shown = turn.draws[0].batch, turn.draws[-1].batch
    student = [part.requires_grad_() for part in form.parameters(turn.before["q_network"])]
    target = form.parameters(turn.before["target_network"])
    following = form.values(target, data.next_obs).max(dim=1).values
    aim = data.rewards + GAMMA * following * (1 - data.dones)
    taken = form.values(student, data.obs)[torch.arange(len(aim)), data.actions[:, 0]]
    likelihood = (form.values(student, shown.obs) / TEMPERATURE).log_softmax(dim=1)
    imitation = -(preferred(shown) * likelihood).sum(dim=1).mean()
    squared = (taken - aim).square().mean()
    loss = squared + weight * imitation
    parts = torch.autograd.grad(loss, student)
    reference.assert_same_gradient(
        form.gradient(turn), torch.cat([part.flatten() for part in parts])
    )
    return {
        "losses/loss": loss.item(),
        "losses/td_loss": squared.item(),
        "losses/distill_loss": imitation.item(),
        "losses/q_values": taken.mean().item(),
        "charts/distill_coeff": weight,
        "charts/teacher/avg_episodic_return": TEACHER_RETURN,
    }


def gradient_is_that_of_both_losses(subject: Subject) -> None:
    """The squared error of Q-learning plus the cross entropy to the choice of the given teacher,
    softened, as much as the student's scores call for. Every hundred steps curves show both."""
    turns, weights = whole_run(subject)
    form = FORMS[subject.file]
    teacher = form.parameters(turns[0].before["teacher"])
    for given, kept in zip(weights.values(), teacher, strict=True):
        torch.testing.assert_close(kept, given, rtol=0, atol=0)

    def preferred(shown: Any) -> Tensor:
        return (form.values(teacher, shown.obs) / TEMPERATURE).softmax(dim=1)

    counted = set()
    for turn in turns:
        told: dict[str, float] = {}
        if _learns(turn):
            assert len(turn.draws) == 1
            # A turn's own episode is counted before it learns.
            weight = _weight_of_imitation(_scores(turns, Turn(turn.step + 2, {})))
            counted.add(weight)
            told = _assert_learned(form, turn, preferred, weight)
            if _offline(turn):
                shown = (("loss", "loss"), ("q_loss", "td_loss"), ("distill_loss",) * 2)
                told |= {f"charts/offline/{one}": told[f"losses/{other}"] for one, other in shown}
        told = told if turn.step % 100 == 0 else {}
        scores = ("charts/epsilon", "charts/episodic_return", "charts/teacher/episodic_return")
        logged = {name: value for name, value in turn.logged.items() if name not in scores}
        assert logged.keys() == told.keys(), f"{sorted(logged)} are shown in step {turn.step}"
        for name, value in told.items():
            np.testing.assert_allclose(logged[name], value, rtol=1e-3, atol=1e-5, err_msg=name)
    assert min(counted) < max(counted) == 1.0


def phases_follow_each_other(subject: Subject) -> None:
    """The teacher plays, then the student learns from that in every turn without playing, then it
    plays, and learns from its own play every five steps; the target network, a copy at first, moves
    every seventh step once learning has begun."""
    turns, _ = whole_run(subject)
    parameters = FORMS[subject.file].parameters

    def numbers(state: Any) -> Tensor:
        return torch.cat([part.flatten() for part in parameters(state)])

    start = turns[0].before
    assert torch.equal(numbers(start["target_network"]), numbers(start["q_network"]))
    for turn in turns:
        assert bool(turn.steps) != _offline(turn)
        assert reference.updated(turn) == _learns(turn)
        moves = (_offline(turn) or turn.step >= _STARTS) and turn.step % 7 < 2
        states = turn.before["target_network"], turn.after["target_network"]
        if not moves and states[0] is states[1]:
            continue  # a state that has not changed is not copied
        before, after, ahead = map(numbers, (*states, turn.after["q_network"]))
        tau = TAU if moves else 0.0
        expected = (1 - tau) * before + tau * ahead
        torch.testing.assert_close(after, expected, rtol=1e-5, atol=1e-7)
    kinds = frozenset({"terminated", "ordinary"})
    reference.assert_true_transitions([turn for turn in turns if turn.step < _ONLINE], kinds)
    reference.assert_true_transitions([turn for turn in turns if turn.step >= _ONLINE], kinds)


def exploration_falls_from_random_to_greedy_twice(subject: Subject) -> None:
    """While the teacher plays, and again when the student begins to; where a game ends, curves show
    how much is random."""
    turns, _ = whole_run(subject)
    form, followed = FORMS[subject.file], {}
    for turn in turns:
        if _offline(turn):
            continue
        since, duration = turn.step, _TEACHER
        if turn.step >= _ONLINE:
            since, duration = turn.step - _ONLINE, _EXPLORING
        epsilon = max(1 - (1 - _END_E) * since / duration, _END_E)
        assert ("charts/epsilon" in turn.logged) == bool(turn.ended)
        np.testing.assert_allclose(turn.logged.get("charts/epsilon", epsilon), epsilon)
        who = "teacher" if turn.step < _TEACHER else "q_network"
        values = form.values(form.parameters(turn.before[who]), torch.from_numpy(turn.steps[0].obs))
        same = values.argmax(dim=1).numpy() == turn.steps[0].actions
        followed[turn.step] = float(np.mean(same))

    def share(first: int, last: int) -> float:
        return float(np.mean([value for step, value in followed.items() if first <= step < last]))

    assert share(0, 30) < 0.6 < share(60, _TEACHER)
    assert share(_ONLINE, _ONLINE + 24) < 0.65
    assert 0.8 < share(_ONLINE + _EXPLORING, 320) < 1.0


def scores_are_kept_apart(subject: Subject) -> None:
    """The teacher's games are shown as the teacher's, their mean where several end at once; the
    student's last ten decide how much it still imitates."""
    many = {"num_envs": 16, "total_timesteps": 16 * 40, "teacher_steps": 16 * 40}
    at_once = set()
    for turns in (whole_run(subject)[0], _turns(subject, {**_WHOLE, **many})[0]):
        teacher_steps = _TEACHER if len(turns[0].steps[0].rewards) == 2 else 16 * 40
        for turn in turns:
            played = [score for one in turn.ended for score in one.returns]
            shown = turn.logged.get("charts/teacher/episodic_return")
            if turn.step >= teacher_steps or not played:
                assert shown is None
                continue
            assert shown is not None
            np.testing.assert_allclose(shown, sum(played) / len(played), rtol=1e-6)
            at_once.add(len(played))
    assert max(at_once) > 1
    turns, _ = whole_run(subject)
    assert all(turn.before["progress"]["student"] == _scores(turns, turn) for turn in turns)


def _random_play() -> list[tuple[Any, ...]]:
    """One long game of noise: what is recorded looks like nothing that the student sees."""
    rng = np.random.default_rng(0)
    frames = rng.integers(256, size=(64, 84, 84), dtype=np.uint8)
    rewards, terminated = rng.normal(size=(60, 1)), rng.random((60, 1)) < 0.1
    return [
        (frames[None, t : t + 4], rng.integers(4, size=1), rewards[t], terminated[t], {})
        for t in range(60)
    ]


def a_recording_is_a_teacher_too(subject: Subject) -> None:
    """Its play is the first phase. What was done in the recording is imitated, also while the
    student learns from its own play."""
    play = _random_play()
    recorded = [(obs.tobytes(), int(actions[0])) for obs, actions, *_ in play]

    def load_recording(args: Any, envs: Any, memory: Any) -> float:
        for transition in play:
            memory.add(*transition)
        return TEACHER_RETURN

    loaders: dict[str, Any] = {"find_teacher": _no_teacher, "load_teacher": _no_teacher}
    turns, _ = _turns(subject, _RECORDED, Taught, load_recording=load_recording, **loaders)
    assert [turn.step for turn in turns] == list(range(12, 34))
    assert turns[0].before["progress"]["teacher"] == TEACHER_RETURN
    form = FORMS[subject.file]
    for turn in turns:
        offline = turn.step < 16
        assert len(turn.draws) == (1 if offline else 2) * reference.updated(turn)
        assert reference.updated(turn) == (offline or (turn.step >= 26 and turn.step % 3 == 0))
        if not turn.draws:
            continue
        shown = turn.draws[-1].batch
        for obs, action in zip(shown.obs, shown.actions, strict=True):
            assert (obs.numpy().tobytes(), int(action)) in recorded
        _assert_learned(form, turn, lambda shown: torch.eye(4)[shown.actions[:, 0]], 1.0)


def a_resumed_run_keeps_its_teacher(subject: Subject) -> None:
    """Teacher and scores come from the checkpoint; none is looked for again."""
    settings = {**_WHOLE, "total_timesteps": 4, "teacher_policy": "somewhere"}
    loaders: dict[str, Any] = {"find_teacher": _no_teacher, "load_teacher": _no_teacher}
    _turns(subject, settings, _Resumed, **loaders)
    _turns(subject, {**settings, "teacher_trajectories": "play.npz"}, _Resumed, **loaders)


def imitation_fades_as_the_student_catches_up(subject: Subject) -> None:
    """1 without ten scores, far behind or when the teacher scores nothing, the missing share of the
    teacher's score in between, and 0 from the teacher's score on; only the last ten scores count,
    also after a run was resumed."""
    progress = subject.module.Progress(TEACHER_RETURN)
    assert progress.distill_coeff() == 1.0
    for score, wanted in ((0.0, 1.0), (4.0, 0.6), (10.0, 0.0), (14.0, 0.0)):
        progress.student_returns.extend([score] * 10)
        np.testing.assert_allclose(progress.distill_coeff(), wanted, atol=1e-9)
    resumed = subject.module.Progress(0.0)
    resumed.load_state_dict(progress.state_dict())
    assert resumed.distill_coeff() == 0.0
    resumed.student_returns.extend([4.0] * 10)
    np.testing.assert_allclose(resumed.distill_coeff(), 0.6)
    for teacher, wanted in ((0.0, 1.0), (1.0, 0.5)):
        small = subject.module.Progress(teacher)
        small.student_returns.extend([0.5] * 10)
        assert small.distill_coeff() == wanted


def games_are_those_that_were_asked_for(subject: Subject) -> None:
    """As many as --num-envs of the game that was named; the run first looks whether it can play
    them."""
    asked = games_made(fresh(subject), "AtariEnvs", env_id="PongNoFrameskip-v4", num_envs=4)
    assert asked == {"env_id": "PongNoFrameskip-v4", "num_envs": 4, "video_dir": None}


def the_networks_are_those_of_the_papers(subject: Subject) -> None:
    """With the same weights the same values as plain networks give: the student has IMPALA's deep
    trunk, the teacher the network of DQN."""
    module, envs = fresh(subject), AtariEnvs("mosaic/Catch-v0", 1)
    torch.manual_seed(0)
    obs = torch.randint(256, (2, 4, 84, 84), dtype=torch.uint8)
    student = nn.Sequential(reference.impala_trunk(4, 84), nn.Linear(256, 4))
    for network, plain in (
        (module.QNetwork(envs), student),
        (module.TeacherNetwork(envs), reference.nature_cnn(4)),
    ):
        reference.load(plain, dict(network.state_dict()))
        with torch.no_grad():
            torch.testing.assert_close(network(obs), plain(obs / 255), rtol=1e-3, atol=1e-5)


LOSS: tuple[Check, ...] = (gradient_is_that_of_both_losses,)
PHASES: tuple[Check, ...] = (phases_follow_each_other,)
EXPLORES: tuple[Check, ...] = (exploration_falls_from_random_to_greedy_twice,)
SCORES: tuple[Check, ...] = (scores_are_kept_apart,)
RECORDING: tuple[Check, ...] = (a_recording_is_a_teacher_too,)
RESUMED: tuple[Check, ...] = (a_resumed_run_keeps_its_teacher,)
FADES: tuple[Check, ...] = (imitation_fades_as_the_student_catches_up,)
GAMES: tuple[Check, ...] = (games_are_those_that_were_asked_for,)
NETWORKS: tuple[Check, ...] = (the_networks_are_those_of_the_papers,)
# Both files share these lines.
SHARED = (
    ("max(1.0 - float", "max(0.0 * float", "imitation ends at once", FADES),
    ("len(self.student_returns) < 10", "True", "imitation never fades", FADES),
    (
        "source = taught if offline else memory",
        "source = memory",
        "nothing is learned from the teacher's play",
        PHASES,
    ),
    (
        "source = taught if offline else memory",
        "source = taught",
        "nothing is learned from the student's own play",
        PHASES,
    ),
    (
        "if global_step % 100 < args.num_envs:",
        "if offline:",
        "curves of losses end when the student begins to play",
        LOSS,
    ),
    (
        "since = global_step - online_from",
        "since = global_step",
        "the student never explores",
        EXPLORES,
    ),
    (
        "                    progress.student_returns.extend(scores)\n",
        "",
        "the student imitates for ever",
        SCORES,
    ),
    (
        "if recorded:\n            return ",
        "if False:\n            return ",
        "an untrained teacher is imitated, not the recording",
        RECORDING,
    ),
    ("elif not run.resumed:", "else:", "a resumed run loads its teacher again", RESUMED),
    ("    run.check_spaces(envs)\n", "", "a game it cannot play fails somewhere later", GAMES),
)
MUTANTS = [
    *(Mutant(FILE, *edit) for edit in SHARED),
    Mutant(FILE, " * (1 - data.dones)", "", "the future counts after the end", LOSS),
    Mutant(FILE, "target_network(data.next_obs)", "q_network(data.next_obs)", "no target", LOSS),
    Mutant(
        FILE,
        "(teacher(data.obs) / args.temperature)",
        "teacher(data.obs)",
        "the teacher's choice is not softened",
        LOSS,
    ),
    Mutant(
        FILE,
        "q_loss + progress.distill_coeff() * distill_loss",
        "q_loss",
        "the student does not imitate",
        LOSS,
    ),
    Mutant(
        FILE,
        "q_loss + progress.distill_coeff() * distill_loss",
        "progress.distill_coeff() * distill_loss",
        "the student only imitates",
        LOSS,
    ),
    Mutant(FILE, "target.lerp_(network, args.tau)", "target.lerp_(network, 1.0)", "tau", PHASES),
    Mutant(
        FILE,
        "    target_network.load_state_dict(q_network.state_dict())\n",
        "",
        "the target network is no copy at first",
        PHASES,
    ),
    Mutant(
        FILE,
        '        load_weights(teacher, model["q_network"])\n',
        "",
        "an untrained teacher teaches",
        LOSS,
    ),
    Mutant(
        FILE,
        "maps + self.conv1(self.conv0(maps.relu()).relu())",
        "self.conv1(self.conv0(maps.relu()).relu())",
        "no shortcut around the residual blocks",
        NETWORKS,
    ),
]
HARMLESS = [
    Harmless(
        "Progress(0.0)",
        "0.0",
        "1",
        "the teacher's score is set before it is read, by a teacher or by a checkpoint",
        ("qdagger_dqn_atari_impalacnn", "qdagger_dqn_atari_jax_impalacnn"),
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
