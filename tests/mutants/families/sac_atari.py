"""SAC with discrete actions: exact expectations over the policy, and that it learns."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from mutants import reference
from mutants.learning import CATCH, Learning
from mutants.noise_envs import NoisePool
from mutants.reference import assert_same_gradient, gradient_of, learned_gradient, learning_turns
from mutants.rollouts import SmallQ, load_state
from mutants.subject import Check, Mutant, Subject
from mutants.trial import Trial, Turn, rehearse

FILE = "cleanrl/sac_atari.py"
GAMMA, TAU, SCALE = 0.9, 0.3, 0.5
CHOICES = 3
SETTINGS: dict[str, Any] = {
    "env_id": "mosaic/Catch-v0",
    "total_timesteps": 60,
    "learning_starts": 40,
    "buffer_size": 400,
    "batch_size": 16,
    "gamma": GAMMA,
    "update_frequency": 3,
    "target_network_frequency": 7,
    "tau": TAU,
    "target_entropy_scale": SCALE,
}


class _Games(NoisePool):
    """Random pictures that say, as games do, which of them are over."""

    def _finish(self, ended: list[int]) -> Any:
        return {**super()._finish(ended), "ended": np.isin(np.arange(self.num_envs), ended)}


class _Sharp(SmallQ):
    """As a policy it prefers some actions by far."""

    def forward(self, obs: Tensor) -> Tensor:
        return 4 * super().forward(obs)


def _made_small(subject: Subject, network: type[SmallQ] = SmallQ) -> Any:
    """The file with random pictures for games and small networks: the rest is in question."""
    module: Any = Subject(subject.file, subject.source).module
    module.AtariEnvs, module.network = _Games, network
    return module


def _turns(subject: Subject, **arguments: object) -> list[Turn]:
    return rehearse(_made_small(subject), **{**SETTINGS, **arguments})


def _net(state: dict[str, Tensor], kind: type[SmallQ] = SmallQ) -> nn.Module:
    return load_state(kind(NoisePool("", 1)), state)


def _alpha(turn: Turn) -> float:
    return float(turn.before["temperature"]["log_alpha"].exp())


def _aim(turn: Turn) -> Tensor:
    batch = turn.draws[0].batch
    chances = _net(turn.before["actor"])(batch.next_obs).softmax(dim=1)
    names = ("qf1_target", "qf2_target")
    smaller = torch.min(*(_net(turn.before[name])(batch.next_obs) for name in names))
    soft = (chances * (smaller - _alpha(turn) * chances.log())).sum(dim=1)
    aim: Tensor = (batch.rewards + GAMMA * (1 - batch.dones) * soft).detach()
    return aim


def _taken(critic: nn.Module, turn: Turn) -> Tensor:
    batch = turn.draws[0].batch
    values: Tensor = critic(batch.obs)[torch.arange(len(batch.obs)), batch.actions[:, 0]]
    return values


def critics_follow_the_soft_value(subject: Subject) -> None:
    """Both move towards the reward plus the discounted expectation, over the policy, of the smaller
    target value less alpha times the log-probability; zero after the end."""
    turns = learning_turns(_turns(subject), "q_optimizer")
    assert any(turn.draws[0].batch.dones.any() for turn in turns)
    for turn in turns:
        aim = _aim(turn)
        critics = [_net(turn.before[name]) for name in ("qf1", "qf2")]
        values = torch.stack([_taken(critic, turn) for critic in critics])
        loss = (values - aim).square().mean(dim=1).sum()
        expected = gradient_of(loss, *critics)
        assert_same_gradient(learned_gradient(turn, "q_optimizer"), expected)


def _actor_loss(turn: Turn, actor: nn.Module) -> Tensor:
    obs = turn.draws[0].batch.obs
    chances = actor(obs).softmax(dim=1)
    smaller = torch.min(*(_net(turn.after[name])(obs).detach() for name in ("qf1", "qf2")))
    loss: Tensor = (chances * (_alpha(turn) * chances.log() - smaller)).sum(dim=1).mean()
    return loss


def _alpha_loss(turn: Turn, actor: nn.Module) -> Tensor:
    """It is also its own derivative."""
    chances = actor(turn.draws[0].batch.obs).softmax(dim=1)
    entropy = -(chances * chances.log()).sum(dim=1).mean().detach()
    loss: Tensor = _alpha(turn) * (entropy - SCALE * math.log(CHOICES))
    return loss


def actor_and_temperature_learn(subject: Subject) -> None:
    """The actor's loss is the expectation of alpha log pi minus the smaller value; the temperature
    pulls the entropy to its share of that of random play."""
    for turn in learning_turns(_turns(subject), "actor_optimizer"):
        actor = _net(turn.before["actor"])
        expected = gradient_of(_actor_loss(turn, actor), actor)
        assert_same_gradient(learned_gradient(turn, "actor_optimizer"), expected)
        wanted = _alpha_loss(turn, actor).reshape(1)
        assert_same_gradient(learned_gradient(turn, "alpha_optimizer"), wanted)


def updates_come_when_they_should(subject: Subject) -> None:
    """With one environment or two, networks learn every three steps and the targets move by tau
    every seven, whether or not the networks learn then; neither happens before --learning-starts.
    At the start the targets are equal to the critics."""
    for num_envs in (1, 2):
        turns = _turns(subject, num_envs=num_envs)
        for turn in turns:
            learns = turn.step >= 40 and turn.step % 3 < num_envs
            for optimizer in ("q_optimizer", "actor_optimizer", "alpha_optimizer"):
                assert reference.updated(turn, optimizer) == learns
            tau = TAU if turn.step >= 40 and turn.step % 7 < num_envs else 0.0
            for index in (1, 2):
                reference.assert_target_follows(turn, f"qf{index}_target", f"qf{index}", tau)
        start = turns[0].before
        for name in ("qf1", "qf2"):
            target = reference.flat(start[f"{name}_target"])
            assert torch.equal(target, reference.flat(start[name]))


def temperature_is_tuned_or_fixed(subject: Subject) -> None:
    """A tuned temperature begins with one; another stays what --alpha says."""
    assert _alpha(_turns(subject, total_timesteps=1)[0]) == 1.0
    fixed = _turns(subject, autotune=False, alpha=0.3)
    assert sum(reference.updated(turn, "actor_optimizer") for turn in fixed) > 3
    assert [_alpha(turn) for turn in fixed] == pytest.approx([0.3] * len(fixed))


def optimizers_take_their_steps(subject: Subject) -> None:
    """All networks take Adam's steps, each at its own learning rate, with an epsilon of 1e-4."""
    rates = {"policy_lr": 2e-3, "q_lr": 7e-3}
    turns = learning_turns(_turns(subject, **rates), "q_optimizer")
    # The temperature's epsilon shows where its gradient is small: with about the wanted entropy
    excess = float(_alpha_loss(turns[0], _net(turns[0].before["actor"])))
    share = SCALE + (excess - 1e-3) / math.log(CHOICES)
    near = _turns(subject, **rates, target_entropy_scale=share, total_timesteps=44)
    for turn in [*turns, *learning_turns(near, "q_optimizer")]:
        reference.assert_adam_step(turn, "q_optimizer", ["qf1", "qf2"], 7e-3, eps=1e-4)
        reference.assert_adam_step(turn, "actor_optimizer", ["actor"], 2e-3, eps=1e-4)
        reference.assert_adam_step(turn, "alpha_optimizer", ["temperature"], 7e-3, eps=1e-4)


