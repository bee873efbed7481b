"""DDPG and TD3 in JAX: the losses that their gradients must be of, and their delays."""

from __future__ import annotations

import functools
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from mutants import reference
from mutants.harmless import Harmless
from mutants.learning import Learning
from mutants.noise_envs import CONTINUOUS
from mutants.subject import Check, Mutant, Subject
from mutants.trial import Turn, rehearse

DDPG, TD3 = (f"cleanrl/{name}_continuous_action_jax.py" for name in ("ddpg", "td3"))
GAMMA, TAU, ROWS = 0.9, 0.2, 16
# Small, so that actions stay away from the edges, where noise is cut off
STARTS, EVERY, LEARNING_RATE = 60, 3, 5e-5
# Of the noise on TD3's target action: large enough that both limits matter
STD, CLIP = 1.5, 1.2
CENTRE, SCALE = np.array([1.0, 0.25], np.float32), np.array([2.0, 2.25], np.float32)


def _turns(subject: Subject, **arguments: object) -> list[Turn]:
    settings: dict[str, Any] = {
        "env_id": CONTINUOUS,
        "learning_rate": LEARNING_RATE,
        "buffer_size": 200,
        "batch_size": ROWS,
        "gamma": GAMMA,
        "tau": TAU,
        **arguments,
    }
    return rehearse(subject.module, **settings)


def _mlp(layers: Any, rows: Any) -> Any:
    import jax.numpy as jnp

    for number, layer in enumerate(layers):
        rows = (jnp.maximum(rows, 0) if number else rows) @ layer["kernel"] + layer["bias"]
    return rows


def _value(subject: Subject, params: Any, obs: Any, actions: Any) -> Any:
    import jax.numpy as jnp

    return _mlp(params, jnp.concatenate([obs, actions], axis=1))[:, 0]


def _action(subject: Subject, params: Any, obs: Any) -> Any:
    import jax.numpy as jnp

    return jnp.tanh(_mlp(params, jnp.asarray(obs))) * SCALE + CENTRE


@functools.lru_cache(maxsize=1)
def _one(subject: Subject) -> list[Turn]:
    """The rehearsal of which most checks take a part; to compile it again takes longer."""
    extra = {"policy_noise": STD, "noise_clip": CLIP} if _is_td3(subject) else {}
    settings = {"learning_starts": STARTS, "total_timesteps": 140, "policy_frequency": EVERY}
    return _turns(subject, **settings, exploration_noise=0.2, **extra)


@functools.lru_cache(maxsize=1)
def _three(subject: Subject) -> list[Turn]:
    """The same with three environments, around the step at which they are logged."""
    settings = {"learning_starts": 100, "total_timesteps": 120, "policy_frequency": EVERY}
    return _turns(subject, num_envs=3, **settings)


def _is_td3(subject: Subject) -> bool:
    return subject.name.startswith("td3")


def _critics(subject: Subject, state: dict[str, Any]) -> dict[str, Any]:
    return dict(state["critics"]) if _is_td3(subject) else {"qf1": state["qf1"]}


def _arrays(turn: Turn) -> dict[str, Any]:
    import jax.numpy as jnp

    batch = turn.draws[0].batch
    names = ("obs", "actions", "next_obs", "rewards", "dones")
    return {name: jnp.asarray(getattr(batch, name).numpy()) for name in names}


def _aim(subject: Subject, turn: Turn, std: float = STD, clip: float = CLIP) -> Any:
    import jax

    data, targets = _arrays(turn), turn.before["targets"]
    actions = _action(subject, targets["actor"], data["next_obs"])
    if _is_td3(subject):
        _, key = jax.random.split(turn.before["smoothing_key"])
        noise = (jax.random.normal(key, (ROWS, 2)) * std).clip(-clip, clip) * SCALE
        actions = (actions + noise).clip(CENTRE - SCALE, CENTRE + SCALE)
    names = ("qf1", "qf2") if _is_td3(subject) else ("qf1",)
    values = [_value(subject, targets[name], data["next_obs"], actions) for name in names]
    following = np.minimum.reduce([np.asarray(value) for value in values])
    return data["rewards"] + GAMMA * (1 - data["dones"]) * following


