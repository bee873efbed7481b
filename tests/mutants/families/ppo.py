"""PPO and RPO on flat observations: what their advantages, losses and steps must be."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.running import evaluation
from mutants.learning import Learning
from mutants.noise_envs import CONTINUOUS, DISCRETE
from mutants.reference import assert_orthogonal
from mutants.rollouts import PlainAgent, Rollout, load_state, replay
from mutants.subject import Mutant, Subject
from mutants.trial import Trial, Turn, rehearse

PPO = "cleanrl/ppo.py"
PPO_CONTINUOUS = "cleanrl/ppo_continuous_action.py"
RPO = "cleanrl/rpo_continuous_action.py"

_SETTINGS: dict[str, Any] = {
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
    continuous = subject.file != PPO
    settings = {**_SETTINGS, "env_id": CONTINUOUS if continuous else DISCRETE, **arguments}
    if not continuous:
        settings.setdefault("norm_adv", True)
    turns = rehearse(subject.module, **settings)
    return turns, subject.module.Args(**settings)


def _same(subject: Subject, **arguments: Any) -> list[Turn]:
    turns, args = _turns(subject, **arguments)
    continuous = subject.file != PPO
    for turn in turns:
        share = 1 - turn.step / args.total_timesteps if args.anneal_lr else 1.0
        agent = PlainAgent(3, 2 if continuous else 3, continuous=continuous)
        alpha = getattr(args, "rpo_alpha", 0.0)
        expected = replay(turn, args, agent, share * args.learning_rate, alpha)
        for name, wanted in expected.logged.items():
            np.testing.assert_allclose(
                turn.logged[name], wanted, rtol=2e-3, atol=1e-5, err_msg=name
            )
        for name, wanted in expected.agent.state_dict().items():
            reached = torch.as_tensor(turn.after["agent"][name])
            torch.testing.assert_close(reached, wanted, rtol=2e-3, atol=2e-5, msg=name)
    return turns


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights and logged losses after each turn are those of a plain implementation: advantages
    summed by their definition, torch's own distributions, optimiser and clipping. Episodes end both
    ways in the rollouts."""
    turns = _same(subject)
    assert set.union(*(Rollout.of(turn).kinds for turn in turns)) == {"terminated", "truncated"}


def options_do_what_they_say(subject: Subject) -> None:
    """Without normalised advantages, clipped values and annealing it is still that of the paper."""
    _same(subject, norm_adv=False, clip_vloss=False, anneal_lr=False, max_grad_norm=100.0)


def updates_stop_early(subject: Subject) -> None:
    """With a target for the change of the policy, no epoch begins once it is passed."""
    turns, _ = _turns(subject, target_kl=1e-9, update_epochs=4)
    assert [len(turn.orders) for turn in turns] == [1] * len(turns)
    turns, _ = _turns(subject, target_kl=1e9, update_epochs=4)
    assert [len(turn.orders) for turn in turns] == [4] * len(turns)


def actions_follow_the_policy(subject: Subject) -> None:
    """Actions are as frequent as the policy says, not the likeliest each time."""
    turns, _ = _turns(
        subject, total_timesteps=1200, num_envs=4, num_steps=300, num_minibatches=4, anneal_lr=False
    )
    rollout = Rollout.of(turns[0])
    if subject.file == PPO:
        agent = load_state(PlainAgent(3, 3, continuous=False), turns[0].before["agent"])
        likeliest = agent.actor(rollout.obs).argmax(-1)
        share = (likeliest == rollout.actions).float().mean()
        assert share < 0.4, "a policy that has not learned chooses evenly"
    else:
        spread = rollout.actions.flatten(0, 1).std(dim=0)
        np.testing.assert_allclose(spread, 1.0, atol=0.1)


def the_network_begins_as_it_should(subject: Subject) -> None:
    """Weights are orthogonal with gain sqrt 2 inside, 0.01 for the policy and 1 for the value, and
    biases are zero."""
    envs = Envs(DISCRETE if subject.file == PPO else CONTINUOUS, 1)
    torch.manual_seed(0)
    agent = subject.module.Agent(envs)
    envs.close()
    actor = agent.actor if subject.file == PPO else agent.actor_mean
    for network, last in ((actor, 0.01), (agent.critic, 1.0)):
        layers = [layer for layer in network if isinstance(layer, nn.Linear)]
        for layer, gain in zip(layers, (2**0.5, 2**0.5, last), strict=True):
            assert_orthogonal(layer, gain)


