"""PPO, SAC and TD3 for continuous actions on the device, computed again in torch."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.kit.normalize import RunningMeanStd
from mutants import reference
from mutants.learning import Learning
from mutants.on_device import (
    CONTINUOUS,
    adam_moments,
    as_torch,
    layers_of,
    rehearse_on_device,
    watch_draws,
    watch_noise,
)
from mutants.rollouts import PlainAgent, Rollout, replay
from mutants.subject import Mutant, Subject
from mutants.trial import State, Step, Turn

PPO, SAC, TD3 = (f"cleanrl/{name}_ondevice.py" for name in ("ppo_continuous", "sac", "td3"))
GAMMA, TAU, ROWS = 0.9, 0.2, 16
# The middle and the half width of the noise environment's actions.
CENTRE, SCALE = torch.tensor([1.0, 0.25]), torch.tensor([2.0, 2.25])
_PPO: dict[str, Any] = {
    "env_id": CONTINUOUS,
    "total_timesteps": 192,
    "num_envs": 3,
    "num_steps": 16,
    "num_minibatches": 3,
    "update_epochs": 2,
    "learning_rate": 3e-3,
    "gamma": 0.9,
    "gae_lambda": 0.8,
    # Small enough that ratios and values are clipped, and gradients too.
    "clip_coef": 0.05,
    "max_grad_norm": 0.3,
    "ent_coef": 0.05,
    "vf_coef": 0.7,
}
_REPLAY: dict[str, Any] = {
    "env_id": CONTINUOUS,
    "total_timesteps": 26,
    "learning_starts": 20,
    "buffer_size": 200,
    "batch_size": ROWS,
    "gamma": GAMMA,
    "tau": TAU,
}


def _statistics(state: State, prefix: str) -> RunningMeanStd:
    found = RunningMeanStd(np.shape(state[f"{prefix}.mean"]))
    found.mean = np.asarray(state[f"{prefix}.mean"], np.float64)
    found.var = np.asarray(state[f"{prefix}.var"], np.float64)
    found.count = float(state[f"{prefix}.count"])
    return found


def _normalized(turn: Turn, gamma: float) -> list[Step]:
    """The steps of a turn as the agent should have seen them."""
    obs_rms = _statistics(turn.before["agent"], "['obs_rms']")
    returns_rms = _statistics(turn.before["state"], ".returns_rms")
    discounted = np.asarray(turn.before["state"][".discounted"], np.float64)

    def scaled(obs: np.ndarray) -> np.ndarray:
        rows = (obs - obs_rms.mean) / np.sqrt(obs_rms.var + 1e-8)
        return rows.clip(-10, 10).astype(np.float32)

    begun = [*(step.obs for step in turn.steps[1:]), turn.after["state"][".games.obs"]]
    seen = []
    for step, after in zip(turn.steps, begun, strict=True):
        obs = scaled(step.obs)
        obs_rms.update(step.following)
        ended = step.terminated | step.truncated
        if ended.any():
            obs_rms.update(np.asarray(after)[ended])
        discounted = discounted * gamma * (1 - step.terminated) + step.rewards
        returns_rms.update(discounted)
        rewards = (step.rewards / np.sqrt(returns_rms.var + 1e-8)).clip(-10, 10)
        new = replace(step, obs=obs, rewards=rewards.astype(np.float32))
        seen.append(replace(new, following=scaled(step.following)))
    after = _statistics(turn.after["agent"], "['obs_rms']")
    np.testing.assert_allclose(after.mean, obs_rms.mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(after.var, obs_rms.var, rtol=1e-4, atol=1e-5)
    return seen


def _same_ppo(subject: Subject, **arguments: Any) -> list[Turn]:
    turns, args = rehearse_on_device(subject.module, **{**_PPO, **arguments})
    names = [name for name, _ in PlainAgent(3, 2, continuous=True).named_parameters()]
    for turn in turns:
        before = {
            "agent": as_torch(turn.before["agent"], "['networks']"),
            "optimizer": adam_moments(turn.before["state"], names, ".moments[1]"),
        }
        seen = _normalized(turn, args.gamma)
        as_seen = Turn(turn.step, before, {}, seen, [], turn.logged, turn.orders)
        share = 1 - turn.step / args.total_timesteps if args.anneal_lr else 1.0
        agent = PlainAgent(3, 2, continuous=True)
        expected = replay(as_seen, args, agent, share * args.learning_rate)
        for name, wanted in expected.logged.items():
            np.testing.assert_allclose(
                turn.logged[name], wanted, rtol=4e-3, atol=2e-5, err_msg=name
            )
        reached = as_torch(turn.after["agent"], "['networks']")
        for name, wanted in expected.agent.state_dict().items():
            torch.testing.assert_close(
                torch.as_tensor(reached[name]), wanted, rtol=4e-3, atol=4e-5, msg=name
            )
    return turns


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights, logged losses and statistics after each turn are those of a plain implementation in
    torch, with episodes that end both ways in the rollouts."""
    turns = _same_ppo(subject)
    assert set.union(*(Rollout.of(turn).kinds for turn in turns)) == {"terminated", "truncated"}