def critics_follow_their_target(subject: Subject) -> None:
    """Each critic's gradient is that of the squared difference to the reward plus the discounted
    target value: of the target actor's action, in TD3 the smaller one of a noisy action."""
    import jax
    import jax.numpy as jnp

    for turn in reference.learning_turns(_one(subject), "q_optimizer")[::9]:
        data, aim = _arrays(turn), _aim(subject, turn)

        def loss(critics: Any, data: Any = data, aim: Any = aim) -> Any:
            values = [_value(subject, params, data["obs"], data["actions"]) for params in critics]
            return sum(jnp.square(value - aim).mean() for value in values)

        expected = jax.grad(loss)(list(_critics(subject, turn.before).values()))
        reference.assert_same_tree(reference.learned_tree(turn, "q_optimizer"), expected)


def actor_climbs_the_first_critic(subject: Subject) -> None:
    """The actor's gradient is that of minus the average value of its own actions."""
    import jax

    for turn in reference.learning_turns(_one(subject), "actor_optimizer")[::5]:
        obs, critic = _arrays(turn)["obs"], _critics(subject, turn.after)["qf1"]

        def loss(actor: Any, obs: Any = obs, critic: Any = critic) -> Any:
            return -_value(subject, critic, obs, _action(subject, actor, obs)).mean()

        expected = jax.grad(loss)(turn.before["actor"])
        reference.assert_same_tree(reference.learned_tree(turn, "actor_optimizer"), expected)


def targets_follow_the_delayed_actor(subject: Subject) -> None:
    """Every third turn, with one environment or with three, the actor learns and all targets move
    by tau; in the turns between neither does. At the start they are equal to what they follow, and
    nothing is learned before --learning-starts."""
    for num_envs, starts, turns in ((1, STARTS, _one(subject)), (3, 100, _three(subject))):
        for turn in turns:
            learns = turn.step >= starts
            moves = learns and turn.step // num_envs % EVERY == 0
            assert reference.updated(turn, "q_optimizer") == learns
            assert reference.updated(turn, "actor_optimizer") == moves
            _assert_targets(subject, turn.before["targets"], turn, TAU if moves else 0.0)
        first = Turn(0, turns[0].before, turns[0].before)
        _assert_targets(
            subject, {"actor": first.after["actor"], **_critics(subject, first.after)}, first, 0
        )


def _assert_targets(subject: Subject, before: Any, turn: Turn, tau: float) -> None:
    ahead = {"actor": turn.after["actor"], **_critics(subject, turn.after)}
    states = {"targets": before}, {"targets": turn.after["targets"], "all": ahead}
    reference.assert_tree_follows(Turn(turn.step, *states), "targets", "all", tau)


def memory_holds_what_happened(subject: Subject) -> None:
    """Truncation is no end, and no transition leads into the next episode."""
    reference.assert_true_transitions(_one(subject))


def optimizers_take_their_steps(subject: Subject) -> None:
    """All networks take Adam's steps at the learning rate."""
    for turn in reference.learning_turns(_one(subject), "actor_optimizer")[::9]:
        names = {
            "actor_optimizer": "actor",
            "q_optimizer": "critics" if _is_td3(subject) else "qf1",
        }
        for optimizer, name in names.items():
            _assert_adam_step(turn, optimizer, name)


def _assert_adam_step(turn: Turn, optimizer: str, name: str) -> None:
    import jax

    moments = turn.after[optimizer][0]
    count = int(moments.count)
    numbers = (turn.before[name], turn.after[name], moments.mu, moments.nu)
    for before, after, mean, square in zip(*map(jax.tree.leaves, numbers), strict=True):
        spread = np.sqrt(square / (1 - 0.999**count)) + 1e-8
        expected = -LEARNING_RATE * (mean / (1 - 0.9**count)) / spread
        np.testing.assert_allclose(after - before, expected, rtol=1e-3, atol=1e-2 * LEARNING_RATE)


