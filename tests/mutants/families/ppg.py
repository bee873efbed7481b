"""PPG: its policy phase is PPO's, its auxiliary phase teaches the trunk and holds the policy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, kl_divergence

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.sampling import Random
from mutants.families.ppo_pixels import (
    ONE_LEVEL,
    assert_logged,
    assert_weights,
    made_small,
    shared_edits,
)
from mutants.harmless import Harmless
from mutants.learning import Learning
from mutants.noise_envs import NoisePool
from mutants.reference import impala_trunk, load
from mutants.rollouts import AsPlain, Rollout, SmallAgent, games_made, replay
from mutants.subject import Check, Mutant, Subject
from mutants.trial import Turn, rehearse

PPG = "cleanrl/ppg_procgen.py"
_SETTINGS: dict[str, Any] = {
    "total_timesteps": 96,
    "num_envs": 2,
    "num_steps": 24,
    "num_minibatches": 2,
    "e_policy": 2,
    "v_value": 2,
    "learning_rate": 3e-3,
    "anneal_lr": True,
    "gamma": 0.9,
    "gae_lambda": 0.8,
    "clip_coef": 0.02,
    "max_grad_norm": 0.3,
    "ent_coef": 0.05,
    "vf_coef": 0.7,
    "num_aux_rollouts": 2,
    "e_auxiliary": 2,
}
# At first the policy has not moved: its gradient is a rounding error, which Adam must not enlarge.
_EPS = 1e-3


class _ThreeHeads(SmallAgent):
    """A small agent with the second value head; only its gradient reaches the trunk."""

    def __init__(self, envs: Any) -> None:
        super().__init__(envs)
        self.aux_critic = nn.Linear(16, 1)

    def forward(self, obs: Tensor) -> tuple[Tensor, ...]:
        hidden = self.network(obs)
        value = self.critic(hidden.detach())
        return self.actor(hidden), value.flatten(), self.aux_critic(hidden).flatten()


def _fresh(subject: Subject) -> Any:
    """The file with its real network, whatever other checks have put in its place."""
    return Subject(subject.file, subject.source).module


def _turns(subject: Subject, **arguments: Any) -> tuple[list[Turn], Any]:
    settings = {**_SETTINGS, **arguments}
    module: Any = made_small(_fresh(subject))
    module.Agent = _ThreeHeads
    return rehearse(module, **settings), module.Args(**settings)


def _same(subject: Subject, **arguments: Any) -> set[str]:
    # So many iterations to a phase that the auxiliary one does not come.
    turns, args = _turns(subject, n_iteration=100, **arguments)
    kinds = set()
    for turn in turns:
        agent = AsPlain(_ThreeHeads(NoisePool("", 1)))
        share = 1 - turn.step / args.total_timesteps if args.anneal_lr else 1.0
        fields = {**vars(args), "norm_adv": not args.adv_norm_fullbatch}
        expected = replay(
            turn,
            SimpleNamespace(**fields),
            agent,
            share * args.learning_rate,
            eps=1e-8,
            whole=args.adv_norm_fullbatch,
        )
        assert_logged(turn, expected.logged)
        assert_weights(turn.after["agent"], agent.network.state_dict())
        kinds |= Rollout.of(turn).kinds
    return kinds


def the_policy_phase_is_that_of_ppo(subject: Subject) -> None:
    """Weights and losses after each turn are those of a plain PPO whose advantages are normalised
    over the whole batch; episodes end both ways."""
    assert _same(subject) == {"terminated", "truncated"}


def options_do_what_they_say(subject: Subject) -> None:
    """Advantages normalised in each minibatch, values not clipped, no annealing: still PPO."""
    _same(subject, adv_norm_fullbatch=False, clip_vloss=False, anneal_lr=False, max_grad_norm=100.0)


def updates_stop_early(subject: Subject) -> None:
    """With a target for the change of the policy, no epoch begins once it is passed."""
    for target, epochs in ((1e-9, 1), (1e9, 2)):
        turns, _ = _turns(subject, target_kl=target, n_iteration=100)
        assert [len(turn.orders) for turn in turns] == [epochs] * len(turns)


def the_auxiliary_phase_is_that_of_the_paper(subject: Subject) -> None:
    """Both values approach the returns while the divergence from the policy as it was before the
    phase is held down; gradients of two minibatches add up to their mean, which is clipped."""
    for limit in (0.3, 1e9):
        _same_phase(subject, limit)


def _same_phase(subject: Subject, max_grad_norm: float) -> None:
    module, envs = subject.module, NoisePool("", 2)
    settings = {**_SETTINGS, "n_iteration": 2, "n_aux_grad_accum": 2, "beta_clone": 3.0}
    settings["max_grad_norm"] = max_grad_norm
    # Large steps: for a policy that hardly moves both directions of the divergence are the same.
    args = module.Args(**{**settings, "learning_rate": 0.1})
    torch.manual_seed(0)
    agent, plain = _ThreeHeads(envs), _ThreeHeads(envs)
    plain.load_state_dict(agent.state_dict())
    memory, rng = module.AuxiliaryMemory(args, envs), np.random.default_rng(0)
    seen, earned = [], []
    for _ in range(args.n_iteration):
        shape = (args.num_steps, args.num_envs)
        obs = rng.integers(256, size=(*shape, *NoisePool.shape()), dtype=np.uint8)
        returns = rng.normal(size=shape).astype(np.float32)
        memory.add(obs, returns)
        for env in range(args.num_envs):
            seen.append(torch.from_numpy(obs[:, env]))
            earned.append(torch.from_numpy(returns[:, env]))
    random, orders = Random(3), []
    permutation = random.permutation

    def watched(rows: int) -> np.ndarray:
        orders.append(permutation(rows))
        return orders[-1]

    random.permutation = watched  # type: ignore[method-assign]
    run = SimpleNamespace(rng=random, device=torch.device("cpu"))
    optimizer = Adam(agent.parameters(), args.learning_rate, eps=_EPS)
    # The policy phase leaves its last gradient behind.
    agent(seen[0])[1].sum().backward()
    logged = module.learn_features(args, run, agent, optimizer, memory)
    expected = _auxiliary_phase(plain, args, torch.stack(seen), torch.stack(earned), orders)
    assert_weights(agent.state_dict(), plain.state_dict())
    for name, wanted in expected.items():
        np.testing.assert_allclose(logged[name], wanted, rtol=1e-3, atol=1e-6, err_msg=name)


def _auxiliary_phase(
    agent: nn.Module, args: Any, obs: Tensor, returns: Tensor, orders: list[np.ndarray]
) -> dict[str, float]:
    """The losses of the last minibatch, after learning from each environment's rollouts."""
    adam = torch.optim.Adam(agent.parameters(), args.learning_rate, eps=_EPS)
    with torch.no_grad():
        old = torch.stack([agent(rollout)[0] for rollout in obs])
    batches = [part for order in orders for part in order.reshape(-1, args.num_aux_rollouts)]
    assert len(batches) == args.e_auxiliary * len(obs) // args.num_aux_rollouts
    for first, second in zip(batches[::2], batches[1::2], strict=True):
        total = torch.zeros(())
        for which in (first, second):
            logits, value, auxiliary = agent(obs[which].flatten(0, 1))
            before = Categorical(logits=old[which].flatten(0, 1))
            wanted = returns[which].flatten()
            losses = {
                "kl_loss": kl_divergence(before, Categorical(logits=logits)).mean(),
                "real_value_loss": ((value - wanted) ** 2).mean() / 2,
                "aux_value_loss": ((auxiliary - wanted) ** 2).mean() / 2,
            }
            values = losses["real_value_loss"] + losses["aux_value_loss"]
            total = total + (values + args.beta_clone * losses["kl_loss"]) / 2
        adam.zero_grad()
        total.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
        adam.step()
    return {f"losses/aux/{name}": loss.item() for name, loss in losses.items()}