def options_do_what_they_say(subject: Subject) -> None:
    """Without normalised advantages, clipped values and annealing it is still that of the paper."""
    _same_ppo(subject, norm_adv=False, clip_vloss=False, anneal_lr=False, max_grad_norm=100.0)


def _turns(subject: Subject, **arguments: Any) -> list[Turn]:
    """The turns of a file with a replay memory, each with one step and at most one update."""
    module = subject.module
    module.TURNS = 1  # type: ignore[attr-defined]
    watch_draws(module)
    watch_noise(module)
    return rehearse_on_device(module, **{**_REPLAY, **arguments})[0]


def _network(state: State, prefix: str, sizes: list[int], last: nn.Module | None = None) -> Any:
    tensors = [layer[part] for layer in layers_of(state, prefix) for part in ("kernel", "bias")]
    named = {str(index): tensor for index, tensor in enumerate(tensors)}
    return reference.load(reference.mlp(sizes, last=last), named)


class _Critic:
    """A reference critic with a saved one's numbers."""

    def __init__(self, state: State, prefix: str) -> None:
        self.network = _network(state, prefix, [5, 256, 256, 1])

    def __call__(self, obs: Tensor, actions: Tensor) -> Tensor:
        values: Tensor = self.network(torch.cat([obs, actions], dim=1))[:, 0]
        return values


def _critics(state: State, which: str) -> list[_Critic]:
    return [_Critic(state["state"], f".{which}['{name}']") for name in ("qf1", "qf2")]


def _flat(layers: list[dict[str, Tensor]]) -> Tensor:
    return torch.cat([layer[part].flatten() for layer in layers for part in ("kernel", "bias")])


def _learned(turn: Turn, *paths: str) -> Tensor:
    """The gradient that Adam was given in a turn, worked out from its first moment."""
    before, after = (
        torch.cat([_flat(layers_of(state["state"], path)) for path in paths])
        for state in (turn.before, turn.after)
    )
    return (after - 0.9 * before) / 0.1


def _updates(turn: Turn, moments: str) -> int:
    counts = [int(state["state"][f".{moments}.count"]) for state in (turn.before, turn.after)]
    return counts[1] - counts[0]


def _learning(turns: list[Turn], moments: str = "q_moments") -> list[Turn]:
    found = [turn for turn in turns if _updates(turn, moments)]
    assert found, f"{moments} never moved"
    return found


def _noise(turn: Turn) -> list[Tensor]:
    """The noise of a turn's updates; that of acting has another shape."""
    return [torch.from_numpy(one) for one in turn.noise if one.shape == (ROWS, 2)]


_TWO = (".q_moments.mu['qf1']", ".q_moments.mu['qf2']")


def _critics_aim_at(turn: Turn, next_value: Tensor) -> None:
    batch = turn.draws[0].batch
    aim = (batch.rewards + GAMMA * (1 - batch.dones) * next_value).detach()
    critics = _critics(turn.before, "critics")
    loss = sum((critic(batch.obs, batch.actions) - aim).square().mean() for critic in critics)
    assert isinstance(loss, Tensor)
    expected = reference.gradient_of(loss, *(critic.network for critic in critics))
    reference.assert_same_gradient(_learned(turn, *_TWO), expected)


