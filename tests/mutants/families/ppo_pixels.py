"""PPO on pixels: the same algorithm as on flat observations, and a memory that can forget."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, get_ident
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from cleanrl_worker.kit.recurrent import Recurrent
from mutants.families import ppo
from mutants.learning import CATCH, Learning
from mutants.noise_envs import NoisePool
from mutants.reference import assert_same_gradient, flat
from mutants.rollouts import AsPlain, Rollout, SmallAgent, replay
from mutants.subject import Check, Mutant, Subject
from mutants.trial import GroupTrial, Trial, Turn, rehearse

ATARI = "cleanrl/ppo_atari.py"
ENVPOOL = "cleanrl/ppo_atari_envpool.py"
MULTIGPU = "cleanrl/ppo_atari_multigpu.py"
PROCGEN = "cleanrl/ppo_procgen.py"
PETTINGZOO = "cleanrl/ppo_pettingzoo_ma_atari.py"
LSTM = "cleanrl/ppo_atari_lstm.py"
PQN_LSTM = "cleanrl/pqn_atari_envpool_lstm.py"

_SETTINGS: dict[str, Any] = {
    "total_timesteps": 96,
    "num_envs": 2,
    "num_steps": 24,
    "num_minibatches": 2,
    "update_epochs": 2,
    "learning_rate": 3e-3,
    "anneal_lr": True,
    "gamma": 0.9,
    "gae_lambda": 0.8,
    # Small enough that ratios and values are clipped, and gradients too.
    "clip_coef": 0.02,
    "max_grad_norm": 0.3,
    "ent_coef": 0.05,
    "vf_coef": 0.7,
}
_GROUP: dict[str, Any] = {
    **{name: value for name, value in _SETTINGS.items() if name != "num_envs"},
    "local_num_envs": 2,
    "world_size": 2,
    "num_minibatches": 1,
    "update_epochs": 1,
}
_ADAM_BETA = 0.9
# What a file calls its games.
_GAMES = ("AtariEnvs", "EnvPoolEnvs", "MultiAgentAtari")


def made_small(module: ModuleType) -> ModuleType:
    """The file with random pictures for games and a small network: the rest is in question."""
    for name in _GAMES:
        if hasattr(module, name):
            setattr(module, name, NoisePool)
    module.Agent = SmallAgent
    return module


def _turns(subject: Subject, **arguments: Any) -> tuple[list[Turn], Any]:
    settings = {**_SETTINGS, **arguments}
    kind = Trial
    if subject.file == MULTIGPU:
        settings |= {"local_num_envs": settings.pop("num_envs"), "world_size": 1}
        kind = GroupTrial
    turns = rehearse(made_small(subject.module), kind=kind, **settings)
    return turns, subject.module.Args(**settings)


def _same(subject: Subject, **arguments: Any) -> set[str]:
    """Compare every turn with a plain one; the ways in which episodes ended."""
    turns, args = _turns(subject, **arguments)
    kinds = set()
    for turn in turns:
        agent = AsPlain(SmallAgent(NoisePool("", 1)))
        share = 1 - turn.step / args.total_timesteps if args.anneal_lr else 1.0
        expected = replay(turn, args, agent, share * args.learning_rate)
        assert_logged(turn, expected.logged)
        assert_weights(turn.after["agent"], agent.network.state_dict())
        kinds |= Rollout.of(turn).kinds
    return kinds


def assert_logged(turn: Turn, wanted: dict[str, float]) -> None:
    """What a turn logged is what it should have."""
    for name, number in wanted.items():
        np.testing.assert_allclose(turn.logged[name], number, rtol=2e-3, atol=1e-5, err_msg=name)


def assert_weights(reached: dict[str, Any], wanted: dict[str, Any]) -> None:
    """A network's numbers are what they should be."""
    for name, tensor in wanted.items():
        torch.testing.assert_close(
            torch.as_tensor(reached[name]), tensor, rtol=2e-3, atol=2e-5, msg=name
        )


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights and losses after each turn are those of a plain implementation, around a small
    network; episodes end both ways."""
    assert _same(subject) == {"terminated", "truncated"}


def options_do_what_they_say(subject: Subject) -> None:
    """Without normalised advantages, clipped values and annealing it is still that of the paper."""
    _same(subject, norm_adv=False, clip_vloss=False, anneal_lr=False, max_grad_norm=100.0)


def updates_stop_early(subject: Subject) -> None:
    """With a target for the change of the policy, no epoch begins once it is passed."""
    for target, epochs in ((1e-9, 1), (1e9, 3)):
        turns, _ = _turns(subject, target_kl=target, update_epochs=3)
        assert [len(turn.orders) for turn in turns] == [epochs] * len(turns)


def a_rollout_is_what_its_steps_were(subject: Subject) -> None:
    """A minibatch of whole rollouts gives what acting step by step gave, also where an episode
    began in the middle of it and the past was forgotten."""
    steps, envs, actions = 6, 3, 4
    spaces = {
        "num_envs": envs,
        "single_observation_space": gym.spaces.Box(0, 255, (1, 84, 84), np.uint8),
        "single_action_space": gym.spaces.Discrete(actions),
    }
    torch.manual_seed(0)
    make = subject.module.Agent if subject.file == LSTM else subject.module.QNetwork
    network = make(type("Spaces", (), spaces))
    rng = np.random.default_rng(0)
    obs = rng.integers(256, size=(steps, envs, 1, 84, 84), dtype=np.uint8)
    begins = np.zeros((steps, envs), np.float32)
    begins[0], begins[3, 1], begins[5, 2] = 1, 1, 1
    acting = Recurrent(network, subject.module.HIDDEN, envs, torch.device("cpu"))
    acting.state = torch.randn(2, envs, subject.module.HIDDEN)
    first = acting.state
    one_by_one = []
    for now, begin in zip(obs, begins, strict=True):
        acting.begins = begin
        one_by_one.append(acting(now)[0])
    with torch.no_grad():
        whole, *_ = network(
            torch.from_numpy(obs).flatten(0, 1), torch.from_numpy(begins).flatten(), first
        )
    np.testing.assert_allclose(np.concatenate(one_by_one), whole, rtol=1e-3, atol=1e-5)
    # An environment whose episode begins does not depend on what came before.
    other = Recurrent(network, subject.module.HIDDEN, envs, torch.device("cpu"))
    for now in obs[3:5]:
        outputs = other(now)[0]
    np.testing.assert_allclose(outputs[1], one_by_one[4][1], rtol=1e-3, atol=1e-5)


def turns_go_through_whole_rollouts(subject: Subject) -> None:
    """Epochs shuffle environments, not single steps, so that the memory follows time; the first
    minibatch's ratios are 1, because nothing has been learned yet."""
    # No episode ends with a rollout of 22 steps here: the next one continues it.
    settings = {**_SETTINGS, "env_id": "mosaic/Catch-v0", "total_timesteps": 88, "num_steps": 22}
    settings |= {"update_epochs": 1, "num_minibatches": 1}
    turns = rehearse(subject.module, **settings)
    assert not turns[0].steps[-1].terminated.all()
    for turn in turns:
        assert [len(order) for order in turn.orders] == [settings["num_envs"]]
        np.testing.assert_allclose(turn.logged["losses/old_approx_kl"], 0.0, atol=1e-6)
        assert turn.logged["losses/clipfrac"] == 0.0


