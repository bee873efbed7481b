"""PPO on the device: each compiled turn is computed again in torch, by the definitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch

from mutants.harmless import Harmless
from mutants.learning import Learning
from mutants.on_device import (
    DISCRETE,
    adam_moments,
    as_linear,
    as_torch,
    assert_sampled,
    begun,
    rehearse_on_device,
)
from mutants.reference import assert_orthogonal
from mutants.rollouts import PlainAgent, Replayed, Rollout, load_state, replay
from mutants.subject import Mutant, Subject
from mutants.trial import Turn

FILE = "cleanrl/ppo_ondevice.py"
_SETTINGS: dict[str, Any] = {
    "env_id": DISCRETE,
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


def _turns(subject: Subject, **arguments: Any) -> tuple[list[Turn], Any]:
    return rehearse_on_device(subject.module, **{**_SETTINGS, **arguments})


def _in_torch(turn: Turn) -> Turn:
    """The turn with its states as the torch file would have saved them."""
    agent = as_torch(turn.before["agent"])
    names = [name for name, _ in PlainAgent(3, 3, continuous=False).named_parameters()]
    moments = adam_moments(turn.before["state"], names, ".moments[1]")
    after = {"agent": as_torch(turn.after["agent"])}
    return Turn(turn.step, {"agent": agent, "optimizer": moments}, after, turn.steps, [],
                turn.logged, turn.orders)  # fmt: skip


def epochs_that_ran(
    turn: Turn, args: Any, agent: Callable[[], PlainAgent], lr: float
) -> tuple[Replayed, int]:
    """Epoch after epoch of a turn, until the policy has moved further than it may; how many."""
    for epochs in range(1, len(turn.orders) + 1):
        expected = replay(replace(turn, orders=turn.orders[:epochs]), args, agent(), lr)
        if args.target_kl is not None and expected.logged["losses/approx_kl"] > args.target_kl:
            break
    return expected, epochs


def _same(subject: Subject, **arguments: Any) -> tuple[list[Turn], set[int]]:
    turns, args = _turns(subject, **arguments)
    counts = set()
    for turn in map(_in_torch, turns):
        share = 1 - turn.step / args.total_timesteps if args.anneal_lr else 1.0
        agent = partial(PlainAgent, 3, 3, continuous=False)
        expected, epochs = epochs_that_ran(turn, args, agent, share * args.learning_rate)
        counts.add(epochs)
        for name, wanted in expected.logged.items():
            np.testing.assert_allclose(
                turn.logged[name], wanted, rtol=2e-3, atol=1e-5, err_msg=name
            )
        for name, wanted in expected.agent.state_dict().items():
            reached = torch.as_tensor(turn.after["agent"][name])
            torch.testing.assert_close(reached, wanted, rtol=2e-3, atol=2e-5, msg=name)
    return turns, counts


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights and logged losses after each turn are those of a plain implementation in torch, with
    episodes that end both ways in the rollouts."""
    turns, _ = _same(subject)
    assert set.union(*(Rollout.of(turn).kinds for turn in turns)) == {"terminated", "truncated"}


def options_do_what_they_say(subject: Subject) -> None:
    """Without normalised advantages, clipped values and annealing it is still that of the paper."""
    _same(subject, norm_adv=False, clip_vloss=False, anneal_lr=False, max_grad_norm=100.0)


def updates_stop_early(subject: Subject) -> None:
    """With a target for the change of the policy, nothing is learned once an epoch has passed it,
    and what is logged is of the epochs before."""
    _, counts = _same(subject, target_kl=TARGET_KL, update_epochs=4)
    assert len(counts) > 1, "in all turns after as many epochs"


def actions_follow_the_policy(subject: Subject) -> None:
    """Actions are as frequent as a policy that prefers some of them says."""
    with mock.patch.object(subject.module, "init_agent", _decided(subject.module.init_agent)):
        turns, _ = _turns(
            subject, total_timesteps=9600, num_envs=4, num_steps=2400, num_minibatches=1,
            update_epochs=1,
        )  # fmt: skip
    rollout = Rollout.of(turns[0])
    agent = PlainAgent(3, 3, continuous=False)
    load_state(agent, as_torch(turns[0].before["agent"]))
    with torch.no_grad():
        log_probs = agent.actor(rollout.obs.flatten(0, 1)).log_softmax(-1)
    assert_sampled(log_probs, rollout.actions.flatten())


def _decided(init: Callable[..., Any]) -> Callable[..., Any]:
    """Begin with a policy that prefers some actions."""

    def decided(*arguments: Any) -> Any:
        params = init(*arguments)
        params["actor"][-1]["kernel"] *= 200.0
        return params

    return decided


def the_network_begins_as_it_should(subject: Subject) -> None:
    """Weights are orthogonal with gain sqrt 2 inside, 0.01 for the policy and 1 for the value,
    biases are zero, and no two layers are drawn with the same random key."""
    params = begun(subject.module, "init_agent", DISCRETE)
    for network, outputs, last in (("actor", 3, 0.01), ("critic", 1, 1.0)):
        layers = [as_linear(layer) for layer in params[network]]
        assert [layer.weight.shape for layer in layers] == [(64, 3), (64, 64), (outputs, 64)]
        for layer, gain in zip(layers, (2**0.5, 2**0.5, last), strict=True):
            assert_orthogonal(layer, gain)


