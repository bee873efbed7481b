"""DDPG and TD3, and what SAC shares: targets, losses, noise and delays, and that they learn."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mutants import reference
from mutants.harmless import Harmless
from mutants.learning import Learning
from mutants.noise_envs import CONTINUOUS
from mutants.reference import assert_same_gradient, gradient_of, learned_gradient, learning_turns
from mutants.subject import Mutant, Subject
from mutants.trial import Turn, rehearse

DDPG, TD3 = (f"cleanrl/{name}_continuous_action.py" for name in ("ddpg", "td3"))
GAMMA, TAU, ROWS = 0.9, 0.2, 16
# The middle and the half width of the noise environment's actions.
CENTRE, SCALE = torch.tensor([1.0, 0.25]), torch.tensor([2.0, 2.25])
BUFFERS = ("scale", "centre")


def short_turns(subject: Subject, **arguments: object) -> list[Turn]:
    """A few turns without learning, and a few in which everything learns."""
    settings: dict[str, Any] = {
        "env_id": CONTINUOUS,
        "total_timesteps": 26,
        "learning_starts": 20,
        "buffer_size": 200,
        "batch_size": ROWS,
        "gamma": GAMMA,
        "tau": TAU,
        **arguments,
    }
    return rehearse(subject.module, **settings)


class Critic:
    """A reference critic with a saved one's numbers."""

    def __init__(self, state: dict[str, Tensor]) -> None:
        self.network = reference.load(reference.mlp([5, 256, 256, 1]), state)

    def __call__(self, obs: Tensor, actions: Tensor) -> Tensor:
        values: Tensor = self.network(torch.cat([obs, actions], dim=1))[:, 0]
        return values


def _tanh_actor(state: dict[str, Tensor]) -> nn.Module:
    network = reference.mlp([3, 256, 256, 2], last=nn.Tanh())
    return reference.load(network, state, without=BUFFERS)


def aim_at(turn: Turn, next_value: Tensor) -> Tensor:
    """What the critics should say: the reward and, unless the episode ended, what follows."""
    batch = turn.draws[0].batch
    aim: Tensor = (batch.rewards + GAMMA * (1 - batch.dones) * next_value).detach()
    return aim


def _ddpg_aim(turn: Turn) -> Tensor:
    next_obs = turn.draws[0].batch.next_obs
    next_actions = _tanh_actor(turn.before["target_actor"])(next_obs) * SCALE + CENTRE
    return aim_at(turn, Critic(turn.before["qf1_target"])(next_obs, next_actions))


def _td3_aim(turn: Turn, std: float = 0.2, clip: float = 0.5) -> Tensor:
    next_obs = turn.draws[0].batch.next_obs
    torch.set_rng_state(turn.draws[0].random)
    noise = (torch.randn(ROWS, 2) * std).clamp(-clip, clip) * SCALE
    next_actions = _tanh_actor(turn.before["target_actor"])(next_obs) * SCALE + CENTRE
    next_actions = torch.max(torch.min(next_actions + noise, CENTRE + SCALE), CENTRE - SCALE)
    return aim_at(turn, torch.min(*target_values(turn, next_actions)))


def target_values(turn: Turn, next_actions: Tensor) -> list[Tensor]:
    """What both target critics say of these actions in the next states."""
    next_obs = turn.draws[0].batch.next_obs
    names = ("qf1_target", "qf2_target")
    return [Critic(turn.before[name])(next_obs, next_actions) for name in names]


def ddpg_critic_follows_its_target(subject: Subject) -> None:
    """The critic's gradient is that of the squared difference to the reward plus the discounted
    target value of the target actor's action, zero after a termination."""
    for turn in learning_turns(short_turns(subject), "q_optimizer"):
        batch = turn.draws[0].batch
        qf1 = Critic(turn.before["qf1"])
        loss = (qf1(batch.obs, batch.actions) - _ddpg_aim(turn)).square().mean()
        expected = gradient_of(loss, qf1.network)
        assert_same_gradient(learned_gradient(turn, "q_optimizer"), expected)


