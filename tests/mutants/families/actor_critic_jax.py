"""DDPG and TD3 in JAX: the losses that their gradients must be of, and their delays."""

from __future__ import annotations

from typing import Any

import numpy as np

from mutants import reference
from mutants.learning import Learning
from mutants.noise_envs import CONTINUOUS
from mutants.subject import Check, Mutant, Subject
from mutants.trial import Turn, rehearse

DDPG, TD3 = (f"cleanrl/{name}_continuous_action_jax.py" for name in ("ddpg", "td3"))
GAMMA, TAU, ROWS = 0.9, 0.2, 16
CENTRE, SCALE = np.array([1.0, 0.25], np.float32), np.array([2.0, 2.25], np.float32)


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


def critics_follow_their_target(subject: Subject) -> None:
    """Each critic's gradient is that of the squared difference to the reward plus the discounted
    target value: of the target actor's action, in TD3 the smaller one of a noisy action."""
    import jax
    import jax.numpy as jnp

    td3 = subject.name.startswith("td3")
    extra = {"policy_noise": 1.5, "noise_clip": 1.2} if td3 else {}
    for turn in reference.learning_turns(_turns(subject, **extra), "q_optimizer"):
        batch = turn.draws[0].batch
        obs, next_obs = jnp.asarray(batch.obs.numpy()), jnp.asarray(batch.next_obs.numpy())
        taken, targets = jnp.asarray(batch.actions.numpy()), turn.before["targets"]
        actions = _action(subject, targets["actor"], next_obs)
        if td3:
            _, key = jax.random.split(turn.before["smoothing_key"])
            noise = (jax.random.normal(key, (ROWS, 2)) * 1.5).clip(-1.2, 1.2) * SCALE
            actions = (actions + noise).clip(CENTRE - SCALE, CENTRE + SCALE)
        names = ("qf1", "qf2") if td3 else ("qf1",)
        values = [_value(subject, targets[name], next_obs, actions) for name in names]
        following = np.minimum.reduce([np.asarray(value) for value in values])
        aim = batch.rewards.numpy() + GAMMA * (1 - batch.dones.numpy()) * following

        def loss(critics: Any, aim: Any = aim, obs: Any = obs, taken: Any = taken) -> Any:
            each = critics.values() if td3 else [critics]
            errors = [_value(subject, params, obs, taken) - aim for params in each]
            return sum(jnp.square(error).mean() for error in errors)

        expected = jax.grad(loss)(turn.before["critics" if td3 else "qf1"])
        reference.assert_same_tree(reference.learned_tree(turn, "q_optimizer"), expected)


def actor_climbs_the_first_critic(subject: Subject) -> None:
    """The actor's gradient is that of minus the average value of its own actions."""
    import jax
    import jax.numpy as jnp

    for turn in reference.learning_turns(_turns(subject, policy_frequency=1), "actor_optimizer"):
        obs = jnp.asarray(turn.draws[0].batch.obs.numpy())
        critics = turn.after.get("critics") or {"qf1": turn.after["qf1"]}

        def loss(actor: Any, obs: Any = obs, critic: Any = critics["qf1"]) -> Any:
            return -_value(subject, critic, obs, _action(subject, actor, obs)).mean()

        expected = jax.grad(loss)(turn.before["actor"])
        reference.assert_same_tree(reference.learned_tree(turn, "actor_optimizer"), expected)


def targets_follow_the_delayed_actor(subject: Subject) -> None:
    """Every other turn, with one environment or with four, the actor learns and all targets move by
    tau; in the turns between neither does."""
    for num_envs in (1, 4):
        turns = _turns(subject, num_envs=num_envs, total_timesteps=20 + 6 * num_envs)
        for turn in turns:
            if turn.step < 20:
                continue
            moves = turn.step // num_envs % 2 == 0
            assert reference.updated(turn, "q_optimizer") == 1
            assert reference.updated(turn, "actor_optimizer") == moves
            critics = turn.after.get("critics") or {"qf1": turn.after["qf1"]}
            turn.after["all"] = {"actor": turn.after["actor"], **critics}
            reference.assert_tree_follows(turn, "targets", "all", TAU if moves else 0.0)


def memory_holds_what_happened(subject: Subject) -> None:
    """Truncation is no end, and no transition leads into the next episode."""
    reference.assert_true_transitions(_turns(subject, total_timesteps=83, learning_starts=80))


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
]

_PENDULUM = (
    "--env-id Pendulum-v1 --buffer-size 10000 --gamma 0.98 --batch-size 64 --total-timesteps 7000 "
    "--learning-starts 1000 --exploration-noise 0.3 --learning-rate 1e-3"
)
LEARNING = [
    Learning(f"{name}_continuous_action_jax", _PENDULUM, "--total-timesteps 400", 2.5, slow=True)
    for name in ("ddpg", "td3")
]
