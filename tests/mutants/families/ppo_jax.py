"""PPO in JAX: its advantages and its loss against their definitions in NumPy and torch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.distributions import Categorical

from mutants.rollouts import Rollout, advantages
from mutants.subject import Check, Mutant, Subject
from mutants.trial import rehearse

STEPWISE = "cleanrl/ppo_atari_envpool_xla_jax.py"
SCANNED = "cleanrl/ppo_atari_envpool_xla_jax_scan.py"
_STEPS, _ENVS, _INPUTS, _ACTIONS = 12, 3, 5, 4


def _args(**arguments: Any) -> SimpleNamespace:
    known = {"gamma": 0.9, "gae_lambda": 0.8, "clip_coef": 0.1, "ent_coef": 0.05, "vf_coef": 0.7}
    return SimpleNamespace(**{"norm_adv": True, **known, **arguments})


def advantages_are_those_of_the_definition(subject: Subject) -> None:
    """The sum of discounted errors, over rollouts with both kinds of ends: a terminated state is
    worth nothing, a truncated one its value, and no sum continues beyond either."""
    import jax.numpy as jnp

    rng, module = np.random.default_rng(0), subject.module
    shape = (_STEPS, _ENVS)
    rewards = rng.normal(size=shape).astype(np.float32)
    values = rng.normal(size=(_STEPS + 1, _ENVS)).astype(np.float32)
    terminated, truncated = rng.random(shape) < 0.15, rng.random(shape) < 0.15
    truncated &= ~terminated
    assert terminated.any()
    assert truncated.any()
    nothing = jnp.zeros(shape)
    outcome = module.Outcome(
        *(jnp.asarray(part) for part in (rewards, terminated, truncated)), *(nothing,) * 4
    )
    samples = module.Sample(nothing, nothing, nothing, jnp.asarray(values[:-1]), outcome)
    reached = module.gae(_args(), samples, jnp.asarray(values[-1]))
    # The observation after a step is in both cases the true next one.
    rollout = Rollout(
        *(torch.from_numpy(part) for part in (values[:-1], rewards, rewards)),
        *(torch.from_numpy(part) for part in (terminated, truncated, values[1:])),
    )
    expected = advantages(rollout, lambda value: value, 0.9, 0.8)
    np.testing.assert_allclose(reached, expected, rtol=1e-4, atol=1e-5)


def _minibatch(rng: np.random.Generator, rows: int = 40) -> dict[str, np.ndarray]:
    normal = {name: rng.normal(size=rows) for name in ("advantages", "returns")}
    return {
        **{name: part.astype(np.float32) for name, part in normal.items()},
        "obs": rng.normal(size=(rows, _INPUTS)).astype(np.float32),
        "actions": rng.integers(_ACTIONS, size=rows),
        "logprobs": np.log(rng.uniform(0.15, 0.4, size=rows)).astype(np.float32),
        "valid": (rng.random(rows) < 0.8).astype(np.float32),
    }


def _expected_loss(
    args: Any, params: dict[str, np.ndarray], mb: dict[str, np.ndarray]
) -> dict[str, float]:
    """The loss over the rows that were steps of an episode; the others do not exist."""
    kept = {name: torch.from_numpy(part[mb["valid"] > 0]) for name, part in mb.items()}
    actor, critic = (torch.from_numpy(params[name]) for name in ("actor", "critic"))
    policy = Categorical(logits=kept["obs"] @ actor)
    ratio = (policy.log_prob(kept["actions"]) - kept["logprobs"]).exp()
    gain = kept["advantages"]
    if args.norm_adv:
        gain = (gain - gain.mean()) / (gain.std(correction=0) + 1e-8)
    near = ratio.clip(1 - args.clip_coef, 1 + args.clip_coef)
    pg_loss = -torch.minimum(gain * ratio, gain * near).mean()
    v_loss = ((kept["obs"] @ critic - kept["returns"]) ** 2).mean() / 2
    entropy = policy.entropy().mean()
    return {
        "losses/loss": float(pg_loss - args.ent_coef * entropy + args.vf_coef * v_loss),
        "losses/value_loss": float(v_loss),
        "losses/policy_loss": float(pg_loss),
        "losses/entropy": float(entropy),
        "losses/approx_kl": float((ratio - 1 - ratio.log()).mean()),
        "losses/clipfrac": float(((ratio - 1).abs() > args.clip_coef).float().mean()),
    }


def the_loss_is_that_of_the_paper(subject: Subject) -> None:
    """Clipped surrogate, squared error and entropy over the steps that were no resets, with torch's
    distributions; with and without normalised advantages."""
    import jax.numpy as jnp

    rng, module = np.random.default_rng(1), subject.module
    params = {
        "actor": rng.normal(size=(_INPUTS, _ACTIONS)).astype(np.float32),
        "critic": rng.normal(size=_INPUTS).astype(np.float32),
    }
    # A linear network in place of the convolutions, which are not what is in question.
    module.forward = lambda params, obs, *_: (obs @ params["actor"], obs @ params["critic"])
    mb = _minibatch(rng)
    for args in (_args(), _args(norm_adv=False)):
        loss, losses = module.ppo_loss(
            params, args, {name: jnp.asarray(part) for name, part in mb.items()}
        )
        expected = _expected_loss(args, params, mb)
        np.testing.assert_allclose(loss, expected["losses/loss"], rtol=1e-4)
        for name, wanted in expected.items():
            np.testing.assert_allclose(losses[name], wanted, rtol=1e-4, atol=1e-6, err_msg=name)


def steps_are_clipped_and_fade(subject: Subject) -> None:
    """In real games the gradient that Adam is given is no longer than the limit, the step is as
    long as the falling learning rate says, and a target for the policy's change ends an update."""
    import jax

    settings = {"num_envs": 2, "num_steps": 16, "num_minibatches": 1, "max_grad_norm": 1e-3}
    settings |= {"total_timesteps": 96, "learning_rate": 1e-2}
    for number, turn in enumerate(rehearse(subject.module, update_epochs=1, **settings)):
        (_, before), (_, after) = turn.before["optimizer"], turn.after["optimizer"]
        gradient = jax.tree.map(lambda old, new: (new - 0.9 * old) / 0.1, before.mu, after.mu)
        norm = np.sqrt(sum(float((part**2).sum()) for part in jax.tree.leaves(gradient)))
        np.testing.assert_allclose(norm, 1e-3, rtol=1e-2)
        count, rate = int(after.count), 1e-2 * (1 - number / 3)
        assert count == number + 1
        expected = jax.tree.map(
            lambda old, mu, nu, count=count, rate=rate: (
                old - rate * (mu / (1 - 0.9**count)) / (np.sqrt(nu / (1 - 0.999**count)) + 1e-5)
            ),
            turn.before["agent"],
            after.mu,
            after.nu,
        )
        for one, other in zip(
            jax.tree.leaves(turn.after["agent"]), jax.tree.leaves(expected), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    settings |= {"num_minibatches": 2, "max_grad_norm": 1.0}
    for target, epochs in ((1e-12, 1), (1e9, 3)):
        turns = rehearse(subject.module, update_epochs=3, target_kl=target, **settings)
        steps = [int(turn.after["optimizer"][1].count) for turn in turns]
        assert steps == [2 * epochs * (number + 1) for number in range(len(turns))]


GAE: tuple[Check, ...] = (advantages_are_those_of_the_definition,)
LOSS: tuple[Check, ...] = (the_loss_is_that_of_the_paper,)
STEPS: tuple[Check, ...] = (steps_are_clipped_and_fade,)
_EDITS = (
    ("next_values * (1 - outcome.terminated)", "next_values", "termination is ignored", GAE),
    (
        "next_values * (1 - outcome.terminated)",
        "next_values * (1 - outcome.terminated) * (1 - outcome.truncated)",
        "truncation counts as an end",
        GAE,
    ),
    ("args.gae_lambda * (1 - ended)", "args.gae_lambda", "advantages flow between episodes", GAE),
    ("args.gamma * args.gae_lambda * (", "0.0 * (", "lambda is ignored", GAE),
    ("-mean(jnp.minimum(", "mean(jnp.minimum(", "the policy gets worse on purpose", LOSS),
    ("jnp.minimum(advantages * ratio", "jnp.maximum(advantages * ratio", "optimistic", LOSS),
    (
        "jnp.minimum(advantages * ratio, advantages * clipped)",
        "advantages * ratio",
        "no clipping: an update may go anywhere",
        LOSS,
    ),
    ("- args.ent_coef * entropy", "+ args.ent_coef * entropy", "entropy is punished", LOSS),
    ("+ args.vf_coef * v_loss", "", "the value never learns", LOSS),
    (
        'mb["valid"] / jnp.maximum(mb["valid"].sum(), 1)',
        'jnp.ones_like(mb["valid"]) / len(mb["valid"])',
        "steps that only reset a game are learned from",
        LOSS,
    ),
    ("centred = advantages - mean(advantages)", "centred = advantages", "not centred", LOSS),
    ("    if args.norm_adv:\n", "    if True:\n", "--no-norm-adv is ignored", LOSS),
)
_SLOW_EDITS = (
    (
        "optax.clip_by_global_norm(args.max_grad_norm)",
        "optax.identity()",
        "the gradient is not clipped",
    ),
    ("learning_rate *= 1.0 - global", "learning_rate *= 1.0 + global", "the rate rises"),
    ('["losses/approx_kl"] > args.target_kl', '["losses/approx_kl"] < args.target_kl', "stops"),
)
MUTANTS = [
    *(Mutant(file, *edit) for file in (STEPWISE, SCANNED) for edit in _EDITS),
    # They compile a whole network for real games.
    *(
        Mutant(file, *edit, STEPS, slow=True)
        for file in (STEPWISE, SCANNED)
        for edit in _SLOW_EDITS
    ),
]