def td3_critics_follow_their_target(subject: Subject) -> None:
    """Both critics move towards the smaller target value of the target actor's action, which is
    moved by clipped noise and kept in the action range."""
    settings = {"policy_noise": 1.5, "noise_clip": 1.2}
    for turn in learning_turns(short_turns(subject, **settings), "q_optimizer"):
        batch = turn.draws[0].batch
        aim = _td3_aim(turn, 1.5, 1.2)
        critics = [Critic(turn.before[name]) for name in ("qf1", "qf2")]
        values = torch.stack([critic(batch.obs, batch.actions) for critic in critics])
        loss = (values - aim).square().mean(dim=1).sum()
        expected = gradient_of(loss, *(critic.network for critic in critics))
        assert_same_gradient(learned_gradient(turn, "q_optimizer"), expected)


def actor_climbs_the_first_critic(subject: Subject) -> None:
    """The actor's gradient is that of minus the average value of its own actions."""
    for turn in learning_turns(short_turns(subject, policy_frequency=1), "actor_optimizer"):
        batch = turn.draws[0].batch
        actor = _tanh_actor(turn.before["actor"])
        qf1 = Critic(turn.after["qf1"])
        loss = -qf1(batch.obs, actor(batch.obs) * SCALE + CENTRE).mean()
        expected = gradient_of(loss, actor)
        assert_same_gradient(learned_gradient(turn, "actor_optimizer"), expected)


def targets_follow_the_delayed_actor(subject: Subject) -> None:
    """Every other turn, with any number of environments, the actor learns and all targets move by
    tau; in the turns between neither does. At the start they are equal to what they follow, and
    nothing is learned before --learning-starts."""
    for num_envs in (1, 2, 4):
        turns = short_turns(subject, num_envs=num_envs, total_timesteps=20 + 6 * num_envs)
        pairs = [("target_actor", "actor"), ("qf1_target", "qf1"), ("qf2_target", "qf2")]
        pairs = [pair for pair in pairs if pair[0] in turns[0].before]
        for target, source in pairs:
            start = turns[0].before
            assert torch.equal(reference.flat(start[target]), reference.flat(start[source]))
        for turn in turns:
            learns = turn.step >= 20
            assert reference.updated(turn, "q_optimizer") == learns
            moves = learns and turn.step // num_envs % 2 == 0
            assert reference.updated(turn, "actor_optimizer") == moves
            for target, source in pairs:
                reference.assert_target_follows(turn, target, source, TAU if moves else 0.0)


def exploration_is_noise_in_the_action_range(subject: Subject) -> None:
    """Actions are uniform before learning starts; then the actor's, with normal noise in units of
    the range, and never outside it."""
    settings = {"learning_starts": 60, "exploration_noise": 0.2, "batch_size": 1}
    turns = short_turns(subject, total_timesteps=140, **settings)
    low, high = (CENTRE - SCALE).numpy(), (CENTRE + SCALE).numpy()
    early = np.array([turn.steps[0].actions[0] for turn in turns[:60]])
    assert (early.std(axis=0) > 0.8 * 2 * SCALE.numpy() / math.sqrt(12)).all()
    units = []
    for turn in turns[60:]:
        step = turn.steps[0]
        actor = _tanh_actor(turn.before["actor"])
        middle = (actor(torch.from_numpy(step.obs)) * SCALE + CENTRE).detach().numpy()
        assert (step.actions >= low - 1e-5).all()
        assert (step.actions <= high + 1e-5).all()
        inside = (step.actions > low + 1e-4) & (step.actions < high - 1e-4)
        units.append(np.where(inside, (step.actions - middle) / SCALE.numpy(), np.nan))
    spread = np.nanstd(np.concatenate(units), axis=0)
    assert (spread > 0.15).all()
    assert (spread < 0.23).all()


def optimizers_take_their_steps(subject: Subject) -> None:
    """Each network takes Adam's steps at its own learning rate."""
    turns = short_turns(subject, policy_frequency=1, learning_rate=4e-3)
    for turn in learning_turns(turns, "q_optimizer"):
        critics = [name for name in ("qf1", "qf2") if name in turn.before]
        reference.assert_adam_step(turn, "q_optimizer", critics, 4e-3)
        reference.assert_adam_step(turn, "actor_optimizer", ["actor"], 4e-3, without=BUFFERS)


