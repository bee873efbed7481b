"""SAC and TD3 on the device, computed again in torch."""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from mutants import reference
from mutants.harmless import Harmless
from mutants.learning import Learning
from mutants.on_device import (
    CONTINUOUS,
    LAST_KEY,
    altered,
    assert_uniform,
    begun,
    layers_of,
    rehearse_on_device,
    watch_draws,
    watch_noise,
)
from mutants.subject import Mutant, Subject
from mutants.trial import State, Turn

SAC, TD3 = (f"cleanrl/{name}_ondevice.py" for name in ("sac", "td3"))
GAMMA, TAU, ROWS = 0.9, 0.2, 16
# The middle and the half width of the noise environment's actions.
CENTRE, SCALE = torch.tensor([1.0, 0.25]), torch.tensor([2.0, 2.25])
_REPLAY: dict[str, Any] = {
    "env_id": CONTINUOUS,
    "total_timesteps": 26,
    "learning_starts": 20,
    "buffer_size": 200,
    "batch_size": ROWS,
    "gamma": GAMMA,
    "tau": TAU,
}


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


def _assert_step(
    turn: Turn, moments: str, lr: float, weights: str, part: str = "", *, of: str = "state"
) -> None:
    """What was learned in a turn is the step that Adam's moments lead to."""
    after = turn.after["state"]
    count = float(after[f".{moments}.count"])
    mean, square = (
        _flat(layers_of(after, f".{moments}.{which}{part}")) / (1 - beta**count)
        for which, beta in (("mu", 0.9), ("nu", 0.999))
    )
    old, new = (_flat(layers_of(state[of], weights)) for state in (turn.before, turn.after))
    wanted = -lr * mean / (square.sqrt() + 1e-8)
    torch.testing.assert_close(new - old, wanted, rtol=1e-3, atol=1e-3 * lr)


def _assert_logged(turn: Turn, wanted: dict[str, float]) -> None:
    for tag, number in wanted.items():
        reached = turn.logged[f"losses/{tag}"]
        np.testing.assert_allclose(reached, number, rtol=1e-3, atol=1e-5, err_msg=tag)


def _begins_well(turns: list[Turn], *targets: str) -> None:
    """Nothing is logged of losses before there are any, and targets begin as what they follow."""
    first = turns[0]
    assert not _updates(first, "q_moments")
    losses = {tag: value for tag, value in first.logged.items() if tag.startswith("losses/")}
    assert len(losses) > 5
    assert not any(value for tag, value in losses.items() if tag != "losses/alpha")
    state = first.before["state"]
    for name in targets:
        ahead = layers_of(state, f".critics['{name}']")
        ahead = ahead if name != "actor" else layers_of(first.before["agent"])
        slow = layers_of(state, f".targets['{name}']")
        torch.testing.assert_close(_flat(slow), _flat(ahead), rtol=0, atol=0)


def networks_begin_as_torch_would(subject: Subject) -> None:
    """Weights are uniform within torch's bounds, biases zero, and no two layers of a network are
    drawn with the same random key."""
    outputs = 4 if subject.file == SAC else 2
    for init, sizes in (("init_actor", [3, 256, 256, outputs]), ("init_critic", [5, 256, 256, 1])):
        layers = begun(subject.module, init, CONTINUOUS)
        for layer, inputs, outputs in zip(layers, sizes[:-1], sizes[1:], strict=True):
            assert_uniform(layer, inputs, outputs)


def _noise(turn: Turn) -> list[Tensor]:
    """The noise of a turn's updates; that of acting has another shape."""
    return [torch.from_numpy(one) for one in turn.noise if one.shape == (ROWS, 2)]


_MOMENTS = ("mu", "nu", "count")
_TWO = (".q_moments.mu['qf1']", ".q_moments.mu['qf2']")