def acting_forgets_where_an_episode_ended(subject: Subject) -> None:
    """In the step after a lost life, and in no other, the past is forgotten."""
    begins: list[np.ndarray] = []

    class Watched(Recurrent):
        def __call__(self, obs: np.ndarray) -> tuple[np.ndarray, ...]:
            begins.append(self.begins.copy())
            return super().__call__(obs)

    module = subject.module
    module.Recurrent = Watched
    turns = rehearse(module, **{**_SETTINGS, "env_id": "mosaic/Catch-v0"})
    steps = [step for turn in turns for step in turn.steps]
    ended = [np.ones(2, np.bool_), *(step.terminated | step.truncated for step in steps[:-1])]
    np.testing.assert_array_equal(np.array(begins), np.array(ended, np.float32))
    assert np.array(ended[1:]).any()


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


PIXELS: tuple[Check, ...] = (a_turn_is_that_of_the_paper,)
GROUP: tuple[Check, ...] = (processes_learn_as_one,)
MEMORY: tuple[Check, ...] = (a_rollout_is_what_its_steps_were,)
WHOLE: tuple[Check, ...] = (turns_go_through_whole_rollouts,)
FORGETS: tuple[Check, ...] = (acting_forgets_where_an_episode_ended,)

_SAME_CHECK: dict[Check, Check] = {
    ppo.a_turn_is_that_of_the_paper: a_turn_is_that_of_the_paper,
    ppo.options_do_what_they_say: options_do_what_they_say,
    ppo.updates_stop_early: updates_stop_early,
}


