"""DDPG, TD3 and SAC: their targets, losses, noise and delays, and that they learn."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mutants import reference
from mutants.harmless import Harmless
from mutants.learning import Learning
from mutants.noise_envs import CONTINUOUS, Noise
from mutants.reference import assert_same_gradient, gradient_of, learned_gradient, learning_turns
from mutants.subject import Mutant, Subject
from mutants.trial import Turn, rehearse

DDPG, TD3, SAC = (f"cleanrl/{name}_continuous_action.py" for name in ("ddpg", "td3", "sac"))
GAMMA, TAU, ROWS = 0.9, 0.2, 16
# The middle and the half width of the noise environment's actions.
CENTRE, SCALE = torch.tensor([1.0, 0.25]), torch.tensor([2.0, 2.25])
BUFFERS = ("scale", "centre")


def _turns(subject: Subject, **arguments: object) -> list[Turn]:
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


class _Critic:
    """A reference critic with a saved one's numbers."""

    def __init__(self, state: dict[str, Tensor]) -> None:
        self.network = reference.load(reference.mlp([5, 256, 256, 1]), state)

    def __call__(self, obs: Tensor, actions: Tensor) -> Tensor:
        values: Tensor = self.network(torch.cat([obs, actions], dim=1))[:, 0]
        return values


def _tanh_actor(state: dict[str, Tensor]) -> nn.Module:
    network = reference.mlp([3, 256, 256, 2], last=nn.Tanh())
    return reference.load(network, state, without=BUFFERS)


def _aim(turn: Turn, next_value: Tensor) -> Tensor:
    batch = turn.draws[0].batch
    aim: Tensor = (batch.rewards + GAMMA * (1 - batch.dones) * next_value).detach()
    return aim


def _ddpg_aim(turn: Turn) -> Tensor:
    next_obs = turn.draws[0].batch.next_obs
    next_actions = _tanh_actor(turn.before["target_actor"])(next_obs) * SCALE + CENTRE
    return _aim(turn, _Critic(turn.before["qf1_target"])(next_obs, next_actions))


def _td3_aim(turn: Turn, std: float, clip: float) -> Tensor:
    next_obs = turn.draws[0].batch.next_obs
    torch.set_rng_state(turn.draws[0].random)
    noise = (torch.randn(ROWS, 2) * std).clamp(-clip, clip) * SCALE
    next_actions = _tanh_actor(turn.before["target_actor"])(next_obs) * SCALE + CENTRE
    next_actions = torch.max(torch.min(next_actions + noise, CENTRE + SCALE), CENTRE - SCALE)
    return _aim(turn, torch.min(*_target_values(turn, next_actions)))


def _target_values(turn: Turn, next_actions: Tensor) -> list[Tensor]:
    next_obs = turn.draws[0].batch.next_obs
    names = ("qf1_target", "qf2_target")
    return [_Critic(turn.before[name])(next_obs, next_actions) for name in names]


def ddpg_critic_follows_its_target(subject: Subject) -> None:
    """The critic's gradient is that of the squared difference to the reward plus the discounted
    target value of the target actor's action, zero after a termination."""
    for turn in learning_turns(_turns(subject), "q_optimizer"):
        batch = turn.draws[0].batch
        qf1 = _Critic(turn.before["qf1"])
        loss = (qf1(batch.obs, batch.actions) - _ddpg_aim(turn)).square().mean()
        expected = gradient_of(loss, qf1.network)
        assert_same_gradient(learned_gradient(turn, "q_optimizer"), expected)


def td3_critics_follow_their_target(subject: Subject) -> None:
    """Both critics move towards the smaller target value of the target actor's action, which is
    moved by clipped noise and kept in the action range."""
    settings = {"policy_noise": 1.5, "noise_clip": 1.2}
    for turn in learning_turns(_turns(subject, **settings), "q_optimizer"):
        batch = turn.draws[0].batch
        aim = _td3_aim(turn, 1.5, 1.2)
        critics = [_Critic(turn.before[name]) for name in ("qf1", "qf2")]
        values = torch.stack([critic(batch.obs, batch.actions) for critic in critics])
        loss = (values - aim).square().mean(dim=1).sum()
        expected = gradient_of(loss, *(critic.network for critic in critics))
        assert_same_gradient(learned_gradient(turn, "q_optimizer"), expected)