def explores_with_its_own_policy(subject: Subject) -> None:
    """Actions are random before learning starts; then each comes as often as the policy says."""
    settings = {"learning_starts": 300, "total_timesteps": 600, "update_frequency": 1000}
    module = _made_small(subject, _Sharp)
    turns = rehearse(module, **{**SETTINGS, **settings})
    actor = _net(turns[0].before["actor"], _Sharp)
    obs = torch.from_numpy(np.concatenate([turn.steps[0].obs for turn in turns]))
    chances = actor(obs).softmax(dim=1).detach()
    actions = torch.tensor([int(turn.steps[0].actions[0]) for turn in turns])
    greedy = (actions == chances.argmax(dim=1)).float()
    assert 0.25 < greedy[:300].mean() < 0.42
    assert ((actions[:300].bincount(minlength=CHOICES) / 300 - 1 / CHOICES).abs() < 0.08).all()
    surest = float(chances[300:].amax(dim=1).mean())
    assert 0.5 < surest < 0.9, "this policy could not be told from another one"
    assert abs(float(greedy[300:].mean()) - surest) < 0.07
    counts = actions[300:].bincount(minlength=CHOICES) / 300
    assert ((counts - chances[300:].mean(dim=0)).abs() < 0.08).all()


def curves_show_what_was_learned(subject: Subject) -> None:
    """About every hundred steps, with any number of environments, curves show the average values
    and the losses of that turn's batch; no other turn is logged."""
    settings = {"learning_starts": 95, "update_frequency": 4}
    for num_envs, logged in ((1, 100), (3, 102)):
        turns = _turns(subject, num_envs=num_envs, total_timesteps=120, **settings)
        found = [turn for turn in turns if any("losses/" in tag for tag in turn.logged)]
        assert [turn.step for turn in found] == [logged]
        turn = found[0]
        aim, losses, expected = _aim(turn), [], {}
        for name in ("qf1", "qf2"):
            values = _taken(_net(turn.before[name]), turn)
            losses.append((values - aim).square().mean().item())
            expected[f"losses/{name}_values"] = values.mean().item()
            expected[f"losses/{name}_loss"] = losses[-1]
        actor = _net(turn.before["actor"])
        expected |= {
            "losses/qf_loss": sum(losses) / 2,
            "losses/actor_loss": _actor_loss(turn, actor).item(),
            "losses/alpha_loss": float(_alpha_loss(turn, actor)),
            "losses/alpha": float(turn.after["temperature"]["log_alpha"].exp()),
        }
        shown = {tag: value for tag, value in turn.logged.items() if "losses/" in tag}
        assert shown == pytest.approx(expected, rel=1e-3, abs=1e-6)


