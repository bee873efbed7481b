"""PPO on the device: each compiled turn is computed again in torch, by the definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mutants.learning import Learning
from mutants.on_device import DISCRETE, adam_moments, as_torch, rehearse_on_device
from mutants.rollouts import PlainAgent, Rollout, load_state, replay
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


def _same(subject: Subject, **arguments: Any) -> list[Turn]:
    turns, args = _turns(subject, **arguments)
    for turn in map(_in_torch, turns):
        share = 1 - turn.step / args.total_timesteps if args.anneal_lr else 1.0
        agent = PlainAgent(3, 3, continuous=False)
        expected = replay(turn, args, agent, share * args.learning_rate)
        for name, wanted in expected.logged.items():
            np.testing.assert_allclose(
                turn.logged[name], wanted, rtol=2e-3, atol=1e-5, err_msg=name
            )
        for name, wanted in expected.agent.state_dict().items():
            reached = torch.as_tensor(turn.after["agent"][name])
            torch.testing.assert_close(reached, wanted, rtol=2e-3, atol=2e-5, msg=name)
    return turns


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights and logged losses after each turn are those of a plain implementation in torch, with
    episodes that end both ways in the rollouts."""
    turns = _same(subject)
    assert set.union(*(Rollout.of(turn).kinds for turn in turns)) == {"terminated", "truncated"}


def options_do_what_they_say(subject: Subject) -> None:
    """Without normalised advantages, clipped values and annealing it is still that of the paper."""
    _same(subject, norm_adv=False, clip_vloss=False, anneal_lr=False, max_grad_norm=100.0)


def updates_stop_early(subject: Subject) -> None:
    """With a target for the change of the policy, nothing is learned once it is passed."""
    for target, epochs in ((1e-9, 1), (1e9, 4)):
        turns, _ = _turns(subject, target_kl=target, update_epochs=4, total_timesteps=48)
        counts = [int(s["state"][".moments[1].count"]) for s in (turns[0].before, turns[0].after)]
        assert counts[1] - counts[0] == 3 * epochs


def actions_follow_the_policy(subject: Subject) -> None:
    """Actions are as frequent as the policy says, not the likeliest each time."""
    turns, _ = _turns(subject, total_timesteps=1200, num_envs=4, num_steps=300, num_minibatches=4)
    rollout = Rollout.of(turns[0])
    agent = load_state(PlainAgent(3, 3, continuous=False), as_torch(turns[0].before["agent"]))
    likeliest = agent.actor(rollout.obs).argmax(-1)
    share = (likeliest == rollout.actions).float().mean()
    assert share < 0.4, "a policy that has not learned chooses evenly"


def the_network_begins_as_it_should(subject: Subject) -> None:
    """Weights are orthogonal with gain sqrt 2 inside, 0.01 for the policy and 1 for the value, and
    biases are zero."""
    turns, _ = _turns(subject, total_timesteps=48)
    start = as_torch(turns[0].before["agent"])
    for network, last in (("actor", 0.01), ("critic", 1.0)):
        for layer, gain in zip((0, 2, 4), (2**0.5, 2**0.5, last), strict=True):
            weight = start[f"{network}.{layer}.weight"]
            narrow = weight if weight.shape[0] <= weight.shape[1] else weight.T
            wanted = gain**2 * np.eye(len(narrow))
            np.testing.assert_allclose(narrow @ narrow.T, wanted, rtol=1e-4, atol=1e-5)
            assert not start[f"{network}.{layer}.bias"].any()


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
            "dense(keys[2], 64, 1, 1.0)",
            "dense(keys[2], 64, 1)",
            "the value head begins with other weights",
            (the_network_begins_as_it_should,),
        ),
    )
]

LEARNING = [
    Learning("ppo_ondevice", "--total-timesteps 40000", "--learning-rate 1e-12", 4, slow=True)
]