def actor_climbs_the_first_critic(subject: Subject) -> None:
    """The actor's gradient is that of minus the average value of its own actions."""
    for turn in learning_turns(_turns(subject, policy_frequency=1), "actor_optimizer"):
        batch = turn.draws[0].batch
        actor = _tanh_actor(turn.before["actor"])
        qf1 = _Critic(turn.after["qf1"])
        loss = -qf1(batch.obs, actor(batch.obs) * SCALE + CENTRE).mean()
        expected = gradient_of(loss, actor)
        assert_same_gradient(learned_gradient(turn, "actor_optimizer"), expected)


def targets_follow_the_delayed_actor(subject: Subject) -> None:
    """Every other turn, with any number of environments, the actor learns and all targets move by
    tau; in the turns between neither does. At the start they are equal to what they follow, and
    nothing is learned before --learning-starts."""
    for num_envs in (1, 2, 4):
        turns = _turns(subject, num_envs=num_envs, total_timesteps=20 + 6 * num_envs)
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
    turns = _turns(subject, total_timesteps=140, **settings)
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


def _sac_std(log_std: Tensor) -> Tensor:
    """From exp(-5) to exp(2), whatever the network says."""
    return (-5 + 3.5 * (log_std.tanh() + 1)).exp()


def _sac_policy(network: nn.Module, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Sampled actions and their log-probabilities, by torch's own distributions."""
    mean, log_std = network(obs).chunk(2, dim=1)
    std = _sac_std(log_std)
    before_tanh = mean + std * noise
    log_prob = torch.distributions.Normal(mean, std).log_prob(before_tanh)
    squashed = before_tanh.tanh()
    log_prob = log_prob - (SCALE * (1 - squashed**2) + 1e-6).log()
    return squashed * SCALE + CENTRE, log_prob.sum(dim=1)


def _sac_actor(state: dict[str, Tensor]) -> nn.Module:
    return reference.load(reference.mlp([3, 256, 256, 4]), state, without=BUFFERS)


def _sac_aim(turn: Turn, alpha: float) -> Tensor:
    batch = turn.draws[0].batch
    torch.set_rng_state(turn.draws[0].random)
    noise = torch.randn(ROWS, 2)
    actions, log_pi = _sac_policy(_sac_actor(turn.before["actor"]), batch.next_obs, noise)
    return _aim(turn, torch.min(*_target_values(turn, actions)) - alpha * log_pi)


def sac_critics_follow_the_soft_target(subject: Subject) -> None:
    """Both critics move towards the reward plus the discounted smaller target value of a sampled
    next action less alpha times its log-probability, zero after a termination."""
    settings = {"policy_frequency": 1, "autotune": False, "alpha": 0.7}
    for turn in learning_turns(_turns(subject, **settings), "q_optimizer"):
        batch = turn.draws[0].batch
        aim = _sac_aim(turn, 0.7)
        critics = [_Critic(turn.before[name]) for name in ("qf1", "qf2")]
        values = torch.stack([critic(batch.obs, batch.actions) for critic in critics])
        loss = (values - aim).square().mean(dim=1).sum()
        expected = gradient_of(loss, *(critic.network for critic in critics))
        assert_same_gradient(learned_gradient(turn, "q_optimizer"), expected)


def sac_actor_and_temperature_learn(subject: Subject) -> None:
    """The actor's gradient is that of alpha log pi minus the smaller value; the temperature's is
    that of its loss, which pulls the entropy to minus one nat for each action dimension."""
    for turn in learning_turns(_turns(subject, policy_frequency=1), "actor_optimizer"):
        draw = turn.draws[0]
        batch = draw.batch
        torch.set_rng_state(draw.random)
        _, noise = torch.randn(ROWS, 2), torch.randn(ROWS, 2)  # the critics' comes first
        actor = _sac_actor(turn.before["actor"])
        actions, log_pi = _sac_policy(actor, batch.obs, noise)
        values = [_Critic(turn.after[name])(batch.obs, actions) for name in ("qf1", "qf2")]
        log_alpha = turn.before["temperature"]["log_alpha"]
        loss = (log_alpha.exp() * log_pi - torch.min(*values)).mean()
        expected = gradient_of(loss, actor)
        assert_same_gradient(learned_gradient(turn, "actor_optimizer"), expected)
        wanted = -(log_alpha.exp() * (log_pi.detach().mean() - 2.0))
        assert_same_gradient(learned_gradient(turn, "alpha_optimizer"), wanted)


def sac_counts_its_updates(subject: Subject) -> None:
    """With any number of environments the actor learns as often as the critics, in every other
    turn twice, and the targets of the critics move in every third turn if told so. At the start
    they are equal to the critics and a tuned temperature is one, and nothing is learned before
    --learning-starts."""
    settings = {"target_network_frequency": 3}
    for num_envs in (1, 2, 4):
        turns = _turns(subject, num_envs=num_envs, total_timesteps=20 + 7 * num_envs, **settings)
        start = turns[0].before
        assert float(start["temperature"]["log_alpha"].exp()) == 1.0
        for name in ("qf1", "qf2"):
            target = reference.flat(start[f"{name}_target"])
            assert torch.equal(target, reference.flat(start[name]))
        for turn in turns:
            learns, number = turn.step >= 20, turn.step // num_envs
            twice = 2 if learns and number % 2 == 0 else 0
            assert reference.updated(turn, "q_optimizer") == learns
            assert reference.updated(turn, "actor_optimizer") == twice
            assert reference.updated(turn, "alpha_optimizer") == twice
            tau = TAU if learns and number % 3 == 0 else 0.0
            for index in (1, 2):
                reference.assert_target_follows(turn, f"qf{index}_target", f"qf{index}", tau)


def sac_explores_with_its_own_policy(subject: Subject) -> None:
    """Actions are uniform before learning starts; then they are samples of the policy."""
    turns = _turns(subject, learning_starts=60, total_timesteps=140, batch_size=1)
    actions = torch.stack([torch.from_numpy(turn.steps[0].actions[0]) for turn in turns])
    units = (actions - CENTRE) / SCALE
    assert (units.abs() <= 1 + 1e-6).all()
    assert ((units[:60].std(dim=0) - 1 / math.sqrt(3)).abs() < 0.12).all()
    assert (units[:60].mean(dim=0).abs() < 0.25).all()
    drawn = []
    for turn, unit in zip(turns[60:], units[60:], strict=True):
        network = _sac_actor(turn.before["actor"])
        mean, log_std = network(torch.from_numpy(turn.steps[0].obs)).chunk(2, dim=1)
        drawn.append((unit.atanh() - mean[0]) / _sac_std(log_std)[0])
    noise = torch.stack(drawn).detach()
    assert (noise.abs() < 4.5).all()
    assert (noise.mean(dim=0).abs() < 0.3).all()
    assert ((noise.std(dim=0) - 1).abs() < 0.2).all()
    assert abs(float(torch.corrcoef(noise.T)[0, 1])) < 0.3


def _spaces() -> SimpleNamespace:
    """What networks want to know of environments."""
    noise = Noise(continuous=True)
    return SimpleNamespace(
        single_observation_space=noise.observation_space, single_action_space=noise.action_space
    )


def sac_knows_actions_at_the_edge(subject: Subject) -> None:
    """Where tanh is one, the logarithm of nothing would be infinite and ruin all networks: the
    log-probability is that of a millionth instead."""
    actor = subject.module.Actor(_spaces())
    last = actor.network[4]
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(torch.tensor([20.0, -20.0, 0.0, 0.0]))
        obs, noise = torch.ones(2, 3), torch.tensor([[0.0, 0.0], [1.0, -2.0]])
        actions, log_probs = actor(obs, noise)
    network = reference.load(reference.mlp([3, 256, 256, 4]), actor.state_dict(), without=BUFFERS)
    expected = _sac_policy(network, obs, noise)
    assert torch.isfinite(log_probs).all()
    torch.testing.assert_close((actions, log_probs), expected, rtol=1e-5, atol=1e-5)


def sac_judges_by_the_smaller_value(subject: Subject) -> None:
    """The value that is shown of a state and an action is the smaller one of both critics."""
    torch.manual_seed(3)
    module = subject.module
    critics = [module.SoftQNetwork(_spaces()) for _ in range(2)]
    obs, actions = torch.randn(20, 3), torch.randn(20, 2)
    one, other = (_Critic(critic.state_dict())(obs, actions) for critic in critics)
    assert 0 < int((one < other).sum()) < 20, "each must be the smaller one somewhere"
    shown = module.smaller_value(critics, obs.numpy(), actions.numpy())
    np.testing.assert_allclose(shown, torch.min(one, other).detach().numpy(), rtol=1e-4, atol=1e-6)


def optimizers_take_their_steps(subject: Subject) -> None:
    """Each network takes Adam's steps at its own learning rate."""
    rates: dict[str, float] = {"learning_rate": 4e-3}
    of_actor = of_critics = 4e-3
    if subject.file == SAC:
        rates = {"policy_lr": (of_actor := 2e-3), "q_lr": (of_critics := 7e-3)}
    turns = learning_turns(_turns(subject, policy_frequency=1, **rates), "q_optimizer")
    critics = [name for name in ("qf1", "qf2") if name in turns[0].before]
    for turn in turns:
        reference.assert_adam_step(turn, "q_optimizer", critics, of_critics)
        reference.assert_adam_step(turn, "actor_optimizer", ["actor"], of_actor, without=BUFFERS)
        if subject.file == SAC:
            reference.assert_adam_step(turn, "alpha_optimizer", ["temperature"], of_critics)


def curves_show_what_was_learned(subject: Subject) -> None:
    """About every hundred steps, with any number of environments, curves show the average values,
    the losses of that turn's batch and the actor's latest; no other turn is logged."""
    settings = {"learning_starts": 97, "policy_frequency": 3}
    for num_envs, logged in ((1, 100), (3, 102)):
        turns = _turns(
            subject, num_envs=num_envs, total_timesteps=logged + 2 * num_envs, **settings
        )
        found = [turn for turn in turns if any("losses/" in tag for tag in turn.logged)]
        assert [turn.step for turn in found] == [logged]
        (of_actor,) = [turn for turn in turns if reference.updated(turn, "actor_optimizer")]
        assert of_actor.step == 99
        expected = {**_critics_curves(subject, found[0]), **_actor_curves(subject, of_actor)}
        shown = {tag: value for tag, value in found[0].logged.items() if "losses/" in tag}
        assert shown == pytest.approx(expected, rel=1e-3, abs=1e-6)


def _critics_curves(subject: Subject, turn: Turn) -> dict[str, float]:
    batch = turn.draws[0].batch
    if subject.file == SAC:
        aim = _sac_aim(turn, float(turn.before["temperature"]["log_alpha"].exp()))
    else:
        aim = _ddpg_aim(turn) if subject.file == DDPG else _td3_aim(turn, 0.2, 0.5)
    losses: list[float] = []
    curves: dict[str, float] = {}
    for name in ("qf1", "qf2"):
        if name in turn.before:
            values = _Critic(turn.before[name])(batch.obs, batch.actions).detach()
            losses.append(float((values - aim).square().mean()))
            curves |= {f"losses/{name}_values": float(values.mean())}
            curves |= {f"losses/{name}_loss": losses[-1]}
    return curves if subject.file == DDPG else {**curves, "losses/qf_loss": sum(losses) / 2}


def _actor_curves(subject: Subject, turn: Turn) -> dict[str, float]:
    if subject.file == SAC:
        return _sac_actor_curves(turn)
    obs = turn.draws[0].batch.obs
    actions = _tanh_actor(turn.before["actor"])(obs) * SCALE + CENTRE
    return {"losses/actor_loss": -_Critic(turn.after["qf1"])(obs, actions).mean().item()}


def _sac_actor_curves(turn: Turn) -> dict[str, float]:
    """Those of the third of three steps on the same batch, by torch's own optimiser."""
    obs = turn.draws[0].batch.obs
    torch.set_rng_state(turn.draws[0].random)
    # Before networks are built, which draw too; the first is the critics'
    _, *noises = [torch.randn(ROWS, 2) for _ in range(4)]
    actor = _sac_actor(turn.before["actor"])
    critics = [_Critic(turn.after[name]) for name in ("qf1", "qf2")]
    log_alpha = nn.Parameter(turn.before["temperature"]["log_alpha"].clone())
    steps = torch.optim.Adam(actor.parameters(), 3e-4), torch.optim.Adam([log_alpha], 1e-3)
    for noise in noises:
        actions, log_pi = _sac_policy(actor, obs, noise)
        smaller = torch.min(*(critic(obs, actions) for critic in critics))
        actor_loss = (log_alpha.exp().detach() * log_pi - smaller).mean()
        alpha_loss = -log_alpha.exp() * (log_pi.detach().mean() - 2.0)
        for step, loss in zip(steps, (actor_loss, alpha_loss.sum()), strict=True):
            step.zero_grad()
            loss.backward()
            step.step()
    return {
        "losses/actor_loss": actor_loss.item(),
        "losses/alpha_loss": alpha_loss.item(),
        "losses/alpha": log_alpha.exp().item(),
    }


def memory_holds_what_happened(subject: Subject) -> None:
    """Truncation is no end, and no transition leads into the next episode."""
    reference.assert_true_transitions(_turns(subject, total_timesteps=83, learning_starts=80))


_DONE = " * (1 - dones)"
_NO_NEW_EPISODE = 'info.get("final_obs", next_obs)'


def _common(file: str, critics: Callable[[Subject], None]) -> list[Mutant]:
    """The mutants of DDPG and TD3 alike."""
    memory, delay = (memory_holds_what_happened,), (targets_follow_the_delayed_actor,)
    noise = (exploration_is_noise_in_the_action_range,)
    climb = (actor_climbs_the_first_critic,)
    curves, rates = (curves_show_what_was_learned,), (optimizers_take_their_steps,)
    return [
        Mutant(file, "(1 - dones) * ", "", "the future counts after the end", (critics,)),
        Mutant(file, "args.gamma * ", "", "no discount", (critics,)),
        Mutant(file, _NO_NEW_EPISODE, "next_obs", "the reset state as the next state", memory),
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
_SOFT, _POLICY = (sac_critics_follow_the_soft_target,), (sac_actor_and_temperature_learn,)
_COUNTS, _MEMORY = (sac_counts_its_updates,), (memory_holds_what_happened,)

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
    Mutant(SAC, "(1 - dones) * ", "", "the future counts after the end", _SOFT),
    Mutant(
        SAC, "torch.min(next_qf1, next_qf2)", "torch.max(next_qf1, next_qf2)", "max for min", _SOFT
    ),
    Mutant(SAC, " - log_alpha.exp() * next_log_pi", "", "no entropy in the target", _SOFT),
    Mutant(
        SAC,
        "        log_prob = log_prob - (self.scale * (1 - squashed.square()) + 1e-6).log()\n",
        "",
        "no correction for tanh",
        (*_SOFT, *_POLICY),
    ),
    Mutant(
        SAC,
        "torch.min(qf1(obs, pi), qf2(obs, pi))",
        "qf1(obs, pi)",
        "the actor believes one critic only",
        _POLICY,
    ),
    Mutant(SAC, "* log_pi - min_qf", "* log_pi + min_qf", "the actor goes downhill", _POLICY),
    Mutant(SAC, "(-log_alpha.exp()", "(log_alpha.exp()", "the temperature runs away", _POLICY),
    Mutant(
        SAC,
        "target_entropy = -float",
        "target_entropy = float",
        "the target entropy has the wrong sign",
        _POLICY,
    ),
    Mutant(SAC, _NO_NEW_EPISODE, "next_obs", "the reset state as the next state", _MEMORY),
    Mutant(
        SAC,
        "actions, rewards, terminated)",
        "actions, rewards, terminated | bool(info))",
        "truncation taken as an end",
        _MEMORY,
    ),
    Mutant(
        SAC,
        "turn = global_step // args.num_envs",
        "turn = global_step",
        "with two environments the actor learns twice as often as the critics",
        _COUNTS,
    ),
    Mutant(
        SAC,
        "q_optimizer.parameters, args.tau)",
        "q_optimizer.parameters, 1.0)",
        "the targets jump instead of following",
        _COUNTS,
    ),
    Mutant(
        SAC,
        "turn % args.target_network_frequency == 0",
        "turn % args.policy_frequency == 0",
        "--target-network-frequency is ignored",
        _COUNTS,
    ),
    Mutant(
        SAC,
        "        if global_step < args.learning_starts:\n            continue\n",
        "",
        "learning starts with an almost empty memory",
        _COUNTS,
    ),
    Mutant(
        SAC,
        "qf2_target.requires_grad_(False).load_state_dict(qf2.state_dict())",
        "qf2_target.requires_grad_(False).load_state_dict(qf1.state_dict())",
        "both targets begin as the first critic",
        _COUNTS,
    ),
    Mutant(
        SAC,
        "1.0 if args.autotune else args.alpha",
        "args.alpha",
        "a tuned temperature begins with the value for a fixed one",
        _COUNTS,
    ),
    Mutant(
        SAC,
        "act(actor, obs, run.rng)",
        "act(actor, obs, run.rng, deterministic=True)",
        "no exploration",
        (sac_explores_with_its_own_policy,),
    ),
    Mutant(
        SAC,
        "            actions = envs.sample_actions(run.rng)\n",
        "            actions = act(actor, obs, run.rng)\n",
        "the memory begins with the actions of an untrained policy",
        (sac_explores_with_its_own_policy,),
    ),
    Mutant(
        SAC,
        " + 1e-6).log()",
        ").log()",
        "one action at the edge of the range, and all networks are not a number",
        (sac_knows_actions_at_the_edge,),
    ),
    Mutant(
        SAC,
        "amin(dim=0)",
        "amax(dim=0)",
        "the value that is shown is the larger one of the critics",
        (sac_judges_by_the_smaller_value,),
    ),
    Mutant(
        SAC,
        "Adam([log_alpha], args.q_lr)",
        "Adam([log_alpha], args.policy_lr)",
        "the temperature learns at the actor's rate",
        (optimizers_take_their_steps,),
    ),
    Mutant(
        SAC,
        "(qf1_loss.item() + qf2_loss.item()) / 2",
        "qf1_loss.item() + qf2_loss.item()",
        "the curve of the critics' loss is twice as high",
        (curves_show_what_was_learned,),
    ),
    Mutant(
        SAC,
        "global_step % 100 < args.num_envs",
        "global_step % 100 == 0",
        "with three environments there is a third of the points, or none",
        (curves_show_what_was_learned,),
    ),
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

_PENDULUM = "--env-id Pendulum-v1 --buffer-size 10000 --gamma 0.98 --batch-size 64"
_NOISY = f"{_PENDULUM} --learning-starts 1000 --exploration-noise 0.3 --learning-rate 1e-3"
# It terminates as soon as the pole falls, which Pendulum never does.
_POLE = "--env-id InvertedPendulum-v5 --buffer-size 10000 --batch-size 64 --learning-starts 500"
_NOTHING = "--total-timesteps 400"
LEARNING = [
    # SAC on the same task is in `make test`; these two share its memory, critics and targets, and
    # each line that is their own has its mutant.
    Learning(
        "ddpg_continuous_action", f"--total-timesteps 7000 {_NOISY}", _NOTHING, 2.5, slow=True
    ),
    Learning("td3_continuous_action", f"--total-timesteps 7000 {_NOISY}", _NOTHING, 2.5, slow=True),
    Learning(
        "sac_continuous_action",
        f"--total-timesteps 4000 {_PENDULUM} --learning-starts 500",
        _NOTHING,
        2.5,
        slow=True,
    ),
    Learning(
        "ddpg_continuous_action",
        f"--total-timesteps 4000 {_POLE} --learning-rate 1e-3",
        _NOTHING,
        5,
        slow=True,
    ),
    Learning(
        "td3_continuous_action",
        f"--total-timesteps 4000 {_POLE} --learning-rate 1e-3",
        _NOTHING,
        5,
        slow=True,
    ),
    Learning("sac_continuous_action", f"--total-timesteps 4000 {_POLE}", _NOTHING, 5, slow=True),
]
