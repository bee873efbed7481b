"""PPO in several processes: they play different games and learn as one."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, get_ident
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from cleanrl_worker.running import checkpoints
from mutants.families.ppo_pixels import MULTIGPU, PIXELS, SETTINGS, fresh, made_small
from mutants.harmless import Harmless
from mutants.reference import assert_same_gradient, flat
from mutants.subject import Check, Mutant, Subject
from mutants.trial import Ended, GroupTrial, Turn, rehearse

_GROUP: dict[str, Any] = {
    **{name: value for name, value in SETTINGS.items() if name != "num_envs"},
    "local_num_envs": 2,
    "world_size": 2,
    "num_minibatches": 1,
    "update_epochs": 1,
}
_ADAM_BETA = 0.9


def _two_processes(subject: Subject, **arguments: Any) -> list[Any]:
    """One turn of two processes that learn together, as threads that exchange real gradients."""
    module, meeting, given = made_small(subject.module), Barrier(2, timeout=10), {}
    args = module.Args(cuda=False, **{**_GROUP, **arguments})

    def all_reduce(numbers: Tensor) -> None:
        given[get_ident()] = numbers.clone()
        meeting.wait()
        numbers.copy_(torch.stack(list(given.values())).sum(dim=0))
        meeting.wait()

    torch.manual_seed(1)
    shares = [module.Share(args, rank, torch.device("cpu"), None) for rank in range(2)]
    shares[1].agent.load_state_dict(shares[0].agent.state_dict())
    with patch.object(torch.distributed, "all_reduce", all_reduce), ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda share: share.turn(args.learning_rate), shares))
    return shares


def _gradient(share: Any) -> Tensor:
    return torch.as_tensor(share.optimizer.state_dict()["mean"]) / (1 - _ADAM_BETA)


def processes_learn_as_one(subject: Subject) -> None:
    """Two processes play different games, learn from the average of both gradients, clipped after
    averaging, and so stay equal."""
    alone = []
    for rank in range(2):
        module = made_small(subject.module)
        args = module.Args(cuda=False, **{**_GROUP, "world_size": 1, "max_grad_norm": 1e9})
        torch.manual_seed(1)
        share = module.Share(args, rank, torch.device("cpu"), None)
        share.turn(args.learning_rate)
        alone.append(_gradient(share))
    assert not torch.allclose(*alone, rtol=0.1)
    average = torch.stack(alone).mean(dim=0)
    for limit in (0.05, 1e9):
        shares = _two_processes(subject, max_grad_norm=limit)
        expected = average * min(1.0, limit / float(average.norm()))
        for share in shares:
            assert_same_gradient(_gradient(share), expected)
        one, other = (flat(share.agent.state_dict()) for share in shares)
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def processes_stop_together(subject: Subject) -> None:
    """A target for the change of the policy between those of two processes ends both or none: one
    that continued alone would wait for the other for ever."""
    settings: dict[str, Any] = {"num_minibatches": 2, "update_epochs": 3}
    taken = []
    # Somewhere between the two processes' own changes they would part, if each decided alone.
    for target in (1e-9, *np.geomspace(1e-4, 1e-2, 8), 1e9):
        shares = _two_processes(subject, target_kl=float(target), **settings)
        one, other = (int(share.optimizer.state_dict()["step"]) for share in shares)
        assert one == other
        taken.append(one)
    assert (taken[0], taken[-1]) == (2, 6)


def a_process_goes_on_from_what_it_saved(subject: Subject) -> None:
    """A process that is given the state of another takes the same next turn: its network, its
    optimiser, its games and its random numbers are those that were saved."""
    module = made_small(fresh(subject))
    args = module.Args(cuda=False, **{**_GROUP, "world_size": 1})
    shares = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        shares.append(module.Share(args, seed, torch.device("cpu"), None))
    one, other = shares
    one.turn(args.learning_rate)
    other.load_state_dict(copy.deepcopy(checkpoints.to_plain(one.state_dict())))
    results = [share.turn(args.learning_rate) for share in shares]
    assert results[0] == results[1]
    for name in ("agent", "optimizer"):
        first, second = (flat(share.state_dict()[name]) for share in shares)
        torch.testing.assert_close(first, second, rtol=0, atol=0)


def all_processes_count(subject: Subject) -> None:
    """A turn takes the steps of all processes: curves and the learning rate follow them all. What
    ended in any of them is reported, and the losses are those of the first."""
    rates, losses = [], []
    returns = ((1.0,), (), (3.0, 4.0))

    class Three:
        def __init__(self, make: Any, args: Any, devices: Any, *others: Any) -> None:
            assert len(devices) == args.world_size
            self.share = make(args, 0, devices[0], None)

        def __enter__(self) -> Three:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def turn(self, lr: float) -> list[tuple[list[tuple[float, int]], dict[str, float]]]:
            rates.append(lr)
            ended = [[(total, 5) for total in totals] for totals in returns]
            return [(one, {"losses/value_loss": float(rank)}) for rank, one in enumerate(ended)]

    class Watched(GroupTrial):
        def log(self, step: int, values: dict[str, Any]) -> None:
            super().log(step, values)
            losses.append((step, values))

        def to_report(self, turn: Turn) -> list[Ended]:
            return [Ended(turn.step + self.stride, totals) for totals in returns if totals]

    module = made_small(fresh(subject))
    module.__dict__["Group"] = Three
    settings = {**_GROUP, "world_size": 3, "num_steps": 4, "learning_rate": 1.0}
    # Two processes' steps short of three turns: only whole ones are taken.
    rehearse(module, kind=Watched, **{**settings, "total_timesteps": 24 + 24 + 16})
    assert losses == [(step, {"losses/value_loss": 0.0}) for step in (24, 48)]
    assert rates == [1.0, 0.5]


GROUP: tuple[Check, ...] = (processes_learn_as_one,)

MUTANTS = [
    Mutant(
        MULTIGPU,
        "local_batch_size * args.world_size",
        "local_batch_size",
        "only the steps of one process count",
        (all_processes_count,),
    ),
    Mutant(
        MULTIGPU,
        "for episodes, _ in results:",
        "for episodes, _ in results[:1]:",
        "episodes of the other processes are not reported",
        (all_processes_count,),
    ),
    Mutant(
        MULTIGPU,
        "            getattr(self, name).load_state_dict(saved)\n",
        "            if name != 'rng':\n"
        "                getattr(self, name).load_state_dict(saved)\n",
        "a resumed process draws other random numbers",
        (a_process_goes_on_from_what_it_saved,),
    ),
    Mutant(MULTIGPU, "lr *= 1.0 - global", "lr *= 1.0 + global", "the learning rate rises", PIXELS),
    Mutant(
        MULTIGPU,
        "            average(optimizer.gradient, args.world_size)\n",
        "",
        "each process learns alone",
        GROUP,
    ),
    Mutant(MULTIGPU, "numbers /= world_size", "pass", "gradients add up", GROUP),
    Mutant(
        MULTIGPU,
        "            average(optimizer.gradient, args.world_size)\n"
        "            optimizer.clip_grad_norm_(args.max_grad_norm)\n",
        "            optimizer.clip_grad_norm_(args.max_grad_norm)\n"
        "            average(optimizer.gradient, args.world_size)\n",
        "gradients are clipped before they are averaged",
        GROUP,
    ),
    Mutant(
        MULTIGPU,
        "        self.rng = Random(args.seed + 1000 * rank)\n",
        "        rank = 0\n        self.rng = Random(args.seed)\n",
        "all processes play the same games",
        GROUP,
    ),
    Mutant(
        MULTIGPU,
        "average((logratio.exp() - 1 - logratio).mean(), args.world_size).item()",
        "(logratio.exp() - 1 - logratio).mean().item()",
        "each process decides alone when to stop, and waits for the others for ever",
        (processes_stop_together,),
    ),
]

HARMLESS = [
    Harmless(
        "args.seed + 1000 * rank",
        "1000",
        "2000",
        "each process needs a seed of its own; how far apart they are does not matter",
        files=("ppo_atari_multigpu",),
    ),
    Harmless(
        "if episodes:",
        "episodes",
        "True",
        "to report no episodes is to report nothing",
        files=("ppo_atari_multigpu",),
    ),
]
