"""PPO with Transformer-XL: what its memory must hold, and what it must forget."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution

from cleanrl_worker.kit.envs import Envs
from mutants.families.ppo_pixels import assert_logged, assert_weights
from mutants.harmless import Harmless
from mutants.learning import Learning
from mutants.noise_envs import DISCRETE
from mutants.reference import assert_orthogonal
from mutants.rollouts import AsPlain, Rollout, load_state
from mutants.rollouts import replay as ppo
from mutants.subject import Check, Mutant, Subject
from mutants.trial import Turn, rehearse

TRXL = "cleanrl/ppo_trxl.py"
_LENGTH, _LAYERS, _DIM = 5, 2, 8
_SETTINGS: dict[str, Any] = {
    "env_id": DISCRETE,
    "total_timesteps": 144,
    "num_envs": 2,
    "num_steps": 24,
    "num_minibatches": 2,
    "update_epochs": 2,
    "learning_rate": 3e-3,
    "gamma": 0.9,
    "gae_lambda": 0.8,
    # Small enough that ratios and values are clipped, and gradients too.
    "clip_coef": 0.02,
    "max_grad_norm": 0.3,
    "ent_coef": 0.05,
    "vf_coef": 0.7,
    # Shorter than the longest episode.
    "trxl_memory_length": 3,
    "trxl_num_layers": _LAYERS,
    "trxl_num_heads": 2,
    "trxl_dim": _DIM,
}


def _parts(subject: Subject, num_envs: int = 2) -> tuple[torch.nn.Module, object]:
    args = subject.module.Args(
        trxl_memory_length=_LENGTH, trxl_num_layers=_LAYERS, trxl_dim=_DIM, trxl_num_heads=2
    )
    envs = Envs("mosaic/Recall-v0", num_envs)
    torch.manual_seed(0)
    agent = subject.module.Agent(envs, args)
    for parameter in agent.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    envs.close()
    return agent, subject.module.Memory(agent, args, num_envs, torch.device("cpu"))


def _observations(steps: int, num_envs: int = 2) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(steps, num_envs, 3)).astype(np.float32)


def memory_is_the_episode_so_far(subject: Subject) -> None:
    """Each step is computed from the last five, or as many as there were: the same as attending,
    layer by layer, to a list of what entered that layer before, with the age of each step added."""
    agent, memory = _parts(subject)
    past: list[list[torch.Tensor]] = []
    for obs in _observations(9):
        logits, values = memory.act(obs)
        with torch.no_grad():
            now, entered = torch.relu(agent.encoder(torch.from_numpy(obs))), []
            for number, layer in enumerate(agent.layers):
                entered.append(now)
                items = [
                    items[number] + _age(len(past) - index)
                    for index, items in enumerate(
                        past[-_LENGTH:], start=max(len(past) - _LENGTH, 0)
                    )
                ]
                now = _attend(layer, now, items)
            past.append(entered)
            now = torch.relu(agent.hidden(now))
            np.testing.assert_allclose(logits, agent.actor(now), rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(values, agent.critic(now)[:, 0], rtol=1e-3, atol=1e-4)


def _age(steps: int) -> torch.Tensor:
    frequencies = [10000.0 ** (-2 * i / _DIM) for i in range(_DIM // 2)]
    sines = [math.sin(steps * f) for f in frequencies]
    return torch.tensor(sines + [math.cos(steps * f) for f in frequencies])


def _attend(layer: torch.nn.Module, now: torch.Tensor, items: list[torch.Tensor]) -> torch.Tensor:
    """One layer of attention written out, head by head."""
    query_input = layer.norm_query(now)
    keys_input = torch.stack([*(layer.norm_past(item) for item in items), query_input], dim=1)
    weight, bias = layer.attention.in_proj_weight, layer.attention.in_proj_bias
    query, key, value = (
        rows @ w.T + b
        for rows, w, b in zip(
            (query_input, keys_input, keys_input), weight.chunk(3), bias.chunk(3), strict=True
        )
    )
    heads, size = 2, _DIM // 2
    parts = []
    for head in range(heads):
        where = slice(head * size, (head + 1) * size)
        scores = (query[:, None, where] * key[:, :, where]).sum(-1) / math.sqrt(size)
        parts.append((scores.softmax(-1)[:, :, None] * value[:, :, where]).sum(1))
    now = now + layer.attention.out_proj(torch.cat(parts, dim=1))
    return now + torch.relu(layer.projection(layer.norm_out(now)))


def a_new_episode_remembers_nothing(subject: Subject) -> None:
    """Where an episode ended, the next one is seen as by an agent that never saw another; elsewhere
    nothing is forgotten."""
    _, memory = _parts(subject)
    _, fresh = _parts(subject)
    _, whole = _parts(subject)
    observations = _observations(8)
    for obs in observations[:4]:
        memory.act(obs)
        whole.act(obs)
    memory.reset(np.array([True, False]))
    for obs in observations[4:]:
        logits, _ = memory.act(obs)
        np.testing.assert_allclose(logits[0], fresh.act(obs)[0][0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(logits[1], whole.act(obs)[0][1], rtol=1e-4, atol=1e-5)


def a_look_ahead_is_not_remembered(subject: Subject) -> None:
    """The value of a last state does not become part of the memory."""
    _, memory = _parts(subject)
    _, twin = _parts(subject)
    first, other, second = _observations(3)
    memory.act(first)
    twin.act(first)
    memory.act(other, remember=False)
    np.testing.assert_array_equal(memory.act(second)[0], twin.act(second)[0])


def the_past_gets_no_gradient(subject: Subject) -> None:
    """What is to be remembered is data: no gradient flows through it."""
    agent, memory = _parts(subject)
    inputs = (_observations(1)[0], memory.items, memory.unknown)
    *_, entered = agent(*(torch.from_numpy(rows) for rows in inputs))
    assert not entered.requires_grad


class _Remembered(AsPlain):
    """The file's transformer, given each step together with what is remembered in it.

    Whether it is the transformer that it should be is seen elsewhere; here is in question what is
    remembered and learned.
    """

    def __init__(self, network: nn.Module, num_envs: int) -> None:
        super().__init__(network)
        self._shape = (_SETTINGS["trxl_memory_length"], _LAYERS, _DIM)
        self.items = torch.zeros(num_envs, *self._shape)
        self.unknown = torch.ones(num_envs, self._shape[0], dtype=torch.bool)

    @torch.no_grad()
    def play(self, turn: Turn) -> Turn:
        """The turn with, in each state, the memory that the agent should have had."""
        load_state(self.network, turn.before["agent"])
        steps = []
        for step in turn.steps:
            obs = self._packed(step.obs)
            entered = self.network(*self._parts(torch.from_numpy(obs)))[2]
            self.items = torch.cat([self.items[:, 1:], entered.unsqueeze(1)], dim=1)
            self.unknown = torch.cat(
                [self.unknown[:, 1:], torch.zeros_like(self.unknown[:, :1])], dim=1
            )
            following = self._packed(step.following)
            ended = torch.from_numpy(step.terminated | step.truncated)
            self.items[ended], self.unknown[ended] = 0.0, True
            steps.append(replace(step, obs=obs, following=following))
        return replace(turn, steps=steps)

    def distribution(self, obs: Tensor, shift: Tensor | None = None) -> Distribution:
        """The policy."""
        return Categorical(logits=self.network(*self._parts(obs))[0])

    def value(self, obs: Tensor) -> Tensor:
        """One number for each state."""
        values: Tensor = self.network(*self._parts(obs.flatten(0, -2)))[1]
        return values.reshape(obs.shape[:-1])

    def _packed(self, obs: np.ndarray) -> np.ndarray:
        remembered = (self.items.flatten(1), self.unknown.float())
        return np.concatenate([obs, *(part.numpy() for part in remembered)], axis=1)

    def _parts(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        length = self._shape[0]
        obs, items, unknown = rows.split([3, math.prod(self._shape), length], dim=1)
        return obs, items.reshape(-1, *self._shape), unknown.bool()


def _turns(subject: Subject, **arguments: Any) -> tuple[list[Turn], Any]:
    settings = {**_SETTINGS, **arguments}
    return rehearse(subject.module, **settings), subject.module.Args(**settings)


def _same(subject: Subject, **arguments: Any) -> set[str]:
    """Compare every turn with a plain one; the ways in which episodes ended."""
    turns, args = _turns(subject, **arguments)
    envs = Envs(DISCRETE, 1)
    agent = _Remembered(subject.module.Agent(envs, args), args.num_envs)
    envs.close()
    kinds = set()
    for turn in turns:
        share = 1 - turn.step / args.total_timesteps if args.anneal_lr else 1.0
        expected = ppo(agent.play(turn), args, agent, share * args.learning_rate)
        assert_logged(turn, expected.logged)
        assert_weights(turn.after["agent"], agent.network.state_dict())
        kinds |= Rollout.of(turn).kinds
    return kinds


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights and losses after each turn are those of a plain PPO that learns each step with the
    memory it was made with: that of its own episode, also across two rollouts. Episodes end both
    ways."""
    assert _same(subject) == {"terminated", "truncated"}


