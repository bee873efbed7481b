"""DDPG, TD3 and SAC: their targets, losses, noise and delays, and that they learn."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from mutants import reference
from mutants.learning import Learning
from mutants.noise_envs import CONTINUOUS
from mutants.reference import assert_same_gradient, gradient_of, learned_gradient, learning_turns
from mutants.subject import Mutant, Subject
from mutants.trial import Turn, rehearse

DDPG, TD3, SAC = (f"cleanrl/{name}_continuous_action.py" for name in ("ddpg", "td3", "sac"))
GAMMA, TAU, ROWS = 0.9, 0.2, 16
# The middle and the half width of the noise environment's actions.
CENTRE, SCALE = torch.tensor([1.0, 0.25]), torch.tensor([2.0, 2.25])
BUFFERS = ("scale", "centre")


def _turns(subject: Subject, **arguments: object) -> list[Turn]:
    settings = {
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
        return self.network(torch.cat([obs, actions], dim=1))[:, 0]


def _tanh_actor(state: dict[str, Tensor]) -> nn.Module:
    network = reference.mlp([3, 256, 256, 2], last=nn.Tanh())
    return reference.load(network, state, without=BUFFERS)


def _aim(turn: Turn, next_value: Tensor) -> Tensor:
    batch = turn.draws[0].batch
    return (batch.rewards + GAMMA * (1 - batch.dones) * next_value).detach()


def ddpg_critic_follows_its_target(subject: Subject) -> None:
    """The critic's gradient is that of the squared difference to the reward plus the discounted
    target value of the target actor's action, zero after a termination."""
    for turn in learning_turns(_turns(subject), "q_optimizer"):
        batch = turn.draws[0].batch
        qf1, target = _Critic(turn.before["qf1"]), _Critic(turn.before["qf1_target"])
        next_actions = _tanh_actor(turn.before["target_actor"])(batch.next_obs) * SCALE + CENTRE
        aim = _aim(turn, target(batch.next_obs, next_actions))
        loss = (qf1(batch.obs, batch.actions) - aim).square().mean()
        expected = gradient_of(loss, qf1.network)
        assert_same_gradient(learned_gradient(turn, "q_optimizer"), expected)


def td3_critics_follow_their_target(subject: Subject) -> None:
    """Both critics move towards the smaller target value of the target actor's action, which is
    moved by clipped noise and kept in the action range."""
    settings = {"policy_noise": 1.5, "noise_clip": 1.2}
    for turn in learning_turns(_turns(subject, **settings), "q_optimizer"):
        draw = turn.draws[0]
        batch = draw.batch
        torch.set_rng_state(draw.random)
        noise = (torch.randn(ROWS, 2) * 1.5).clamp(-1.2, 1.2) * SCALE
        next_actions = _tanh_actor(turn.before["target_actor"])(batch.next_obs) * SCALE + CENTRE
        next_actions = torch.max(torch.min(next_actions + noise, CENTRE + SCALE), CENTRE - SCALE)
        values = [
            _Critic(turn.before[name])(batch.next_obs, next_actions)
            for name in ("qf1_target", "qf2_target")
        ]
        aim = _aim(turn, torch.min(*values))
        critics = [_Critic(turn.before[name]) for name in ("qf1", "qf2")]
        loss = sum((critic(batch.obs, batch.actions) - aim).square().mean() for critic in critics)
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
    tau; in the turns between neither does. At the start they are equal to what they follow."""
    for num_envs in (1, 2, 4):
        turns = _turns(subject, num_envs=num_envs, total_timesteps=20 + 6 * num_envs)
        pairs = [("target_actor", "actor"), ("qf1_target", "qf1"), ("qf2_target", "qf2")]
        pairs = [pair for pair in pairs if pair[0] in turns[0].before]
        learning = [turn for turn in turns if turn.step >= 20]
        for target, source in pairs:
            start = turns[0].before
            assert torch.equal(reference.flat(start[target]), reference.flat(start[source]))
        for turn in learning:
            assert reference.updated(turn, "q_optimizer") == 1
            moves = turn.step // num_envs % 2 == 0
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


def _sac_policy(network: nn.Module, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Sampled actions and their log-probabilities, by torch's own distributions."""
    mean, log_std = network(obs).chunk(2, dim=1)
    std = (-5 + 3.5 * (log_std.tanh() + 1)).exp()
    before_tanh = mean + std * noise
    log_prob = torch.distributions.Normal(mean, std).log_prob(before_tanh)
    squashed = before_tanh.tanh()
    log_prob = log_prob - (SCALE * (1 - squashed**2) + 1e-6).log()
    return squashed * SCALE + CENTRE, log_prob.sum(dim=1)


def _sac_actor(state: dict[str, Tensor]) -> nn.Module:
    return reference.load(reference.mlp([3, 256, 256, 4]), state, without=BUFFERS)


def sac_critics_follow_the_soft_target(subject: Subject) -> None:
    """Both critics move towards the reward plus the discounted smaller target value of a sampled
    next action less alpha times its log-probability, zero after a termination."""
    settings = {"policy_frequency": 1, "autotune": False, "alpha": 0.7}
    for turn in learning_turns(_turns(subject, **settings), "q_optimizer"):
        draw = turn.draws[0]
        batch = draw.batch
        torch.set_rng_state(draw.random)
        noise = torch.randn(ROWS, 2)
        actions, log_pi = _sac_policy(_sac_actor(turn.before["actor"]), batch.next_obs, noise)
        values = [
            _Critic(turn.before[name])(batch.next_obs, actions)
            for name in ("qf1_target", "qf2_target")
        ]
        aim = _aim(turn, torch.min(*values) - 0.7 * log_pi)
        critics = [_Critic(turn.before[name]) for name in ("qf1", "qf2")]
        loss = sum((critic(batch.obs, batch.actions) - aim).square().mean() for critic in critics)
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
    turn twice, and the targets of the critics move in every turn."""
    for num_envs in (1, 2, 4):
        turns = _turns(subject, num_envs=num_envs, total_timesteps=20 + 6 * num_envs)
        for turn in turns:
            if turn.step >= 20:
                assert reference.updated(turn, "q_optimizer") == 1
                twice = 2 if turn.step // num_envs % 2 == 0 else 0
                assert reference.updated(turn, "actor_optimizer") == twice
                assert reference.updated(turn, "alpha_optimizer") == twice
                for index in (1, 2):
                    reference.assert_target_follows(turn, f"qf{index}_target", f"qf{index}", TAU)


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