def phases_take_turns(subject: Subject) -> None:
    """After every second policy iteration the auxiliary phase goes through what both collected."""
    turns, args = _turns(subject, n_iteration=2, total_timesteps=192)
    for number, turn in enumerate(turns):
        lengths = [args.num_envs * args.num_steps] * args.e_policy
        if number % 2:
            lengths += [2 * args.num_envs] * args.e_auxiliary
        assert [len(order) for order in turn.orders] == lengths


def _real_agent(subject: Subject) -> nn.Module:
    torch.manual_seed(0)
    envs = SimpleNamespace(
        single_observation_space=gym.spaces.Box(0, 255, (3, 64, 64), np.uint8),
        single_action_space=gym.spaces.Discrete(5),
    )
    agent: nn.Module = _fresh(subject).Agent(envs)
    return agent


def only_the_auxiliary_value_reaches_the_trunk(subject: Subject) -> None:
    """The value's own gradient stops at its head; the auxiliary value's goes all the way."""
    agent = _real_agent(subject)
    obs = torch.randint(256, (1, 3, 64, 64), dtype=torch.uint8)
    for output, reaches in ((1, False), (2, True)):
        agent.zero_grad()
        agent(obs)[output].sum().backward()
        trunk = [p for name, p in agent.named_parameters() if name.startswith("network")]
        assert any(p.grad is not None for p in trunk) == reaches