def curves_show_what_was_learned(subject: Subject) -> None:
    """About every hundred steps, with any number of environments, curves show the average values,
    the losses of that turn's batch and the actor's latest; no other turn is logged."""
    assert_curves(subject, partial(_critics_curves, subject), _actor_curves)


def assert_curves(
    subject: Subject,
    of_critics: Callable[[Turn], dict[str, float]],
    of_actor: Callable[[Turn], dict[str, float]],
) -> None:
    """The losses are logged about every hundred steps, and are what they should be.

    Args:
        subject: the file.
        of_critics: what should be shown of the critics in the turn that is logged.
        of_actor: what should be shown of the actor's newest turn.
    """
    settings = {"learning_starts": 97, "policy_frequency": 3}
    for num_envs, logged in ((1, 100), (3, 102)):
        turns = short_turns(
            subject, num_envs=num_envs, total_timesteps=logged + 2 * num_envs, **settings
        )
        found = [turn for turn in turns if any("losses/" in tag for tag in turn.logged)]
        assert [turn.step for turn in found] == [logged]
        (newest,) = [turn for turn in turns if reference.updated(turn, "actor_optimizer")]
        assert newest.step == 99
        expected = {**of_critics(found[0]), **of_actor(newest)}
        shown = {tag: value for tag, value in found[0].logged.items() if "losses/" in tag}
        assert shown == pytest.approx(expected, rel=1e-3, abs=1e-6)


def _critics_curves(subject: Subject, turn: Turn) -> dict[str, float]:
    return curves_of_critics(turn, _ddpg_aim(turn) if subject.file == DDPG else _td3_aim(turn))


def curves_of_critics(turn: Turn, aim: Tensor) -> dict[str, float]:
    """The average value and the loss of each critic, and where there are two, their loss."""
    batch = turn.draws[0].batch
    losses: list[float] = []
    curves: dict[str, float] = {}
    for name in ("qf1", "qf2"):
        if name in turn.before:
            values = Critic(turn.before[name])(batch.obs, batch.actions).detach()
            losses.append(float((values - aim).square().mean()))
            curves |= {f"losses/{name}_values": float(values.mean())}
            curves |= {f"losses/{name}_loss": losses[-1]}
    return {**curves, "losses/qf_loss": sum(losses) / 2} if len(losses) == 2 else curves


def _actor_curves(turn: Turn) -> dict[str, float]:
    obs = turn.draws[0].batch.obs
    actions = _tanh_actor(turn.before["actor"])(obs) * SCALE + CENTRE
    return {"losses/actor_loss": -Critic(turn.after["qf1"])(obs, actions).mean().item()}


def memory_holds_what_happened(subject: Subject) -> None:
    """Truncation is no end, and no transition leads into the next episode."""
    reference.assert_true_transitions(short_turns(subject, total_timesteps=83, learning_starts=80))


_DONE = " * (1 - dones)"
NO_NEW_EPISODE = 'info.get("final_obs", next_obs)'