def _sac_policy(network: nn.Module, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Sampled actions and their log-probabilities, by torch's own distributions."""
    mean, log_std = network(obs).chunk(2, dim=1)
    std = (-5 + 3.5 * (log_std.tanh() + 1)).exp()
    before_tanh = mean + std * noise
    log_prob = torch.distributions.Normal(mean, std).log_prob(before_tanh)
    squashed = before_tanh.tanh()
    log_prob = log_prob - (SCALE * (1 - squashed**2) + 1e-6).log()
    return squashed * SCALE + CENTRE, log_prob.sum(dim=1)


def sac_critics_follow_the_soft_target(subject: Subject) -> None:
    """Both critics move towards the reward plus the discounted smaller target value of a sampled
    next action less alpha times its log-probability, zero after a termination."""
    turns = _turns(subject, policy_frequency=1, autotune=False, alpha=0.7)
    for turn in _learning(turns):
        batch = turn.draws[0].batch
        actor = _network(turn.before["agent"], "", [3, 256, 256, 4])
        actions, log_pi = _sac_policy(actor, batch.next_obs, _noise(turn)[0])
        values = [critic(batch.next_obs, actions) for critic in _critics(turn.before, "targets")]
        _critics_aim_at(turn, torch.min(*values) - 0.7 * log_pi)


def sac_actor_and_temperature_learn(subject: Subject) -> None:
    """The actor's gradient is that of alpha log pi minus the smaller value; the temperature's is
    that of its loss, which pulls the entropy to minus one nat for each action dimension."""
    for turn in _learning(_turns(subject, policy_frequency=1), "actor_moments"):
        batch = turn.draws[0].batch
        actor = _network(turn.before["agent"], "", [3, 256, 256, 4])
        actions, log_pi = _sac_policy(actor, batch.obs, _noise(turn)[1])
        values = [critic(batch.obs, actions) for critic in _critics(turn.after, "critics")]
        log_alpha = torch.as_tensor(np.asarray(turn.before["state"][".log_alpha"]))
        loss = (log_alpha.exp() * log_pi - torch.min(*values)).mean()
        expected = reference.gradient_of(loss, actor)
        reference.assert_same_gradient(_learned(turn, ".actor_moments.mu"), expected)
        mu = [float(s["state"][".alpha_moments.mu"]) for s in (turn.before, turn.after)]
        wanted = -(log_alpha.exp() * (log_pi.detach().mean() - 2.0))
        np.testing.assert_allclose((mu[1] - 0.9 * mu[0]) / 0.1, wanted, rtol=1e-3, atol=1e-5)


def _moved(turn: Turn, target: str, source: str, source_of: str = "state") -> float:
    """The share of the way that a target moved towards what it follows."""
    before, after = (
        _flat(layers_of(state["state"], target)) for state in (turn.before, turn.after)
    )
    ahead = _flat(layers_of(turn.after[source_of], source))
    way = ahead - before
    far = way.abs() > way.abs().max() / 2
    shares = ((after - before) / way)[far]
    assert float(shares.max() - shares.min()) < 0.02
    return float(shares.mean())


def sac_actor_takes_its_turns_and_targets_follow(subject: Subject) -> None:
    """Every other turn, with any number of environments, the actor learns twice; targets move by
    tau at their own frequency."""
    for num_envs in (1, 2):
        turns = _turns(
            subject, num_envs=num_envs, total_timesteps=20 + 6 * num_envs,
            target_network_frequency=3,
        )  # fmt: skip
        for turn in _learning(turns):
            number = turn.step // num_envs
            assert _updates(turn, "q_moments") == 1
            assert _updates(turn, "actor_moments") == (2 if number % 2 == 0 else 0)
            share = _moved(turn, ".targets['qf2']", ".critics['qf2']")
            assert abs(share - (TAU if number % 3 == 0 else 0.0)) < 0.01


def sac_makes_as_many_updates_as_it_is_asked_to(subject: Subject) -> None:
    """Three updates after each turn; the actor's delay counts them one by one."""
    for turn in _learning(_turns(subject, updates_per_turn=3)):
        due = sum((3 * turn.step + update) % 2 == 0 for update in range(3))
        assert _updates(turn, "q_moments") == 3
        assert _updates(turn, "actor_moments") == 2 * due


def _random_at_first(turns: list[Turn], starts: int) -> None:
    """Before learning starts actions are uniform in their range, and never outside of it."""
    low, high = (CENTRE - SCALE).numpy(), (CENTRE + SCALE).numpy()
    actions = np.array([turn.steps[0].actions[0] for turn in turns])
    assert (actions >= low - 1e-5).all()
    assert (actions <= high + 1e-5).all()
    assert (actions[:starts].std(axis=0) > 0.8 * 2 * SCALE.numpy() / math.sqrt(12)).all()


def sac_acts_at_random_and_then_as_its_policy(subject: Subject) -> None:
    """Actions are uniform at first; then they are those that the drawn noise leads to."""
    turns = _turns(subject, total_timesteps=110, learning_starts=100)
    _random_at_first(turns, 100)
    for turn in turns[100:]:
        actor = _network(turn.before["agent"], "", [3, 256, 256, 4])
        noise = torch.from_numpy(turn.noise[0].reshape(1, 2))
        wanted, _ = _sac_policy(actor, torch.from_numpy(turn.steps[0].obs), noise)
        np.testing.assert_allclose(turn.steps[0].actions, wanted.detach(), rtol=1e-3, atol=1e-4)


def td3_acts_at_random_and_then_near_its_actor(subject: Subject) -> None:
    """Actions are uniform at first; then the actor's with noise, kept in their range."""
    turns = _turns(subject, total_timesteps=110, learning_starts=100, exploration_noise=0.6)
    _random_at_first(turns, 100)
    for number, turn in enumerate(turns):
        actor = _tanh_actor(turn.before["agent"], "")
        wanted = actor(torch.from_numpy(turn.steps[0].obs)) * SCALE + CENTRE
        wanted = wanted + 0.6 * SCALE * torch.from_numpy(turn.noise[0].reshape(1, 2))
        wanted = torch.max(torch.min(wanted, CENTRE + SCALE), CENTRE - SCALE).detach()
        # So much noise looks uniform: only the actions themselves tell which ones they are.
        near = np.allclose(turn.steps[0].actions, wanted, rtol=1e-3, atol=1e-4)
        assert near == (number >= 100), number


def td3_critics_follow_their_target(subject: Subject) -> None:
    """Both critics move towards the smaller target value of the target actor's action, which is
    moved by clipped noise and kept in the action range."""
    for turn in _learning(_turns(subject, policy_noise=1.5, noise_clip=1.2)):
        batch = turn.draws[0].batch
        noise = (_noise(turn)[0] * 1.5).clamp(-1.2, 1.2) * SCALE
        actor = _tanh_actor(turn.before["state"], ".targets['actor']")
        next_actions = actor(batch.next_obs) * SCALE + CENTRE + noise
        next_actions = torch.max(torch.min(next_actions, CENTRE + SCALE), CENTRE - SCALE)
        targets = _critics(turn.before, "targets")
        values = [critic(batch.next_obs, next_actions) for critic in targets]
        _critics_aim_at(turn, torch.min(*values))


def _tanh_actor(state: State, prefix: str) -> Any:
    return _network(state, prefix, [3, 256, 256, 2], last=nn.Tanh())


def td3_actor_climbs_the_first_critic(subject: Subject) -> None:
    """The actor's gradient is that of minus the average value of its own actions."""
    for turn in _learning(_turns(subject, policy_frequency=1), "actor_moments"):
        batch = turn.draws[0].batch
        actor = _tanh_actor(turn.before["agent"], "")
        qf1 = _critics(turn.after, "critics")[0]
        loss = -qf1(batch.obs, actor(batch.obs) * SCALE + CENTRE).mean()
        expected = reference.gradient_of(loss, actor)
        reference.assert_same_gradient(_learned(turn, ".actor_moments.mu"), expected)


def td3_targets_follow_the_delayed_actor(subject: Subject) -> None:
    """Every other turn, with any number of environments, the actor learns and all targets move by
    tau; in the turns between neither does."""
    for num_envs in (1, 2):
        turns = _turns(subject, num_envs=num_envs, total_timesteps=20 + 6 * num_envs)
        for turn in _learning(turns):
            due = turn.step // num_envs % 2 == 0
            assert _updates(turn, "actor_moments") == due
            shares = [_moved(turn, f".targets['{q}']", f".critics['{q}']") for q in ("qf1", "qf2")]
            if due:
                shares.append(_moved(turn, ".targets['actor']", "", "agent"))
            assert all(abs(share - (TAU if due else 0.0)) < 0.01 for share in shares)


def memory_holds_what_happened(subject: Subject) -> None:
    """Truncation is no end, and no transition leads into the next episode."""
    reference.assert_true_transitions(_turns(subject, total_timesteps=86, learning_starts=80))


_TURN, _OPTIONS = (a_turn_is_that_of_the_paper,), (options_do_what_they_say,)
_SOFT, _CLIMB = (sac_critics_follow_the_soft_target,), (sac_actor_and_temperature_learn,)
_DELAY = (sac_actor_takes_its_turns_and_targets_follow,)
_SEVERAL = (sac_makes_as_many_updates_as_it_is_asked_to,)
_ACTS = (sac_acts_at_random_and_then_as_its_policy,)
_NOISY = (td3_acts_at_random_and_then_near_its_actor,)
_TWIN, _UP = (td3_critics_follow_their_target,), (td3_actor_climbs_the_first_critic,)
_FOLLOW, _KEEPS = (td3_targets_follow_the_delayed_actor,), (memory_holds_what_happened,)
_RESET = "remember(state.memory, state.games, actions, outcome)"
_WRONG = "remember(state.memory, state.games, actions, outcome._replace(next_obs=games.obs))"

# All slow: each compiles a program of its own, which takes seconds.
MUTANTS = [
    Mutant(file, old, new, why, checks, slow=True)
    for file, old, new, why, checks in (
        (PPO, "-jnp.minimum(adv", "-jnp.maximum(adv", "the optimistic surrogate", _TURN),
        (PPO, "- args.ent_coef * entropy", "+ args.ent_coef * entropy", "entropy punished", _TURN),
        (PPO, "(1.0 - outcome.terminated) * next", "goes_on * next", "truncation ends", _TURN),
        (PPO, "return (after, statistics)", "return (after, carry[1])", "frozen scale", _TURN),
        (PPO, "jnp.ones_like(begun), begun]", "begun, begun]", "only ends are counted", _TURN),
        (PPO, "scaled_rewards(statistics, rewards)", "rewards", "rewards as they are", _TURN),
        (PPO, "* args.gamma * (1.0 - terminated)", "* args.gamma", "returns never end", _TURN),
        (PPO, "- logstd - 0.5 * math", "- 0.5 * math", "a density without its spread", _TURN),
        (PPO, "if args.norm_adv:", "if True:", "--no-norm-adv is ignored", _OPTIONS),
        (SAC, "(1 - data.dones) * ", "", "the future counts after the end", _SOFT),
        (SAC, "jnp.minimum(*values)", "jnp.maximum(*values)", "max for min", _SOFT),
        (SAC, "value -= jnp.exp(state.log_alpha) * next_log_pi", "value -= 0.0", "hard", _SOFT),
        (SAC, "scale * (1 - jnp.square(squashed))", "1 + 0 * squashed", "no change", _SOFT),
        (SAC, "(alpha * log_pi - value)", "(alpha * log_pi + value)", "downhill", _CLIMB),
        (SAC, "-alpha * (log_pi + target", "-alpha * (log_pi - target", "entropy", _CLIMB),
        (SAC, "args.tau * due(", "1.0 * due(", "the targets jump", _DELAY),
        (SAC, "state.global_step // args.num_envs *", "state.global_step *", "delay", _DELAY),
        (SAC, "first + jnp.arange(", "first + 0 * jnp.arange(", "one number for all", _SEVERAL),
        (SAC, "jnp.where(learning, sampled, at_random)", "sampled", "no random start", _ACTS),
        (SAC, _RESET, _WRONG, "the reset state as the next state", _KEEPS),
        (TD3, "(1 - data.dones) * ", "", "the future counts after the end", _TWIN),
        (TD3, "jnp.minimum(", "jnp.maximum(", "max for min", _TWIN),
        (TD3, "centre, data.next_obs) + noise", "centre, data.next_obs)", "not smooth", _TWIN),
        (TD3, "next_actions.clip(low, high)", "next_actions", "out of the range", _TWIN),
        (TD3, "return -value_of(", "return value_of(", "downhill", _UP),
        (TD3, "state.targets, args.tau)", "state.targets, 1.0)", "the targets jump", _FOLLOW),
        (TD3, "state.global_step // args.num_envs %", "state.global_step %", "delay", _FOLLOW),
        (TD3, "jnp.where(learning, noisy, at_random)", "noisy", "no random start", _NOISY),
        (TD3, "args.exploration_noise * scale * noise", "0 * noise", "no exploration", _NOISY),
        (TD3, _RESET, _WRONG, "the reset state as the next state", _KEEPS),
    )
]

_PENDULUM = (
    "--buffer-size 10000 --gamma 0.98 --batch-size 64 --total-timesteps 6000 --learning-starts 1000"
)
LEARNING = [
    Learning(
        "ppo_continuous_ondevice",
        "--total-timesteps 81920 --gamma 0.9 --learning-rate 1e-3 --seed 1",
        "--learning-rate 1e-12",
        2.5,
        slow=True,
    ),
    Learning(
        "sac_ondevice",
        f"{_PENDULUM} --policy-lr 1e-3",
        "--total-timesteps 400",
        2.5,
        slow=True,
    ),
    Learning(
        "td3_ondevice",
        f"{_PENDULUM} --exploration-noise 0.3 --learning-rate 1e-3",
        "--total-timesteps 400",
        2.5,
        slow=True,
    ),
]