def options_do_what_they_say(subject: Subject) -> None:
    """Without normalised advantages, clipped values and annealing it is still that of the paper."""
    _same(subject, norm_adv=False, clip_vloss=False, anneal_lr=False, max_grad_norm=100.0)


def updates_stop_early(subject: Subject) -> None:
    """With a target for the change of the policy, no epoch begins once it is passed."""
    for target, epochs in ((1e-9, 1), (1e9, 3)):
        turns, _ = _turns(subject, target_kl=target, update_epochs=3)
        assert [len(turn.orders) for turn in turns] == [epochs] * len(turns)


def the_network_begins_as_it_should(subject: Subject) -> None:
    """Weights are orthogonal with gain sqrt 2 inside, 0.01 for the policy and 1 for the value, and
    biases are zero; attention begins as torch has it."""
    envs = Envs(DISCRETE, 1)
    torch.manual_seed(0)
    agent = subject.module.Agent(envs, subject.module.Args())
    envs.close()
    gains = {"actor": 0.01, "critic": 1.0}
    for name, layer in agent.named_modules():
        if isinstance(layer, nn.Linear) and "attention" not in name:
            assert_orthogonal(layer, gains.pop(name, 2**0.5))
    assert not gains


TURN: tuple[Check, ...] = (a_turn_is_that_of_the_paper,)
OPTIONS: tuple[Check, ...] = (options_do_what_they_say,)
BEGINS: tuple[Check, ...] = (the_network_begins_as_it_should,)
EPISODE = (memory_is_the_episode_so_far,)
FORGETS = (a_new_episode_remembers_nothing,)