def network_is_that_of_the_paper(subject: Subject) -> None:
    """Actor and critics are the network of Mnih et al. (2015), from bytes; they begin with
    Kaiming's normal weights, and without biases."""
    envs = SimpleNamespace(
        single_observation_space=spaces.Box(0, 255, (4, 84, 84), np.uint8),
        single_action_space=spaces.Discrete(4),
    )
    torch.manual_seed(5)
    network = Subject(subject.file, subject.source).module.network(envs)
    plain = reference.load(reference.nature_cnn(4), network.state_dict())
    frames = torch.randint(256, (2, 4, 84, 84), dtype=torch.uint8)
    torch.testing.assert_close(network(frames), plain(frames / 255), rtol=1e-4, atol=1e-5)
    for layer in plain.children():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            assert not torch.as_tensor(layer.bias).any()
            units = layer.weight.detach().flatten() * math.sqrt(layer.weight[0].numel() / 2)
            assert abs(float(units.std()) - 1) < 0.06
            # Of a normal distribution, not of a uniform one as torch's own
            assert abs(float((units.abs() > 2).float().mean()) - 0.0455) < 0.02


def judges_by_what_the_policy_earns(subject: Subject) -> None:
    """The value that is shown of a state is the average over the policy of the smaller value."""
    torch.manual_seed(5)
    actor, *critics = (nn.Linear(4, CHOICES) for _ in range(3))
    obs = torch.randn(8, 4)
    expected = []
    for row in obs:
        chances = actor(row).exp() / actor(row).exp().sum()
        values = zip(*(critic(row) for critic in critics), strict=True)
        smaller = [min(pair) for pair in values]
        expected.append(sum((p * q).item() for p, q in zip(chances, smaller, strict=True)))
    shown = subject.module.state_value(actor, critics, obs.numpy())
    np.testing.assert_allclose(shown, expected, rtol=1e-4, atol=1e-6)


def memory_of_frames_holds_what_happened(subject: Subject) -> None:
    """A lost life ends an episode, and stacks never mix two games."""
    module: Any = Subject(subject.file, subject.source).module
    module.network = SmallQ  # the games are the file's own
    settings = {"total_timesteps": 70, "learning_starts": 56, "update_frequency": 1}
    turns = rehearse(module, **{**SETTINGS, **settings, "batch_size": 32})
    reference.assert_true_transitions(turns, frozenset({"terminated", "ordinary"}))


