"""PPO with an LSTM: a memory that can forget, and updates that follow it through time."""

from __future__ import annotations

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from cleanrl_worker.kit.recurrent import Recurrent
from mutants.families.ppo_pixels import LSTM, SETTINGS, assert_gains, fresh, mnih, pictures, spaces
from mutants.reference import assert_orthogonal, load
from mutants.subject import Check, Mutant, Subject
from mutants.trial import rehearse

PQN_LSTM = "cleanrl/pqn_atari_envpool_lstm.py"


def the_network_remembers_with_an_lstm(subject: Subject) -> None:
    """Action logits, values and the memory are those of the network of Mnih et al. (2015) on single
    frames with an LSTM of 128 cells on top, in plain torch; it begins with orthogonal weights, of
    gain 1 in the LSTM, and without biases."""
    agent = fresh(subject).Agent(spaces(1, 84, 5))
    trunk, lstm = mnih(1), nn.LSTM(512, 128)
    actor, critic = nn.Linear(128, 5), nn.Linear(128, 1)
    load(nn.ModuleList([trunk, lstm, actor, critic]), agent.state_dict())
    obs, state = pictures(6, 1, 84), torch.randn(2, 3, 128)
    with torch.no_grad():
        logits, values, remembered = agent(obs, torch.zeros(6), state)
        hidden, after = lstm(trunk(obs / 255).view(2, 3, 512), tuple(state.unsqueeze(1)))
        hidden = hidden.flatten(0, 1)
        torch.testing.assert_close(logits, actor(hidden), rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(values, critic(hidden).flatten(), rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(remembered, torch.cat(after), rtol=1e-3, atol=1e-5)
    assert_gains(trunk, actor, critic)
    for weight, bias in (("weight_ih_l0", "bias_ih_l0"), ("weight_hh_l0", "bias_hh_l0")):
        layer = SimpleNamespace(weight=getattr(lstm, weight), bias=getattr(lstm, bias))
        assert_orthogonal(layer, 1.0)


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
    settings = {**SETTINGS, "env_id": "mosaic/Catch-v0", "total_timesteps": 88, "num_steps": 22}
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
    turns = rehearse(module, **{**SETTINGS, "env_id": "mosaic/Catch-v0"})
    steps = [step for turn in turns for step in turn.steps]
    ended = [np.ones(2, np.bool_), *(step.terminated | step.truncated for step in steps[:-1])]
    np.testing.assert_array_equal(np.array(begins), np.array(ended, np.float32))
    assert np.array(ended[1:]).any()


MEMORY: tuple[Check, ...] = (a_rollout_is_what_its_steps_were,)
WITH_LSTM: tuple[Check, ...] = (the_network_remembers_with_an_lstm,)
WHOLE: tuple[Check, ...] = (turns_go_through_whole_rollouts,)
FORGETS: tuple[Check, ...] = (acting_forgets_where_an_episode_ended,)

MUTANTS = [
    *(
        Mutant(LSTM, old, new, why, WITH_LSTM)
        for old, new, why in (
            (
                "nn.init.orthogonal_(parameter, 1.0)",
                "nn.init.normal_(parameter, 1.0)",
                "the LSTM does not begin with orthogonal weights",
            ),
            ('if "bias" in name:', "if True:", "the LSTM begins with nothing but zeros"),
            (
                "layer_init(nn.Conv2d(32, 64, 4, stride=2))",
                "layer_init(nn.Conv2d(32, 64, 4, stride=2, padding=1))",
                "it is not the network of the paper",
            ),
        )
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