def exploration_is_noise_in_the_action_range(subject: Subject) -> None:
    """Actions are uniform before learning starts; then the actor's, with normal noise in units of
    the range, and never outside it."""
    turns = _one(subject)
    units = np.array([(turn.steps[0].actions[0] - CENTRE) / SCALE for turn in turns])
    assert (abs(units) <= 1 + 1e-5).all()
    assert (abs(units[:STARTS].std(axis=0) - 1 / np.sqrt(3)) < 0.12).all()
    assert (abs(units[:STARTS].mean(axis=0)) < 0.25).all()
    noise = []
    for turn, unit in zip(turns[STARTS:], units[STARTS:], strict=True):
        middle = np.asarray(_action(subject, turn.before["actor"], turn.steps[0].obs))[0]
        noise.append(np.where(abs(unit) < 1 - 1e-4, unit - (middle - CENTRE) / SCALE, np.nan))
    spread = np.nanstd(noise, axis=0)
    assert (spread > 0.15).all()
    assert (spread < 0.24).all()
    assert (abs(np.nanmean(noise, axis=0)) < 0.08).all()


def curves_show_what_was_learned(subject: Subject) -> None:
    """About every hundred steps, with any number of environments, curves show the average values,
    the losses of that turn's batch and the actor's latest, which is zero before it has learned; no
    other turn is logged."""
    for turns, logged in ((_one(subject), 100), (_three(subject), 102)):
        found = [turn for turn in turns if any("losses/" in tag for tag in turn.logged)]
        assert [turn.step for turn in found] == [logged]
        expected = {"losses/actor_loss": 0.0}
        if logged == 100:
            (of_actor,) = [turn for turn in turns if turn.step == 99]
            obs, critic = _arrays(of_actor)["obs"], _critics(subject, of_actor.after)["qf1"]
            actions = _action(subject, of_actor.before["actor"], obs)
            expected["losses/actor_loss"] = -float(_value(subject, critic, obs, actions).mean())
        noise = (STD, CLIP) if logged == 100 else (0.2, 0.5)
        data, aim, losses = _arrays(found[0]), _aim(subject, found[0], *noise), []
        for name, params in _critics(subject, found[0].before).items():
            values = _value(subject, params, data["obs"], data["actions"])
            losses.append(float(np.square(values - aim).mean()))
            expected |= {f"losses/{name}_values": float(values.mean())}
            expected |= {f"losses/{name}_loss": losses[-1]}
        if _is_td3(subject):
            expected["losses/qf_loss"] = sum(losses) / 2
        shown = {tag: value for tag, value in found[0].logged.items() if "losses/" in tag}
        assert shown == pytest.approx(expected, rel=1e-3, abs=1e-6)


def networks_begin_apart(subject: Subject) -> None:
    """Each network has two layers of 256 units; weights begin as LeCun's, biases with zero, and no
    two layers, nor the two critics, begin with the same random numbers."""
    start = _one(subject)[0].before
    layers, sizes = (
        [],
        {"actor": (3, 256, 256, 2), "qf1": (5, 256, 256, 1), "qf2": (5, 256, 256, 1)},
    )
    for name, network in {"actor": start["actor"], **_critics(subject, start)}.items():
        shapes = [tuple(layer["kernel"].shape) for layer in network]
        assert shapes == list(pairwise(sizes[name]))
        for layer in network:
            assert not np.asarray(layer["bias"]).any()
            layers.append(np.asarray(layer["kernel"]) * np.sqrt(len(layer["kernel"])))
    for layer in layers:
        assert abs(layer.std() - 1) < 0.15
        # Of a normal distribution without its ends, not of a uniform one
        assert 2 < abs(layer).max() < 2.4
    for one, other in combinations(layers, 2):
        common = min(one.size, other.size)
        assert abs(np.corrcoef(one.ravel()[:common], other.ravel()[:common])[0, 1]) < 0.3


