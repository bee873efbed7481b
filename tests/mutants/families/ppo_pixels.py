"""PPO on pixels: the same algorithm as on flat observations, and a memory that can forget."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from cleanrl_worker.kit.recurrent import Recurrent
from mutants.families.ppo import SHARED
from mutants.families.ppo import TURN as OF_FLAT
from mutants.learning import CATCH, Learning
from mutants.rollouts import AsPlain, Rollout, replay
from mutants.subject import Check, Mutant, Subject
from mutants.trial import rehearse

ATARI = "cleanrl/ppo_atari.py"
ENVPOOL = "cleanrl/ppo_atari_envpool.py"
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
    "learning_rate": 1e-3,
    "gamma": 0.9,
    "gae_lambda": 0.8,
    "clip_coef": 0.01,
    "max_grad_norm": 0.3,
    # A new policy is nearly even: its entropy counts only with a large weight.
    "ent_coef": 20.0,
}
_ENVIRONMENTS = {
    ATARI: "mosaic/Catch-v0",
    ENVPOOL: "Breakout-v5",
    PROCGEN: "starpilot",
    PETTINGZOO: "pong_v3",
}


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights and losses after each turn are those of a plain implementation around the file's own
    convolutions."""
    settings = {**_SETTINGS, "env_id": _ENVIRONMENTS[subject.file]}
    turns = rehearse(subject.module, **settings)
    args = subject.module.Args(**settings)
    for turn in turns:
        torch.manual_seed(0)
        envs = type("Spaces", (), _spaces(turn.steps[0].obs, turn.before["agent"]))
        agent = AsPlain(subject.module.Agent(envs))
        share = 1 - turn.step / args.total_timesteps if args.anneal_lr else 1.0
        expected = replay(turn, args, agent, share * args.learning_rate)
        for name, wanted in expected.logged.items():
            np.testing.assert_allclose(
                turn.logged[name], wanted, rtol=5e-3, atol=1e-4, err_msg=name
            )
        for name, wanted in agent.network.state_dict().items():
            reached = torch.as_tensor(turn.after["agent"][name])
            torch.testing.assert_close(reached, wanted, rtol=1e-2, atol=2e-4, msg=name)
    if subject.file in (ATARI, ENVPOOL):
        assert any(Rollout.of(turn).terminated.any() for turn in turns), "no life was lost"


def _spaces(obs: np.ndarray, agent: dict[str, Any]) -> dict[str, Any]:
    return {
        "num_envs": len(obs),
        "single_observation_space": gym.spaces.Box(0, 255, obs.shape[1:], np.uint8),
        "single_action_space": gym.spaces.Discrete(len(agent["actor.bias"])),
    }


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


PIXELS: tuple[Check, ...] = (a_turn_is_that_of_the_paper,)
MEMORY: tuple[Check, ...] = (a_rollout_is_what_its_steps_were,)
WHOLE: tuple[Check, ...] = (turns_go_through_whole_rollouts,)
FORGETS: tuple[Check, ...] = (acting_forgets_where_an_episode_ended,)

# What needs a truncated episode is shown on flat observations, where one can be had at once.
_NOT_HERE = {"truncation counts as an end"}
# In the first steps of Breakout nothing is earned that could flow anywhere.
_FLOW = "advantages flow from one episode into the one before"
# These lose nothing so early; their learning rate does not fall by default.
_ENDS = {_FLOW, "termination is ignored"}
_LEFT_OUT = {
    ENVPOOL: {_FLOW},
    PROCGEN: {*_ENDS, "the learning rate rises"},
    PETTINGZOO: _ENDS,
}


def _edits(file: str) -> list[SimpleNamespace]:
    left_out = _NOT_HERE | _LEFT_OUT.get(file, set())
    return [edit for edit in SHARED if edit.checks == OF_FLAT and edit.why not in left_out]


MUTANTS = [
    *(
        Mutant(file, edit.old, edit.new, edit.why, PIXELS, slow=file != ATARI)
        for file in (ATARI, ENVPOOL, PROCGEN, PETTINGZOO)
        for edit in _edits(file)
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

LEARNING = [
    Learning(
        "ppo_atari",
        f"{CATCH} --total-timesteps 40960 --learning-rate 1e-3",
        "--learning-rate 1e-12 --total-timesteps 1024",
        10,
        slow=True,
    ),
]