MUTANTS = [
    Mutant(
        TRXL,
        "self.items[ended], self.unknown[ended] = 0.0, True",
        "pass",
        "the memory is not reset with an episode",
        FORGETS,
    ),
    Mutant(
        TRXL,
        "self.items[ended], self.unknown[ended] = 0.0, True",
        "self.items[:], self.unknown[:] = 0.0, True",
        "all environments forget when one episode ends",
        FORGETS,
    ),
    Mutant(TRXL, "memory[:, :, number] + self.ago", "memory[:, :, number]", "no ages", EPISODE),
    Mutant(
        TRXL,
        "memory[:, :, number] + self.ago",
        "memory[:, :, 0] + self.ago",
        "every layer remembers what the first one saw",
        EPISODE,
    ),
    Mutant(
        TRXL,
        "key_padding_mask=masked, ",
        "",
        "the time before an episode is attended to",
        EPISODE,
    ),
    Mutant(
        TRXL,
        "torch.cat([self.norm_past(past), query], dim=1)",
        "torch.cat([torch.zeros_like(past), query], dim=1)",
        "the past is never looked at",
        EPISODE,
    ),
    Mutant(
        TRXL,
        "[self.items[:, 1:], entered[:, None]]",
        "[entered[:, None], self.items[:, 1:]]",
        "the newest step is stored as the oldest",
        EPISODE,
    ),
    Mutant(TRXL, "now + seen.squeeze(1)", "seen.squeeze(1)", "no shortcut", EPISODE),
    Mutant(
        TRXL,
        "        if remember:\n",
        "        if True:\n",
        "a look ahead is remembered",
        (a_look_ahead_is_not_remembered,),
    ),
    Mutant(
        TRXL,
        "entered.append(now.detach())",
        "entered.append(now)",
        "gradients flow into the past",
        (the_past_gets_no_gradient,),
    ),
]
MUTANTS += [
    Mutant(TRXL, old, new, why, checks)
    for old, new, why, checks in (
        ("            optimizer.zero_grad()\n", "", "gradients add up", TURN),
        ("pg_loss = -torch.min(", "pg_loss = torch.min(", "the policy gets worse", TURN),
        (
            "rewards[t] += args.gamma * cut_off * final_values",
            "pass",
            "truncation counts as an end",
            TURN,
        ),
        ("args.gamma * goes_on * values[1:]", "args.gamma * values[1:]", "ends ignored", TURN),
        ("                memory.reset(ends[t])\n", "", "acting remembers past an end", TURN),
        (
            "memories[t], unknown[t] = memory.items, memory.unknown\n"
            "            logits[t], values[t] = memory.act(next_obs)",
            "logits[t], values[t] = memory.act(next_obs)\n"
            "            memories[t], unknown[t] = memory.items, memory.unknown",
            "learning sees a step in its own past",
            TURN,
        ),
        ("if args.anneal_lr:", "if True:", "--no-anneal-lr is ignored", OPTIONS),
        ("if args.norm_adv:", "if True:", "--no-norm-adv is ignored", OPTIONS),
        ("if args.clip_vloss:", "if True:", "--no-clip-vloss is ignored", OPTIONS),
        (
            "and approx_kl > args.target_kl:",
            "and False:",
            "--target-kl is ignored",
            (updates_stop_early,),
        ),
        (
            "int(envs.single_action_space.n)), std=0.01)",
            "int(envs.single_action_space.n)))",
            "an untrained policy prefers some actions",
            BEGINS,
        ),
    )
]
HARMLESS = [
    Harmless(
        "self.items[ended], self.unknown[ended] = 0.0, True",
        "0.0",
        "1",
        "what is unknown is never attended to, whatever stands there",
        ("ppo_trxl",),
    ),
]
LEARNING = [
    Learning(
        "ppo_trxl",
        "--env-id mosaic/Recall-v0 --total-timesteps 16384 --learning-rate 1e-3",
        "--learning-rate 1e-12 --total-timesteps 2048",
        1.5,
        # Without a memory the right end is found half of the time: a return of zero.
        least=0.8,
        episodes=40,
        # The best actions of an untrained policy follow the cue too, half of them to the right end.
        deterministic=False,
        slow=True,
    ),
]