def shared_edits(*left_out: str) -> list[SimpleNamespace]:
    """The edits of PPO's own lines, with the checks that do for pictures what PPO's do."""
    return [
        SimpleNamespace(
            old=edit.old, new=edit.new, why=edit.why, checks=(_SAME_CHECK[edit.checks[0]],)
        )
        for edit in ppo.SHARED
        if edit.checks[0] in _SAME_CHECK and edit.why not in left_out
    ]


MUTANTS = [
    *(
        Mutant(file, edit.old, edit.new, edit.why, edit.checks)
        for file in (ATARI, ENVPOOL, PROCGEN, PETTINGZOO)
        for edit in shared_edits()
    ),
    *(
        Mutant(MULTIGPU, edit.old, edit.new, edit.why, edit.checks)
        for edit in shared_edits("the learning rate rises")
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
    *(
        Mutant(file, old, new, why, MEMORY)
        for file in (LSTM, PQN_LSTM)
        for old, new, why in (
            ("(1.0 - begin) * memory,", "memory,", "the hidden state outlives an episode"),
            ("(1.0 - begin) * cell", "cell", "the cell outlives an episode"),
            ("(1.0 - begin) * memory,", "begin * memory,", "memory begins where it should end"),
            ("memory, cell = state.unsqueeze(1)", "cell, memory = state.unsqueeze(1)", "swapped"),
            (
                "begins.view(-1, 1, state.shape[1], 1)",
                "begins.view(state.shape[1], 1, -1, 1).transpose(0, 2)",
                "ends of one environment reset another",
            ),
            (
                "self.network(obs).view(-1, state.shape[1], 512)",
                "self.network(obs).view(state.shape[1], -1, 512).transpose(0, 1)",
                "environments and steps are confused",
            ),
        )
    ),
    Mutant(
        LSTM,
        "first_state = act.state\n",
        "first_state = torch.zeros_like(act.state)\n",
        "a rollout forgets the one before",
        WHOLE,
    ),
    Mutant(LSTM, "            act.reset(ends[t])\n", "", "the memory is not reset", FORGETS),
    Mutant(
        LSTM,
        "obs[t], begins[t] = next_obs, act.begins",
        "obs[t], begins[t] = next_obs, 0 * act.begins",
        "updates remember past the end of an episode",
        WHOLE,
    ),
]

# One level of Procgen, which is learned by heart, in rollouts that fit it.
ONE_LEVEL = (
    "--env-id starpilot --num-levels 1 --total-timesteps 16384 --num-envs 16 --num-steps 64 "
    "--num-minibatches 4"
)
_UNTRAINED = "--learning-rate 1e-12 --total-timesteps 1024"
_CATCHING = f"{CATCH} --total-timesteps 40960 --learning-rate 1e-3"
# Our own game is not in EnvPool. Of those that are, this one is learned soonest: run left.
_RUNNING = "--env-id RoadRunner-v5 --total-timesteps 65536 --learning-rate 1e-3"
LEARNING = [
    Learning("ppo_atari", _CATCHING, _UNTRAINED, 10, slow=True),
    Learning("ppo_atari_lstm", _CATCHING, _UNTRAINED, 10, slow=True),
    Learning("ppo_atari_multigpu", f"{_CATCHING} --local-num-envs 4", _UNTRAINED, 10, slow=True),
    # Samples of its policy: the best action of an untrained one stands still, or runs by chance.
    Learning("ppo_atari_envpool", _RUNNING, _UNTRAINED, 5, deterministic=False, slow=True),
    Learning("ppo_atari_envpool_xla_jax", _RUNNING, _UNTRAINED, 5, deterministic=False, slow=True),
    # Its first seed meets so few rewards at the start that it learns to stand still.
    Learning(
        "ppo_atari_envpool_xla_jax_scan",
        f"{_RUNNING} --seed 2",
        _UNTRAINED,
        5,
        deterministic=False,
        slow=True,
    ),
    # Each player's own score: in a game where one wins what the other loses, the mean says nothing.
    Learning(
        "ppo_pettingzoo_ma_atari",
        "--env-id mosaic/Doubles-v0 --total-timesteps 40960 --num-envs 8 --learning-rate 1e-3",
        _UNTRAINED,
        5,
        slow=True,
    ),
    Learning("ppo_procgen", ONE_LEVEL, _UNTRAINED, 3, episodes=20, deterministic=False, slow=True),
]
