"""PPO with Transformer-XL: what its memory must hold, and what it must forget."""

from __future__ import annotations

import math

import numpy as np
import torch

from cleanrl_worker.kit.envs import Envs
from mutants.learning import Learning
from mutants.subject import Mutant, Subject

TRXL = "cleanrl/ppo_trxl.py"
_LENGTH, _LAYERS, _DIM = 5, 2, 8


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
