"""PPO for continuous actions on the device, computed again in torch."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch

from cleanrl_worker.kit.normalize import RunningMeanStd
from mutants import reference
from mutants.families.ppo_ondevice import epochs_that_ran
from mutants.harmless import Harmless
from mutants.learning import Learning
from mutants.on_device import (
    CONTINUOUS,
    LAST_KEY,
    adam_moments,
    altered,
    as_linear,
    as_torch,
    begun,
    rehearse_on_device,
)
from mutants.rollouts import PlainAgent, Rollout
from mutants.subject import Mutant, Subject
from mutants.trial import State, Step, Turn

PPO = "cleanrl/ppo_continuous_ondevice.py"
_SETTINGS: dict[str, Any] = {
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


def _same_ppo(subject: Subject, **arguments: Any) -> tuple[list[Turn], set[int]]:
    turns, args = rehearse_on_device(subject.module, **{**_SETTINGS, **arguments})
    counts = set()
    _sees_how_episodes_begin(turns[0])
    names = [name for name, _ in PlainAgent(3, 2, continuous=True).named_parameters()]
    for turn in turns:
        before = {
            "agent": as_torch(turn.before["agent"], "['networks']"),
            "optimizer": adam_moments(turn.before["state"], names, ".moments[1]"),
        }
        seen = _normalized(turn, args.gamma)
        as_seen = Turn(turn.step, before, {}, seen, [], turn.logged, turn.orders)
        share = 1 - turn.step / args.total_timesteps if args.anneal_lr else 1.0
        agent = partial(PlainAgent, 3, 2, continuous=True)
        expected, epochs = epochs_that_ran(as_seen, args, agent, share * args.learning_rate)
        counts.add(epochs)
        for name, wanted in expected.logged.items():
            np.testing.assert_allclose(
                turn.logged[name], wanted, rtol=4e-3, atol=2e-5, err_msg=name
            )
        reached = as_torch(turn.after["agent"], "['networks']")
        for name, wanted in expected.agent.state_dict().items():
            torch.testing.assert_close(
                torch.as_tensor(reached[name]), wanted, rtol=4e-3, atol=4e-5, msg=name
            )
    return turns, counts


def _sees_how_episodes_begin(first: Turn) -> None:
    seen = RunningMeanStd((3,))
    seen.update(first.steps[0].obs)
    known = _statistics(first.before["agent"], "['obs_rms']")
    np.testing.assert_allclose(known.mean, seen.mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(known.var, seen.var, rtol=1e-4, atol=1e-5)


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights, logged losses and statistics after each turn are those of a plain implementation in
    torch, with episodes that end both ways in the rollouts."""
    turns, _ = _same_ppo(subject)
    assert set.union(*(Rollout.of(turn).kinds for turn in turns)) == {"terminated", "truncated"}


def options_do_what_they_say(subject: Subject) -> None:
    """Without normalised advantages, clipped values and annealing it is still that of the paper."""
    _same_ppo(subject, norm_adv=False, clip_vloss=False, anneal_lr=False, max_grad_norm=100.0)


def updates_stop_early(subject: Subject) -> None:
    """With a target for the change of the policy, nothing is learned once an epoch has passed it,
    and what is logged is of the epochs before."""
    _, counts = _same_ppo(subject, target_kl=_TARGET_KL, update_epochs=4)
    assert len(counts) > 1, "in all turns after as many epochs"


def _decided(params: Any) -> None:
    networks = params["networks"]
    networks["actor_mean"][-1]["kernel"] *= 200.0
    networks["actor_logstd"] -= 1.0


def actions_follow_the_policy(subject: Subject) -> None:
    """Actions are as far from the mean as the policy says."""
    module = subject.module
    with mock.patch.object(module, "init_agent", altered(module.init_agent, _decided)):
        settings = {"total_timesteps": 1200, "num_steps": 400, "num_minibatches": 1}
        turns, args = rehearse_on_device(module, **{**_SETTINGS, **settings, "update_epochs": 1})
    state = as_torch(turns[0].before["agent"], "['networks']")
    agent = PlainAgent(3, 2, continuous=True)
    agent.load_state_dict({name: torch.as_tensor(value) for name, value in state.items()})
    seen = _normalized(turns[0], args.gamma)
    with torch.no_grad():
        mean = agent.actor_mean(torch.from_numpy(np.stack([step.obs for step in seen]))).numpy()
    far = (np.stack([step.actions for step in seen]) - mean) / np.exp(-1.0)
    assert mean.std() > 0.3
    assert abs(far.mean()) < 4 / math.sqrt(far.size)
    assert abs(far.std() - 1) < 4 / math.sqrt(2 * far.size)


def the_networks_begin_as_they_should(subject: Subject) -> None:
    """Weights are orthogonal with gain sqrt 2 inside, 0.01 for the policy and 1 for the value,
    biases are zero, the spread is one, and no two layers are drawn with the same random key."""
    networks = begun(subject.module, "init_agent", CONTINUOUS)["networks"]
    for name, outputs, last in (("actor_mean", 2, 0.01), ("critic", 1, 1.0)):
        layers = [as_linear(layer) for layer in networks[name]]
        assert [layer.weight.shape for layer in layers] == [(64, 3), (64, 64), (outputs, 64)]
        for layer, gain in zip(layers, (2**0.5, 2**0.5, last), strict=True):
            reference.assert_orthogonal(layer, gain)
    np.testing.assert_array_equal(networks["actor_logstd"], np.zeros(2))


_TARGET_KL = 3.5e-4
_STOPS, _SAMPLES = (updates_stop_early,), (actions_follow_the_policy,)
_BEGINS = (the_networks_begin_as_they_should,)
_TURN, _OPTIONS = (a_turn_is_that_of_the_paper,), (options_do_what_they_say,)

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
        (PPO, "+ jnp.exp(networks", "+ 0.5 * jnp.exp(networks", "it explores too little", _SAMPLES),
        (PPO, "values[ran.sum() - 1, -1]", "values[-1, -1]", "losses of epochs left out", _STOPS),
        (
            PPO,
            "dense(keys[2], 64, 1, 1.0)",
            "dense(keys[5], 64, 1, 1.0)",
            "the same numbers twice",
            _BEGINS,
        ),
        (
            PPO,
            'seen(params["obs_rms"], games.obs)',
            'params["obs_rms"]',
            "first looks are forgotten",
            _TURN,
        ),
        (
            PPO,
            "- (returns - values).var()",
            "- (returns + values).var()",
            "a curve that lies",
            _TURN,
        ),
    )
]

HARMLESS = [
    Harmless(
        "keys = jax.random.split(key, 6)", "6", "", "keys to spare", ("ppo_continuous_ondevice",)
    ),
    Harmless("dense(keys[5], ", "5", "", LAST_KEY, ("ppo_continuous_ondevice",)),
    Harmless(
        "actions = mean + jnp.exp",
        "mean + ",
        "",
        "normal noise is as likely on one side of the mean as on the other",
        ("ppo_continuous_ondevice",),
    ),
]

LEARNING = [
    Learning(
        "ppo_continuous_ondevice",
        "--total-timesteps 81920 --gamma 0.9 --learning-rate 1e-3 --seed 1",
        "--learning-rate 1e-12",
        2.5,
        slow=True,
    ),
]