# So that epochs are left out in some turns, not in all.
TARGET_KL = 3.5e-4

TURN = (a_turn_is_that_of_the_paper,)
OPTIONS = (options_do_what_they_say,)

# All slow: each compiles a program of its own, which takes seconds.
MUTANTS = [
    Mutant(FILE, old, new, why, checks, slow=True)
    for old, new, why, checks in (
        (
            "-jnp.minimum(advantages * ratio",
            "-jnp.maximum(advantages * ratio",
            "the optimistic surrogate, not the pessimistic one",
            TURN,
        ),
        (
            "- args.ent_coef * entropy",
            "+ args.ent_coef * entropy",
            "entropy is punished, not rewarded",
            TURN,
        ),
        ("+ args.vf_coef * v_loss", "", "the value network never learns", TURN),
        (
            "(1.0 - outcome.terminated) * next_values",
            "goes_on * next_values",
            "truncation counts as an end",
            TURN,
        ),
        (
            "(1.0 - outcome.terminated) * next_values",
            "next_values",
            "termination is ignored",
            TURN,
        ),
        (
            "args.gamma * args.gae_lambda * goes_on",
            "0.0 * args.gae_lambda * goes_on",
            "lambda is ignored",
            TURN,
        ),
        (
            "args.gamma * args.gae_lambda * goes_on",
            "args.gamma * args.gae_lambda + 0 * goes_on",
            "advantages flow from one episode into the one before",
            TURN,
        ),
        (
            "optax.clip_by_global_norm(args.max_grad_norm)",
            "optax.identity()",
            "the gradient is not clipped",
            TURN,
        ),
        (
            "jnp.maximum(v_errors, ",
            "jnp.minimum(v_errors, ",
            "the value loss is clipped the wrong way",
            TURN,
        ),
        (
            "(advantages - advantages.mean()) / ",
            "advantages / ",
            "advantages are not centred",
            TURN,
        ),
        ("if args.norm_adv:", "if True:", "--no-norm-adv is ignored", OPTIONS),
        ("if args.clip_vloss:", "if True:", "--no-clip-vloss is ignored", OPTIONS),
        (
            "1.0 - state.iteration / num_iterations",
            "1.0 + state.iteration / num_iterations",
            "the learning rate rises",
            TURN,
        ),
        (
            '["losses/approx_kl"][-1] > args.target_kl',
            '["losses/approx_kl"][-1] < args.target_kl',
            "updates stop when they should not",
            (updates_stop_early,),
        ),
        (
            "(clipfracs * ran).sum() / ran.sum()",
            "clipfracs[-1]",
            "clipfrac is that of one epoch",
            TURN,
        ),
        (
            "(logits + noise).argmax(axis=-1)",
            "logits.argmax(axis=-1)",
            "nothing is explored",
            (actions_follow_the_policy,),
        ),
        (
            "(logits + noise).argmax(axis=-1)",
            "(logits - noise).argmax(axis=-1)",
            "actions are not those of a softmax",
            (actions_follow_the_policy,),
        ),
        (
            "1 - (returns - values).var() / returns.var()",
            "1 - returns.var() / (returns - values).var()",
            "a useless value function looks as good as a perfect one",
            TURN,
        ),
        (
            '"losses/old_approx_kl": -logratio.mean()',
            '"losses/old_approx_kl": logratio.mean()',
            "the curve of the policy's change has the wrong sign",
            TURN,
        ),
        (
            "values[ran.sum() - 1, -1]",
            "values[-1, -1]",
            "losses are logged of epochs that were left out",
            (updates_stop_early,),
        ),
        (
            "dense(keys[5], 64, actions, 0.01)",
            "dense(keys[2], 64, actions, 0.01)",
            "two layers begin with the same random numbers",
            (the_network_begins_as_it_should,),
        ),
        ("run.check_spaces(envs)", "pass", "it starts where it cannot learn anything", TURN),
        (
            "dense(keys[2], 64, 1, 1.0)",
            "dense(keys[2], 64, 1)",
            "the value head begins with other weights",
            (the_network_begins_as_it_should,),
        ),
    )
]

_PPO = ("ppo_ondevice", "ppo_continuous_ondevice", "ppo_rnn_ondevice")
_LAST = "there is no such place, and JAX then takes the last one, which is the one that is meant"
HARMLESS = [
    Harmless("jax.random.split(key, 6)", "6", "", "keys to spare", ("ppo_ondevice",)),
    Harmless("dense(keys[5], ", "5", "", _LAST, ("ppo_ondevice",)),
    Harmless("jnp.take_along_axis(", "0", "1", _LAST, ("ppo_ondevice",)),
    Harmless("jnp.zeros_like(values[0])", "0", "", "all rows have the same shape", _PPO),
    Harmless(
        ".std(ddof=1) + 1e-8)",
        "advantages.std(ddof=1) + 1e-8",
        "",
        "it guards against a division by zero; the spread of a batch is a million times as large",
        _PPO,
    ),
    Harmless(".std(ddof=1) + 1e-8)", "1e-8", "", "it guards against a division by zero", _PPO),
    Harmless(
        "if args.target_kl is not None:",
        "args.target_kl is not None",
        "True",
        "without a target nothing stops, and what would then be kept is never taken",
        _PPO,
    ),
]

LEARNING = [
    Learning("ppo_ondevice", "--total-timesteps 40000", "--learning-rate 1e-12", 4, slow=True)
]
