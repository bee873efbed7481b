"""PQN: what its returns, its loss and its exploration must be."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mutants.learning import Learning
from mutants.noise_envs import DISCRETE, NoisePool
from mutants.rollouts import Rollout, SmallQ, load_state, plain_adam, q_lambda_returns
from mutants.subject import Mutant, Subject
from mutants.trial import State, Turn, rehearse

PQN = "cleanrl/pqn.py"
ENVPOOL = "cleanrl/pqn_atari_envpool.py"
_SETTINGS: dict[str, Any] = {
    "env_id": DISCRETE,
    "total_timesteps": 192,
    "num_envs": 3,
    "num_steps": 16,
    "num_minibatches": 3,
    "update_epochs": 2,
    "learning_rate": 3e-3,
    "gamma": 0.9,
    "q_lambda": 0.6,
    "max_grad_norm": 0.3,
}


class _PlainQ(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(3, 120),
            nn.LayerNorm(120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.LayerNorm(84),
            nn.ReLU(),
            nn.Linear(84, 3),
        )


def _plain(subject: Subject, state: State) -> nn.Module:
    plain = _PlainQ() if subject.file == PQN else SmallQ(NoisePool("", 1))
    return load_state(plain, state)


def _best(q: nn.Module, obs: Tensor) -> Tensor:
    values: Tensor = q.network(obs.flatten(0, 1))
    return values.amax(-1).view(obs.shape[:2])


def _turns(subject: Subject, **arguments: Any) -> tuple[list[Turn], Any]:
    settings = {**_SETTINGS, **arguments}
    if subject.file == ENVPOOL:
        subject.module.EnvPoolEnvs = NoisePool
        subject.module.QNetwork = SmallQ
    return rehearse(subject.module, **settings), subject.module.Args(**settings)


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights and losses after each turn are those of a plain implementation: every Q(lambda)
    return summed by its definition, torch's own RAdam and clipping. Episodes end both ways."""
    turns, args = _turns(subject)
    kinds = set()
    for turn in turns:
        q = _plain(subject, turn.before["q_network"])
        rollout = Rollout.of(turn)
        kinds |= rollout.kinds
        with torch.no_grad():
            returns = q_lambda_returns(
                rollout, partial(_best, q), args.gamma, args.q_lambda
            ).flatten()
        lr = (1 - turn.step / args.total_timesteps) * args.learning_rate
        optimizer = plain_adam(torch.optim.RAdam, q, turn.before["optimizer"], lr, 1e-8)
        obs, actions = rollout.obs.flatten(0, 1), rollout.actions.flatten()
        size = len(obs) // args.num_minibatches
        assert len(turn.orders) == args.update_epochs
        for order in turn.orders:
            for start in range(0, len(obs), size):
                mb = torch.from_numpy(order[start : start + size])
                taken = q.network(obs[mb])[torch.arange(size), actions[mb]]
                loss = ((taken - returns[mb]) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(q.parameters(), args.max_grad_norm)
                optimizer.step()
        np.testing.assert_allclose(turn.logged["losses/td_loss"], loss.item(), rtol=2e-3)
        np.testing.assert_allclose(turn.logged["losses/q_values"], taken.mean().item(), atol=1e-3)
        for name, wanted in q.state_dict().items():
            reached = torch.as_tensor(turn.after["q_network"][name])
            torch.testing.assert_close(reached, wanted, rtol=2e-3, atol=2e-5, msg=name)
    assert kinds == {"terminated", "truncated"}


def exploration_falls_from_random_to_greedy(subject: Subject) -> None:
    """Actions are random at first; later the greedy one is taken, except with probability end-e."""
    turns, _ = _turns(
        subject,
        total_timesteps=1800,
        num_steps=100,
        exploration_fraction=0.2,
        end_e=0.1,
        learning_rate=1e-12,
    )
    q = _plain(subject, turns[0].before["q_network"])
    greedy = []
    for turn in turns:
        rollout = Rollout.of(turn)
        best = q.network(rollout.obs.flatten(0, 1)).argmax(-1)
        greedy.append((best == rollout.actions.flatten()).float().mean().item())
    assert greedy[0] < 0.75
    assert 0.88 < np.mean(greedy[2:]) < 0.98


TURN = (a_turn_is_that_of_the_paper,)
EXPLORES = (exploration_falls_from_random_to_greedy,)

_LOOK_AHEAD = "args.q_lambda * following + (1 - args.q_lambda) * values[t + 1]"
_EDITS = (
    ("args.gamma * goes_on[t] * following", "args.gamma * following", "ends ignored", TURN),
    (
        "rewards[t] += args.gamma * cut_off",
        "rewards[t] += 0 * cut_off",
        "truncation counts as an end",
        TURN,
    ),
    (_LOOK_AHEAD, "values[t + 1]", "lambda is ignored: one-step returns", TURN),
    (
        _LOOK_AHEAD,
        "args.q_lambda * following + (1 - args.q_lambda) * values[t]",
        "the value of the state itself, not of the next one",
        TURN,
    ),
    ("values[t] = q.max(axis=1)", "values[t] = q.mean(axis=1)", "no maximum", TURN),
    (
        "optimizer.clip_grad_norm_(args.max_grad_norm)\n",
        "pass\n",
        "the gradient is not clipped",
        TURN,
    ),
    ("(1.0 - global_step / (", "(1.0 + global_step / (", "the rate rises", TURN),
    (".gather(1, actions)", ".gather(1, 0 * actions)", "the value of another action learns", TURN),
    ("< epsilon", "> epsilon", "exploration rises, not falls", EXPLORES),
)

MUTANTS = [
    *(Mutant(file, *edit) for file in (PQN, ENVPOOL) for edit in _EDITS),
    Mutant(PQN, "nn.LayerNorm(120)", "nn.Identity()", "no normalisation of layers", TURN),
]

LEARNING = [
    Learning(
        "pqn",
        "--total-timesteps 60000 --learning-rate 1e-3 --exploration-fraction 0.3 --seed 2",
        "--learning-rate 1e-12",
        3,
    ),
    *(
        Learning(
            name,
            f"--env-id RoadRunner-v5 --total-timesteps {steps} --num-steps 32 "
            "--learning-rate 5e-4 --exploration-fraction 0.3 --seed 2",
            "--learning-rate 1e-12 --total-timesteps 1024",
            3,
            # This seed's untrained policy stands still, others run by chance. Random play gets 10.
            least=500,
            slow=True,
        )
        for name, steps in (("pqn_atari_envpool", 98304), ("pqn_atari_envpool_lstm", 65536))
    ),
]