def small_rollouts_are_explained_too(subject: Subject) -> None:
    """The explained variance is right for rollouts of two steps, whose returns hardly vary, and not
    a number for those of one, whose returns do not: then there is nothing to explain."""
    settings: dict[str, Any] = {"num_envs": 1, "num_minibatches": 1}
    _same(subject, **settings, num_steps=2, gamma=0.1, total_timesteps=20)
    turns = _same(subject, **settings, num_steps=1, norm_adv=False, total_timesteps=3)
    assert all(np.isnan(turn.logged["losses/explained_variance"]) for turn in turns)


def the_density_is_that_of_gaussians(subject: Subject) -> None:
    """The log-density of an action is the sum of those of independent Gaussians, one for each of
    its parts."""
    torch.manual_seed(0)
    actions, mean, logstd = torch.randn(5, 2), torch.randn(5, 2), torch.randn(2)
    density = subject.module.gaussian_log_prob(actions, mean, logstd)
    expected = Normal(mean, logstd.exp()).log_prob(actions).sum(-1)
    torch.testing.assert_close(density, expected, rtol=1e-5, atol=1e-5)


class _Resumed(Trial):
    """A run resumed from a checkpoint."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.resumed = True


def a_run_begins_with_the_policy_it_was_given(subject: Subject) -> None:
    """With --warm-start the first rollout is that of the given policy, which sees observations with
    the statistics it was made for; what judges states starts fresh. A run that is resumed has its
    own policy, and does not even look for that one."""
    continuous = subject.file != PPO
    torch.manual_seed(5)
    given = PlainAgent(3, 2 if continuous else 3, continuous=continuous).state_dict()
    statistics = {
        "mean": torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64),
        "var": torch.tensor([4.0, 0.25, 2.0], dtype=torch.float64),
        "count": 50.0,
    }
    asked: list[Path] = []

    def read(path: Path) -> dict[str, Any]:
        asked.append(path)
        return {"model": {"agent": given, "obs_rms": statistics}, "algorithm": "bc", "env_id": ""}

    settings = {**_SETTINGS, "env_id": CONTINUOUS if continuous else DISCRETE}
    settings |= {"total_timesteps": 48, "warm_start": "given"}
    fresh, _ = _turns(subject, total_timesteps=48)
    with patch.object(evaluation, "load_policy", read):
        (turn,) = rehearse(subject.module, **settings)
        assert asked == [Path("given")]
        (resumed,) = rehearse(subject.module, kind=_Resumed, **settings)
        assert len(asked) == 1, "a resumed run starts over"
    for name, weights in given.items():
        own = fresh[0].before["agent"][name]
        expected = own if name.startswith("critic") else weights
        assert torch.equal(turn.before["agent"][name], expected), name
        assert torch.equal(resumed.before["agent"][name], own), name
    if continuous:
        for name in ("mean", "var"):
            np.testing.assert_array_equal(turn.before["obs_rms"][name], statistics[name])


TURN = (a_turn_is_that_of_the_paper,)
OPTIONS = (options_do_what_they_say,)
SMALL = (small_rollouts_are_explained_too,)
WARM = (a_run_begins_with_the_policy_it_was_given,)

# Each edit fits every file of the family: they share these lines.
SHARED: list[SimpleNamespace] = [
    SimpleNamespace(old=old, new=new, why=why, checks=checks)
    for old, new, why, checks in (
        ("pg_loss = -torch.min(", "pg_loss = torch.min(", "the policy gets worse on purpose", TURN),
        (
            "-torch.min(advantages * ratio, advantages * clipped_ratio)",
            "-(advantages * ratio)",
            "no clipping: an update may go anywhere",
            TURN,
        ),
        (
            "-torch.min(advantages * ratio",
            "-torch.max(advantages * ratio",
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
            "rewards[t] += args.gamma * cut_off",
            "rewards[t] += 0 * cut_off",
            "truncation counts as an end",
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
            "args.gamma * goes_on * values[1:]",
            "args.gamma * values[1:]",
            "termination is ignored",
            TURN,
        ),
        (
            "optimizer.clip_grad_norm_(args.max_grad_norm)\n",
            "pass\n",
            "the gradient is not clipped",
            TURN,
        ),
        (
            "torch.max(v_errors, (old_values",
            "torch.min(v_errors, (old_values",
            "the value loss is clipped the wrong way",
            TURN,
        ),
        (
            "(advantages - mean) / (std + 1e-8)",
            "advantages / (std + 1e-8)",
            "advantages are not centred",
            TURN,
        ),
        ("if args.norm_adv:", "if True:", "--no-norm-adv is ignored", OPTIONS),
        ("if args.clip_vloss:", "if True:", "--no-clip-vloss is ignored", OPTIONS),
        ("(1.0 - global_step / (", "(1.0 + global_step / (", "the learning rate rises", TURN),
        (
            "approx_kl > args.target_kl",
            "approx_kl < args.target_kl",
            "updates stop when they should not",
            (updates_stop_early,),
        ),
        (
            "torch.stack([logratio for *_, logratio in measured]).exp()",
            "logratio.exp()",
            "clipfrac is that of one minibatch",
            TURN,
        ),
        (
            "-logratio.mean().item()",
            "logratio.mean().item()",
            "old_approx_kl has the wrong sign",
            TURN,
        ),
        (
            "1 - (returns - values[:-1]).var() / variance if",
            "(returns - values[:-1]).var() / variance if",
            "a value network that explains nothing seems to explain everything",
            TURN,
        ),
        (
            "layer_init(nn.Linear(64, 1), std=1.0)",
            "nn.Linear(64, 1)",
            "the value head begins with torch's weights",
            (the_network_begins_as_it_should,),
        ),
        (
            "nn.init.orthogonal_(layer.weight, std)",
            "nn.init.orthogonal_(layer.weight)",
            "gains are ignored at the start",
            (the_network_begins_as_it_should,),
        ),
    )
]

# The same for the files whose rollouts can be as short as two steps.
UNEXPLAINED: list[tuple[str, str, str]] = [
    (
        "variance if variance > 0 else",
        "variance if variance > 1 else",
        "the curve of the explained variance has gaps",
    ),
    (
        "/ variance if variance > 0 else np.nan",
        "/ variance if variance > 0 else 1.0",
        "where there is nothing to explain all seems to be explained",
    ),
]

MUTANTS = [
    *(
        Mutant(file, edit.old, edit.new, edit.why, edit.checks)
        for file in (PPO, PPO_CONTINUOUS, RPO)
        for edit in SHARED
    ),
    *(Mutant(file, *edit, SMALL) for file in (PPO, PPO_CONTINUOUS, RPO) for edit in UNEXPLAINED),
    *(
        Mutant(file, "args.warm_start and not run.resumed", condition, why, WARM)
        for file in (PPO, PPO_CONTINUOUS)
        for condition, why in (
            ("args.warm_start and run.resumed", "--warm-start is ignored"),
            ("args.warm_start", "a run cannot be resumed once the policy it began with is gone"),
        )
    ),
    Mutant(
        PPO_CONTINUOUS,
        "warm_start(args.warm_start, agent, normalized.rms)",
        "warm_start(args.warm_start, agent)",
        "the given policy sees observations as it never saw them",
        WARM,
    ),
    *(
        Mutant(
            file,
            "- 0.5 * math.log(2 * math.pi)).sum(dim=-1)",
            "- math.log(2 * math.pi)).sum(dim=-1)",
            "what is called a density is none",
            (the_density_is_that_of_gaussians,),
        )
        for file in (PPO_CONTINUOUS, RPO)
    ),
    Mutant(
        PPO,
        "run.rng.categorical(logits[t])",
        "logits[t].argmax(axis=-1)",
        "nothing is explored",
        (actions_follow_the_policy,),
    ),
    *(
        Mutant(
            file,
            "policy(next_obs, run.rng, deterministic=False)",
            "policy(next_obs, run.rng, deterministic=True)",
            "nothing is explored",
            (actions_follow_the_policy,),
        )
        for file in (PPO_CONTINUOUS, RPO)
    ),
    *(
        Mutant(
            file,
            "- 0.5 * math.log(2 * math.pi)).sum(dim=-1)",
            "- 0.5 * math.log(2 * math.pi)).mean(dim=-1)",
            "the density is that of one action dimension",
            TURN,
        )
        for file in (PPO_CONTINUOUS, RPO)
    ),
    Mutant(
        RPO,
        "uniform_(-args.rpo_alpha, args.rpo_alpha)",
        "uniform_(-0.0, 0.0)",
        "RPO without its noise is PPO",
        TURN,
    ),
    Mutant(
        RPO,
        "b_actions, agent.actor_mean(b_obs),",
        "b_actions, agent.actor_mean(b_obs) + args.rpo_alpha,",
        "the rollout's probabilities have the noise too",
        TURN,
    ),
]

_NOTHING = "--learning-rate 1e-12"
LEARNING = [
    Learning("ppo", "--total-timesteps 40000", _NOTHING, 4),
    Learning(
        "ppo_continuous_action",
        "--total-timesteps 24576 --env-id InvertedPendulum-v5",
        _NOTHING,
        8,
    ),
    Learning(
        "rpo_continuous_action",
        "--total-timesteps 24576 --env-id InvertedPendulum-v5",
        _NOTHING,
        5,
        slow=True,
    ),
]