def _common(file: str) -> list[Mutant]:
    critics: tuple[Check, ...] = (critics_follow_their_target,)
    delay: tuple[Check, ...] = (targets_follow_the_delayed_actor,)
    climb: tuple[Check, ...] = (actor_climbs_the_first_critic,)
    memory: tuple[Check, ...] = (memory_holds_what_happened,)
    return [
        Mutant(file, '(1 - data["dones"]) * ', "", "the future counts after the end", critics),
        Mutant(file, "args.gamma * ", "", "no discount", critics),
        Mutant(file, "return -critic_value(", "return critic_value(", "downhill", climb),
        Mutant(
            file,
            "(global_step // args.num_envs) % args.policy_frequency == 0",
            "global_step % args.policy_frequency < args.num_envs",
            "the actor's delay vanishes with several environments",
            delay,
        ),
        Mutant(file, "targets, args.tau)", "targets, 1.0)", "the targets jump", delay),
        Mutant(
            file,
            'info.get("final_obs", next_obs)',
            "next_obs",
            "the reset state as the next state",
            memory,
        ),
        Mutant(
            file,
            "actions, rewards, terminated)",
            "actions, rewards, terminated | bool(info))",
            "truncation taken as an end",
            memory,
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
            "            actions = envs.sample_actions(run.rng)\n",
            "            actions = actor_action(actor.numpy(), scale, centre, obs)\n",
            "the memory begins with the actions of an untrained policy",
            (exploration_is_noise_in_the_action_range,),
        ),
        Mutant(
            file,
            "args.exploration_noise * scale * noise",
            "args.exploration_noise * noise",
            "exploration noise ignores the action range",
            (exploration_is_noise_in_the_action_range,),
        ),
        Mutant(
            file,
            "global_step % 100 < args.num_envs",
            "global_step % 100 == 0",
            "with three environments there is a third of the points, or none",
            (curves_show_what_was_learned,),
        ),
        Mutant(
            file,
            "optax.adam(args.learning_rate)",
            "optax.sgd(args.learning_rate)",
            "plain descent, hundreds of times slower",
            (optimizers_take_their_steps,),
        ),
        Mutant(
            file,
            "dense(keys[1], 256, 256), dense(keys[2], 256, 1)",
            "dense(keys[1], 256, 256), dense(keys[1], 256, 1)",
            "two layers begin with the same numbers",
            (networks_begin_apart,),
        ),
    ]


MUTANTS = [
    *_common(DDPG),
    *_common(TD3),
    Mutant(TD3, "jnp.minimum(", "jnp.maximum(", "max for min", (critics_follow_their_target,)),
    Mutant(
        TD3,
        "scale, centre, next_obs) + noise",
        "scale, centre, next_obs)",
        "no smoothing",
        (critics_follow_their_target,),
    ),
    Mutant(
        TD3,
        "init_critic(envs, qf2_key)",
        "init_critic(envs, qf1_key)",
        "both critics are the same, so the smaller one is either",
        (networks_begin_apart,),
    ),
]
_NAMES = ("ddpg_continuous_action_jax", "td3_continuous_action_jax")
HARMLESS = [
    Harmless(
        "noise).clip(low, high)",
        "actions + args.exploration_noise",
        "",
        "the noise is as likely to be positive as negative",
        _NAMES,
    ),
    Harmless("jax.random.split(key, 3)", "3", "6", "the other keys are never used", _NAMES),
    Harmless("dense(keys[2]", "2", "4", "past the end JAX takes the last key, the same", _NAMES),
]

_PENDULUM = (
    "--env-id Pendulum-v1 --buffer-size 10000 --gamma 0.98 --batch-size 64 --total-timesteps 7000 "
    "--learning-starts 1000 --exploration-noise 0.3 --learning-rate 1e-3"
)
LEARNING = [
    Learning(f"{name}_continuous_action_jax", _PENDULUM, "--total-timesteps 400", 2.5, slow=True)
    for name in ("ddpg", "td3")
]