def the_network_is_that_of_the_paper(subject: Subject) -> None:
    """With the same weights the same outputs as a plain network gives: IMPALA's deep trunk and
    three heads."""
    agent = _real_agent(subject)
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.add_(0.03 * torch.randn_like(parameter))
    trunk, heads = impala_trunk(3, 64), [nn.Linear(256, size) for size in (5, 1, 1)]
    load(nn.ModuleList([trunk, *heads]), dict(agent.state_dict()))
    obs = torch.randint(256, (2, 3, 64, 64), dtype=torch.uint8)
    hidden = trunk(obs / 255)
    logits, *values = (head(hidden) for head in heads)
    expected = (logits, *(value[:, 0] for value in values))
    for reached, wanted in zip(agent(obs), expected, strict=True):
        torch.testing.assert_close(reached, wanted, rtol=1e-3, atol=1e-4)


def the_network_begins_as_it_should(subject: Subject) -> None:
    """The weights to each unit have a norm of 1 at the entries, so much less in the residual blocks
    that six of their changes have about that norm, 1.4 below the heads and 0.1 in them; biases are
    zero."""
    layers = [
        layer
        for layer in _real_agent(subject).modules()
        if isinstance(layer, nn.Conv2d | nn.Linear)
    ]
    inside = 1 / (3 * 2) ** 0.25
    norms = [1.0, *[inside] * 4] * 3 + [1.4, 0.1, 0.1, 0.1]
    for layer, norm in zip(layers, norms, strict=True):
        reached = layer.weight.detach().flatten(1).square().sum(dim=1).sqrt()
        torch.testing.assert_close(reached, torch.full_like(reached, norm), rtol=1e-4, atol=0)
        assert not torch.as_tensor(layer.bias).any()


def a_phase_that_memory_cannot_hold_is_refused(subject: Subject) -> None:
    """Before a run, not in the middle of it, with the name of the option that is too large."""
    module = _fresh(subject)
    args = module.Args(**{**_SETTINGS, "n_iteration": 10**12})
    with pytest.raises(UsageError, match="--n-iteration"):
        module.AuxiliaryMemory(args, NoisePool("", 2))


def games_are_those_that_were_asked_for(subject: Subject) -> None:
    """As many as --num-envs of the levels that were named; the run first looks whether it can play
    them."""
    levels = {"distribution_mode": "hard", "num_levels": 7, "start_level": 3}
    asked = games_made(_fresh(subject), "EnvPoolEnvs", env_id="coinrun", num_envs=4, **levels)
    assert asked == {"env_id": "coinrun", "num_envs": 4, "video_dir": None, **levels}