def starts_without_anything_to_draw(subject: Subject) -> None:
    """With --learning-starts 0 learning begins as soon as there is something to learn from."""
    turns = _turns(subject, learning_starts=0, update_frequency=1, total_timesteps=6)
    assert sum(reference.updated(turn, "q_optimizer") for turn in turns) >= 4


def looks_at_its_environments(subject: Subject) -> None:
    """Environments are looked at before anything is built for them: whether their observations and
    actions are those of this algorithm."""
    looked: list[Any] = []

    class Looking(Trial):
        def check_spaces(self, envs: Any) -> None:
            looked.append(envs)

    rehearse(_made_small(subject), kind=Looking, **{**SETTINGS, "total_timesteps": 1})
    assert [type(envs) for envs in looked] == [_Games]


_CRITICS: tuple[Check, ...] = (critics_follow_the_soft_value,)
_ACTOR: tuple[Check, ...] = (actor_and_temperature_learn,)
_TIMES: tuple[Check, ...] = (updates_come_when_they_should,)
_CURVES: tuple[Check, ...] = (curves_show_what_was_learned,)
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
    Mutant(FILE, "parameters, args.tau)", "parameters, 1.0)", "tau is ignored", _TIMES),
    Mutant(
        FILE,
        "global_step % args.update_frequency < args.num_envs",
        "global_step % args.update_frequency == 0",
        "with several environments most updates are missed",
        _TIMES,
    ),
    Mutant(
        FILE,
        "if global_step < args.learning_starts or not memory.ready:",
        "if not memory.ready:",
        "learning starts with an almost empty memory",
        _TIMES,
    ),
    Mutant(
        FILE,
        "qf2_target.requires_grad_(False).load_state_dict(qf2.state_dict())",
        "qf2_target.requires_grad_(False).load_state_dict(qf1.state_dict())",
        "both targets begin as the first critic",
        _TIMES,
    ),
    Mutant(
        FILE,
        "            if global_step % 100 < args.num_envs:\n",
        "            if global_step % 100 == 0:\n",
        "with three environments there is a third of the points, or none",
        _CURVES,
    ),
    Mutant(
        FILE,
        "values = [qf1_values.mean(), qf2_values.mean()]",
        "values = [qf1_values.sum(), qf2_values.sum()]",
        "a sum for a mean",
        _CURVES,
    ),
    Mutant(
        FILE,
        "1.0 if args.autotune else args.alpha",
        "args.alpha",
        "a tuned temperature begins with the value for a fixed one",
        (temperature_is_tuned_or_fixed,),
    ),
    Mutant(
        FILE,
        "                if args.autotune:\n",
        "                if True:\n",
        "--alpha is forgotten after some updates",
        (temperature_is_tuned_or_fixed,),
    ),
    Mutant(
        FILE,
        "args.policy_lr, eps=1e-4",
        "args.policy_lr",
        "the actor's first steps are as large for noise as for a signal",
        (optimizers_take_their_steps,),
    ),
    Mutant(
        FILE,
        "run.rng.categorical(logits)",
        "logits.argmax(axis=1)",
        "no exploration",
        (explores_with_its_own_policy,),
    ),
    Mutant(
        FILE,
        "    nn.init.kaiming_normal_(layer.weight)\n",
        "",
        "signals shrink from layer to layer",
        (network_is_that_of_the_paper,),
    ),
    Mutant(
        FILE,
        "amin(dim=0)",
        "amax(dim=0)",
        "the value that is shown is the larger one of the critics",
        (judges_by_what_the_policy_earns,),
    ),
    Mutant(
        FILE,
        "memory.add(obs, actions, rewards, terminated, info)",
        "memory.add(obs, actions, rewards, terminated & False, info)",
        "a lost life is no end",
        (memory_of_frames_holds_what_happened,),
    ),
    Mutant(
        FILE,
        " or not memory.ready",
        "",
        "nothing to draw at the start",
        (starts_without_anything_to_draw,),
    ),
    Mutant(
        FILE,
        "    run.check_spaces(envs)\n",
        "",
        "an unfit environment ends in an error deep inside",
        (looks_at_its_environments,),
    ),
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