def _common(file: str, critics: Callable[[Subject], None]) -> list[Mutant]:
    """The mutants of DDPG and TD3 alike."""
    memory, delay = (memory_holds_what_happened,), (targets_follow_the_delayed_actor,)
    noise = (exploration_is_noise_in_the_action_range,)
    climb = (actor_climbs_the_first_critic,)
    curves, rates = (curves_show_what_was_learned,), (optimizers_take_their_steps,)
    return [
        Mutant(file, "(1 - dones) * ", "", "the future counts after the end", (critics,)),
        Mutant(file, "args.gamma * ", "", "no discount", (critics,)),
        Mutant(file, NO_NEW_EPISODE, "next_obs", "the reset state as the next state", memory),
        Mutant(
            file,
            "actions, rewards, terminated)",
            "actions, rewards, terminated | bool(info))",
            "truncation taken as an end",
            memory,
        ),
        Mutant(file, "= -qf1(", "= qf1(", "the actor goes downhill", climb),
        Mutant(
            file,
            "(global_step // args.num_envs) % args.policy_frequency == 0",
            "global_step % args.policy_frequency < args.num_envs",
            "the actor's delay vanishes with two environments",
            delay,
        ),
        Mutant(
            file,
            "target_parameters, parameters, args.tau)",
            "target_parameters, parameters, 1.0)",
            "the targets jump instead of following",
            delay,
        ),
        Mutant(file, "noise_std * run.rng", "0 * run.rng", "no exploration noise", noise),
        Mutant(
            file,
            "args.exploration_noise * actor.scale.cpu().numpy()",
            "args.exploration_noise",
            "exploration noise ignores the action range",
            noise,
        ),
        Mutant(
            file,
            "        if global_step < args.learning_starts:\n            continue\n",
            "",
            "learning starts with an almost empty memory",
            delay,
        ),
        Mutant(
            file,
            "target.requires_grad_(False).load_state_dict(source.state_dict())",
            "target.requires_grad_(False)",
            "the targets begin as other networks than those they follow",
            delay,
        ),
        Mutant(
            file,
            "global_step % 100 < args.num_envs",
            "global_step % 100 == 0",
            "with three environments there is a third of the points, or none",
            curves,
        ),
        Mutant(
            file, "qf1_values.mean().item()", "qf1_values.sum().item()", "a sum for a mean", curves
        ),
        Mutant(
            file,
            "Adam(actor.parameters(), args.learning_rate)",
            "Adam(actor.parameters(), 0.1 * args.learning_rate)",
            "the actor learns at another rate than asked for",
            rates,
        ),
    ]


_TD3 = (td3_critics_follow_their_target,)
MUTANTS = [
    *_common(DDPG, ddpg_critic_follows_its_target),
    Mutant(
        DDPG,
        "next_qf1 = qf1_target(",
        "next_qf1 = qf1(",
        "no target network: values chase themselves",
        (ddpg_critic_follows_its_target,),
    ),
    Mutant(
        DDPG,
        "= target_actor(next_obs)",
        "= actor(next_obs)",
        "no target actor",
        # The two are equal until the targets lag behind, so a later turn shows it.
        (ddpg_critic_follows_its_target,),
    ),
    *_common(TD3, td3_critics_follow_their_target),
    Mutant(TD3, "torch.min(next_qf1", "torch.max(next_qf1", "max for min: optimism", _TD3),
    Mutant(TD3, "(target_actor(next_obs) + noise)", "target_actor(next_obs)", "no smoothing", _TD3),
    Mutant(
        TD3,
        "noise = noise.clamp(-args.noise_clip, args.noise_clip) * actor.scale",
        "noise = noise * actor.scale",
        "the smoothing noise is not clipped",
        _TD3,
    ),
    Mutant(TD3, ".clamp(lowest, highest)", "", "target actions leave the range", _TD3),
]

HARMLESS = [
    Harmless(
        "noise_std * run.rng.standard_normal",
        "actions + noise_std",
        "",
        "the noise is as likely to be positive as negative",
        ("ddpg_continuous_action", "td3_continuous_action"),
    ),
]

PENDULUM = "--env-id Pendulum-v1 --buffer-size 10000 --gamma 0.98 --batch-size 64"
_NOISY = f"{PENDULUM} --learning-starts 1000 --exploration-noise 0.3 --learning-rate 1e-3"
# It terminates as soon as the pole falls, which Pendulum never does.
POLE = "--env-id InvertedPendulum-v5 --buffer-size 10000 --batch-size 64 --learning-starts 500"
NOTHING = "--total-timesteps 400"
LEARNING = [
    Learning("ddpg_continuous_action", f"--total-timesteps 7000 {_NOISY}", NOTHING, 2.5, slow=True),
    Learning("td3_continuous_action", f"--total-timesteps 7000 {_NOISY}", NOTHING, 2.5, slow=True),
    Learning(
        "ddpg_continuous_action",
        f"--total-timesteps 4000 {POLE} --learning-rate 1e-3",
        NOTHING,
        5,
        slow=True,
    ),
    Learning(
        "td3_continuous_action",
        f"--total-timesteps 4000 {POLE} --learning-rate 1e-3",
        NOTHING,
        5,
        slow=True,
    ),
]
