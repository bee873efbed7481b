"""SAC: its soft targets, its policy, its temperature, and that it learns."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor, nn

from mutants import reference
from mutants.families.actor_critic import (
    BUFFERS,
    CENTRE,
    NO_NEW_EPISODE,
    NOTHING,
    PENDULUM,
    POLE,
    ROWS,
    SCALE,
    TAU,
    Critic,
    aim_at,
    assert_curves,
    curves_of_critics,
    memory_holds_what_happened,
    short_turns,
    target_values,
)
from mutants.learning import Learning
from mutants.noise_envs import Noise
from mutants.reference import assert_same_gradient, gradient_of, learned_gradient, learning_turns
from mutants.subject import Mutant, Subject
from mutants.trial import Turn

SAC = "cleanrl/sac_continuous_action.py"


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
    return aim_at(turn, torch.min(*target_values(turn, actions)) - alpha * log_pi)


def sac_critics_follow_the_soft_target(subject: Subject) -> None:
    """Both critics move towards the reward plus the discounted smaller target value of a sampled
    next action less alpha times its log-probability, zero after a termination."""
    settings = {"policy_frequency": 1, "autotune": False, "alpha": 0.7}
    for turn in learning_turns(short_turns(subject, **settings), "q_optimizer"):
        batch = turn.draws[0].batch
        aim = _sac_aim(turn, 0.7)
        critics = [Critic(turn.before[name]) for name in ("qf1", "qf2")]
        values = torch.stack([critic(batch.obs, batch.actions) for critic in critics])
        loss = (values - aim).square().mean(dim=1).sum()
        expected = gradient_of(loss, *(critic.network for critic in critics))
        assert_same_gradient(learned_gradient(turn, "q_optimizer"), expected)


def sac_actor_and_temperature_learn(subject: Subject) -> None:
    """The actor's gradient is that of alpha log pi minus the smaller value; the temperature's is
    that of its loss, which pulls the entropy to minus one nat for each action dimension."""
    for turn in learning_turns(short_turns(subject, policy_frequency=1), "actor_optimizer"):
        draw = turn.draws[0]
        batch = draw.batch
        torch.set_rng_state(draw.random)
        _, noise = torch.randn(ROWS, 2), torch.randn(ROWS, 2)  # the critics' comes first
        actor = _sac_actor(turn.before["actor"])
        actions, log_pi = _sac_policy(actor, batch.obs, noise)
        values = [Critic(turn.after[name])(batch.obs, actions) for name in ("qf1", "qf2")]
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
        turns = short_turns(
            subject, num_envs=num_envs, total_timesteps=20 + 7 * num_envs, **settings
        )
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
    turns = short_turns(subject, learning_starts=60, total_timesteps=140, batch_size=1)
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
    one, other = (Critic(critic.state_dict())(obs, actions) for critic in critics)
    assert 0 < int((one < other).sum()) < 20, "each must be the smaller one somewhere"
    shown = module.smaller_value(critics, obs.numpy(), actions.numpy())
    np.testing.assert_allclose(shown, torch.min(one, other).detach().numpy(), rtol=1e-4, atol=1e-6)


def optimizers_take_their_steps(subject: Subject) -> None:
    """Actor, critics and temperature take Adam's steps, each at its own learning rate."""
    turns = short_turns(subject, policy_frequency=1, policy_lr=2e-3, q_lr=7e-3)
    for turn in learning_turns(turns, "q_optimizer"):
        reference.assert_adam_step(turn, "q_optimizer", ["qf1", "qf2"], 7e-3)
        reference.assert_adam_step(turn, "actor_optimizer", ["actor"], 2e-3, without=BUFFERS)
        reference.assert_adam_step(turn, "alpha_optimizer", ["temperature"], 7e-3)


def curves_show_what_was_learned(subject: Subject) -> None:
    """About every hundred steps, with any number of environments, curves show the average values,
    the losses of that turn's batch, the actor's and the temperature's latest; no other turn is
    logged."""
    assert_curves(subject, _critics_curves, _actor_curves)


def _critics_curves(turn: Turn) -> dict[str, float]:
    alpha = float(turn.before["temperature"]["log_alpha"].exp())
    return curves_of_critics(turn, _sac_aim(turn, alpha))


def _actor_curves(turn: Turn) -> dict[str, float]:
    """Those of the third of three steps on the same batch, by torch's own optimiser."""
    obs = turn.draws[0].batch.obs
    torch.set_rng_state(turn.draws[0].random)
    # Before networks are built, which draw too; the first is the critics'
    _, *noises = [torch.randn(ROWS, 2) for _ in range(4)]
    actor = _sac_actor(turn.before["actor"])
    critics = [Critic(turn.after[name]) for name in ("qf1", "qf2")]
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


_SOFT, _POLICY = (sac_critics_follow_the_soft_target,), (sac_actor_and_temperature_learn,)
_COUNTS, _MEMORY = (sac_counts_its_updates,), (memory_holds_what_happened,)

MUTANTS = [
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
    Mutant(SAC, NO_NEW_EPISODE, "next_obs", "the reset state as the next state", _MEMORY),
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

LEARNING = [
    Learning(
        "sac_continuous_action",
        f"--total-timesteps 4000 {PENDULUM} --learning-starts 500",
        NOTHING,
        2.5,
        slow=True,
    ),
    Learning("sac_continuous_action", f"--total-timesteps 4000 {POLE}", NOTHING, 5, slow=True),
]