def _critics_aim_at(turn: Turn, next_value: Tensor) -> None:
    batch = turn.draws[0].batch
    aim = (batch.rewards + GAMMA * (1 - batch.dones) * next_value).detach()
    critics = _critics(turn.before, "critics")
    values = [critic(batch.obs, batch.actions) for critic in critics]
    one, two = ((value - aim).square().mean() for value in values)
    expected = reference.gradient_of(one + two, *(critic.network for critic in critics))
    reference.assert_same_gradient(_learned(turn, *_TWO), expected)
    for name in ("qf1", "qf2"):
        _assert_step(turn, "q_moments", 1e-3, f".critics['{name}']", f"['{name}']")
    wanted = {"qf1_loss": one, "qf2_loss": two, "qf_loss": (one + two) / 2}
    wanted |= {"qf1_values": values[0].mean(), "qf2_values": values[1].mean()}
    _assert_logged(turn, {tag: number.item() for tag, number in wanted.items()})
    # What the policy file shows of a run.
    shown = {f".critics{path}": part for path, part in turn.after["critics"].items()}
    assert len(shown) == 12
    for path, part in shown.items():
        np.testing.assert_array_equal(part, turn.after["state"][path])


def _sac_policy(network: nn.Module, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Sampled actions and their log-probabilities, by torch's own distributions."""
    mean, log_std = network(obs).chunk(2, dim=1)
    std = (-5 + 3.5 * (log_std.tanh() + 1)).exp()
    before_tanh = mean + std * noise
    log_prob = torch.distributions.Normal(mean, std).log_prob(before_tanh)
    squashed = before_tanh.tanh()
    log_prob = log_prob - (SCALE * (1 - squashed**2) + 1e-6).log()
    return squashed * SCALE + CENTRE, log_prob.sum(dim=1)


def _saturated(actor: Any) -> None:
    actor[-1]["bias"] = actor[-1]["bias"].at[0].set(30.0)


def sac_critics_follow_the_soft_target(subject: Subject) -> None:
    """Both critics move towards the reward plus the discounted smaller target value of a sampled
    next action less alpha times its log-probability, zero after a termination; also where an
    action is at the end of its range. Losses and values are logged."""
    module = subject.module
    with mock.patch.object(module, "init_actor", altered(module.init_actor, _saturated)):
        turns = _turns(subject, policy_frequency=1, autotune=False, alpha=0.7)
    _begins_well(turns, "qf1", "qf2")
    for turn in turns:
        _assert_logged(turn, {"alpha": 0.7})
    for turn in _learning(turns):
        batch = turn.draws[0].batch
        actor = _network(turn.before["agent"], "", [3, 256, 256, 4])
        actions, log_pi = _sac_policy(actor, batch.next_obs, _noise(turn)[0])
        values = [critic(batch.next_obs, actions) for critic in _critics(turn.before, "targets")]
        _critics_aim_at(turn, torch.min(*values) - 0.7 * log_pi)


def sac_actor_and_temperature_learn(subject: Subject) -> None:
    """The actor's gradient is that of alpha log pi minus the smaller value; the temperature's is
    that of its loss, which pulls the entropy to minus one nat for each action dimension. Both move
    as Adam would have them, and are logged."""
    turns = _turns(subject, policy_frequency=1)
    assert turns[0].logged["losses/alpha"] == 1.0
    for turn in _learning(turns, "actor_moments"):
        batch = turn.draws[0].batch
        actor = _network(turn.before["agent"], "", [3, 256, 256, 4])
        actions, log_pi = _sac_policy(actor, batch.obs, _noise(turn)[1])
        values = [critic(batch.obs, actions) for critic in _critics(turn.after, "critics")]
        log_alpha = torch.as_tensor(np.asarray(turn.before["state"][".log_alpha"]))
        loss = (log_alpha.exp() * log_pi - torch.min(*values)).mean()
        expected = reference.gradient_of(loss, actor)
        reference.assert_same_gradient(_learned(turn, ".actor_moments.mu"), expected)
        _assert_step(turn, "actor_moments", 3e-4, "", of="agent")
        mu = [float(s["state"][".alpha_moments.mu"]) for s in (turn.before, turn.after)]
        wanted = float(-(log_alpha.exp() * (log_pi.detach().mean() - 2.0)))
        np.testing.assert_allclose((mu[1] - 0.9 * mu[0]) / 0.1, wanted, rtol=1e-3, atol=1e-5)
        after = {name: float(turn.after["state"][f".alpha_moments.{name}"]) for name in _MOMENTS}
        mean, square = after["mu"] / (1 - 0.9 ** after["count"]), after["nu"]
        step = mean / (math.sqrt(square / (1 - 0.999 ** after["count"])) + 1e-8)
        moved = float(turn.after["state"][".log_alpha"]) - float(log_alpha)
        np.testing.assert_allclose(moved, -1e-3 * step, rtol=1e-3)
        alpha = math.exp(float(turn.after["state"][".log_alpha"]))
        _assert_logged(turn, {"actor_loss": loss.item(), "alpha_loss": wanted, "alpha": alpha})


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
    """Two updates after each turn; the actor's delay counts them one by one."""
    for turn in _learning(_turns(subject, updates_per_turn=2, policy_frequency=3)):
        due = sum((2 * turn.step + update) % 3 == 0 for update in range(2))
        assert _updates(turn, "q_moments") == 2
        assert _updates(turn, "actor_moments") == 3 * due


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
    moved by clipped noise and kept in the action range. Losses and values are logged."""
    turns = _turns(subject, policy_noise=1.5, noise_clip=1.2, learning_rate=1e-3)
    _begins_well(turns, "qf1", "qf2", "actor")
    for turn in _learning(turns):
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
    """The actor's gradient is that of minus the average value of its own actions, it moves as Adam
    would have it, and its loss is logged."""
    turns = _turns(subject, policy_frequency=1, learning_rate=2e-3)
    for turn in _learning(turns, "actor_moments"):
        batch = turn.draws[0].batch
        actor = _tanh_actor(turn.before["agent"], "")
        qf1 = _critics(turn.after, "critics")[0]
        loss = -qf1(batch.obs, actor(batch.obs) * SCALE + CENTRE).mean()
        expected = reference.gradient_of(loss, actor)
        reference.assert_same_gradient(_learned(turn, ".actor_moments.mu"), expected)
        _assert_step(turn, "actor_moments", 2e-3, "", of="agent")
        _assert_logged(turn, {"actor_loss": loss.item()})


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


# So that epochs are left out in some turns, not in all.
_DRAWN = (networks_begin_as_torch_would,)
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
        (SAC, "p - args.q_lr * s", "p - args.policy_lr * s", "the actor's learning rate", _SOFT),
        (SAC, "p - args.policy_lr * s", "p - args.q_lr * s", "the critics' learning rate", _CLIMB),
        (SAC, "value.mean() for name", "value.sum() for name", "a curve of sums", _SOFT),
        (SAC, "jnp.copy, critics", "jnp.zeros_like, critics", "targets of zeros", _SOFT),
        (
            SAC,
            "Shown(lambda: learner.state.critics)",
            "Shown(lambda: {})",
            "no critics to look at",
            _SOFT,
        ),
        (SAC, "256, 1, draw=TORCH", "256, 1, 1.0, draw=TORCH", "larger critics", _DRAWN),
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
        (TD3, "value.mean() for name", "value.sum() for name", "a curve of sums", _TWIN),
        (TD3, "tree.map(jnp.copy", "tree.map(jnp.zeros_like", "targets of zeros", _TWIN),
        (
            TD3,
            "Shown(lambda: learner.state.critics)",
            "Shown(lambda: {})",
            "no critics to look at",
            _TWIN,
        ),
        (
            TD3,
            "256, outputs, draw=TORCH",
            "256, outputs, 1.0, draw=TORCH",
            "an actor at its limits",
            _DRAWN,
        ),
        (TD3, '"actor_loss": loss}', '"actor_loss": -loss}', "a curve upside down", _UP),
    )
]

_REPLAYED = ("sac_ondevice", "td3_ondevice")
HARMLESS = [
    Harmless("keys = jax.random.split(key, 3)", "3", "", "keys to spare", _REPLAYED),
    Harmless("dense(keys[2], 256, ", "2", "4", LAST_KEY, _REPLAYED, before="keys["),
    Harmless(
        "at_random = centre + scale * ",
        "centre + ",
        "",
        "uniform numbers are as likely on one side of the middle as on the other",
        _REPLAYED,
    ),
]

_PENDULUM = (
    "--buffer-size 10000 --gamma 0.98 --batch-size 64 --total-timesteps 6000 --learning-starts 1000"
)
LEARNING = [
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