PHASE: tuple[Check, ...] = (the_auxiliary_phase_is_that_of_the_paper,)
TRUNK: tuple[Check, ...] = (only_the_auxiliary_value_reaches_the_trunk,)
TURNS: tuple[Check, ...] = (phases_take_turns,)
_SAME_CHECK: dict[str, Check] = {
    "a_turn_is_that_of_the_paper": the_policy_phase_is_that_of_ppo,
    "options_do_what_they_say": options_do_what_they_say,
    "updates_stop_early": updates_stop_early,
}
# Written differently in this file, below.
_OTHERWISE = (
    "--no-norm-adv is ignored",
    "advantages are not centred",
    "the gradient is not clipped",
)
_CLIP = "optimizer.clip_grad_norm_(args.max_grad_norm)\n"
MUTANTS = [
    *(
        Mutant(PPG, edit.old, edit.new, edit.why, (_SAME_CHECK[edit.checks[0].__name__],))
        for edit in shared_edits(*_OTHERWISE)
    ),
    Mutant(
        PPG,
        "        if args.adv_norm_fullbatch:\n            advantages = ",
        "        if False:\n            advantages = ",
        "advantages are not normalised over the batch",
        (the_policy_phase_is_that_of_ppo,),
    ),
    Mutant(
        PPG,
        "if not args.adv_norm_fullbatch:",
        "if False:",
        "--no-adv-norm-fullbatch normalises nothing",
        (options_do_what_they_say,),
    ),
    Mutant(
        PPG,
        f"loss.backward()\n            {_CLIP}",
        "loss.backward()\n",
        "the gradient is not clipped",
        (the_policy_phase_is_that_of_ppo,),
    ),
    Mutant(
        PPG,
        f"                {_CLIP}                optimizer.step()",
        "                optimizer.step()",
        "the auxiliary gradient is not clipped",
        PHASE,
    ),
    Mutant(
        PPG,
        "self.critic(hidden.detach())",
        "self.critic(hidden)",
        "the value disturbs the policy's features",
        TRUNK,
    ),
    Mutant(
        PPG,
        "aux_value_loss + args.beta_clone * kl_loss",
        "aux_value_loss",
        "nothing holds the policy in the auxiliary phase",
        PHASE,
    ),
    Mutant(
        PPG,
        "(m_log_probs.exp() * (m_log_probs - logits.log_softmax(-1)))",
        "(logits.softmax(-1) * (logits.log_softmax(-1) - m_log_probs))",
        "the divergence is taken the wrong way round",
        PHASE,
    ),
    Mutant(PPG, "((joint_loss + real_value_loss)", "(joint_loss", "the value rests", PHASE),
    Mutant(
        PPG,
        "aux_value_loss = 0.5 * (aux_value - m_returns)",
        "aux_value_loss = 0.5 * (value - m_returns)",
        "the trunk learns nothing of the value",
        PHASE,
    ),
    Mutant(
        PPG,
        "if accumulated % args.n_aux_grad_accum == 0:",
        "if True:",
        "gradients do not add up over minibatches",
        PHASE,
    ),
    Mutant(
        PPG,
        "self.returns[which] = returns.T",
        "self.returns[which] = returns.T[::-1]",
        "returns of one environment go with the pictures of another",
        PHASE,
    ),
    Mutant(PPG, "            memory.filled = 0\n", "", "the memory is never emptied", TURNS),
    Mutant(
        PPG,
        "if memory.filled == rollouts_in_phase:",
        "if memory.filled >= args.num_envs:",
        "the auxiliary phase comes too early",
        TURNS,
    ),
]
MUTANTS += [
    Mutant(
        PPG,
        "    optimizer.zero_grad()\n    accumulated = 0",
        "    accumulated = 0",
        "the policy phase's last gradient disturbs the auxiliary phase",
        PHASE,
    ),
    Mutant(
        PPG,
        "((joint_loss + real_value_loss) / args.n_aux_grad_accum)",
        "(joint_loss + real_value_loss)",
        "with more minibatches to a gradient it grows",
        PHASE,
    ),
    Mutant(
        PPG,
        "nn.MaxPool2d(3, stride=2, padding=1)",
        "nn.AvgPool2d(3, stride=2, padding=1)",
        "the mean is pooled, not the maximum",
        (the_network_is_that_of_the_paper,),
    ),
    Mutant(
        PPG,
        "math.sqrt(1 / math.sqrt(3) / math.sqrt(2))",
        "1.0",
        "residual blocks change too much at the start",
        (the_network_begins_as_it_should,),
    ),
    Mutant(
        PPG,
        '        refuse_if_larger_than_memory(args.n_iteration, layout, "--n-iteration")\n',
        "",
        "a phase too large for the machine's memory is not refused",
        (a_phase_that_memory_cannot_hold_is_refused,),
    ),
    Mutant(
        PPG,
        "num_levels=args.num_levels",
        "num_levels=0",
        "--num-levels is ignored",
        (games_are_those_that_were_asked_for,),
    ),
]
HARMLESS = [
    Harmless(
        "        if args.adv_norm_fullbatch:",
        "args.adv_norm_fullbatch",
        "True",
        "without it each minibatch is normalised, which undoes any scale and shift before",
        ("ppg_procgen",),
    ),
    *(
        Harmless(
            "(advantages.std() + 1e-8)",
            old,
            "",
            "it guards against a division by zero; the spread of a batch is a million times that",
            ("ppg_procgen",),
        )
        for old in ("advantages.std() + 1e-8", "1e-8")
    ),
]

LEARNING = [
    Learning(
        "ppg_procgen",
        f"{ONE_LEVEL} --n-iteration 4",
        "--learning-rate 1e-12 --total-timesteps 1024 --n-iteration 1",
        3,
        episodes=20,
        deterministic=False,
        slow=True,
    ),
]
