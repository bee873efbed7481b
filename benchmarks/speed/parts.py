"""Where an update with convolutions spends its time: `python -m benchmarks.speed.parts`.

Times the parts of one minibatch of PPO, on one thread, by the processor's clock, best of several,
for MiniGrid views and for Atari frames, beside the rate at which this machine multiplies
matrices: what the convolutions cost at that rate cannot be saved by better bookkeeping. Result:
`benchmarks/results/speed/parts.json`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import NatureCNN
from torch import Tensor, nn

from cleanrl_worker.agents.grid_convolutions import distinct_rows
from cleanrl_worker.agents.minigrid import MinigridAgent
from cleanrl_worker.cleanrl.ppo_atari import Agent
from cleanrl_worker.kit.atari import AtariEnvs
from cleanrl_worker.kit.device import limit_threads
from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.kit.optim import Adam

RESULT = Path(__file__).resolve().parents[1] / "results" / "speed" / "parts.json"
_VIEWS = "MiniGrid-Empty-8x8-v0"
_GRID_MACS = 49 * (27 * 32 + 288 * 64 + 576 * 64) + 3136 * 128 + 128 * 256
_FRAME_MACS = 400 * 256 * 32 + 81 * 512 * 64 + 49 * 576 * 64 + 3136 * 512


def milliseconds(work: Callable[[], object], times: int) -> float:
    """The processor time of the quickest of several runs."""
    work()
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return round(best * 1e3, 3)


def views(count: int) -> Tensor:
    """Shuffled views of four agents that act at random."""
    envs, rng = Envs(_VIEWS, 4), np.random.default_rng(1)
    envs.reset(seed=1)
    seen = np.concatenate([envs.step(rng.integers(7, size=4))[0] for _ in range(128)])
    return torch.from_numpy(seen[rng.permutation(len(seen))[:count]])


def neighbourhoods(grids: Tensor, reach: int) -> int:
    """How many different squares there are around the cells, `reach` cells to each side."""
    size = 2 * reach + 1
    padding = ((0, 0), (reach, reach), (reach, reach), (0, 0))
    padded = np.pad(grids.numpy(), padding, constant_values=255)
    squares = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(1, 2))
    return len(np.unique(squares.reshape(-1, size * size * grids.shape[3]), axis=0))


def grids() -> dict[str, Any]:
    """A minibatch of 128 views: plain convolutions of all, of the distinct ones, and ours."""
    obs = views(128)
    agent = MinigridAgent(Envs(_VIEWS, 1))
    optimizer = Adam(agent.parameters(), 2.5e-4)
    first, _ = distinct_rows(obs.flatten(1).numpy())
    distinct = obs[torch.from_numpy(first)]

    small, large = neighbourhoods(distinct, 1), neighbourhoods(distinct, 2)
    rest = small * 9 * 32 * 64 + large * 9 * 64 * 64 + len(distinct) * (3136 * 128 + 128 * 256)

    def plain(rows: Tensor) -> None:
        hidden = nn.Sequential.forward(agent.trunk, rows)
        (agent.actor(hidden).sum() + agent.critic(hidden).sum()).backward()

    def ours() -> None:
        logits, values = agent(obs)
        (logits.sum() + values.sum()).backward()

    return {
        "views": len(obs),
        "distinct_views": len(distinct),
        "distinct_3x3_and_5x5_squares": [small, large],
        "gigaflop_of_distinct_parts": round(rest * 6 / 1e9, 3),
        "gigaflop_if_all_are_computed": round(len(obs) * _GRID_MACS * 6 / 1e9, 3),
        "plain_ms": milliseconds(lambda: plain(obs), 10),
        "plain_on_distinct_views_ms": milliseconds(lambda: plain(distinct), 20),
        "ours_ms": milliseconds(ours, 40),
        "clip_and_adam_ms": milliseconds(optimizer.step, 40),
    }


def frames() -> dict[str, float]:
    """A minibatch of 256 stacks of frames: our network, and stable-baselines3's own.

    Half the precision is not what the scripts do; it shows what it would bring.
    """
    obs = torch.randint(0, 256, (256, 4, 84, 84), dtype=torch.uint8)
    ours = Agent(AtariEnvs("BreakoutNoFrameskip-v4", 1)).network
    peer = NatureCNN(spaces.Box(0, 255, (4, 84, 84), np.uint8))

    def halved() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            features = ours(obs)
        features.float().sum().backward()

    # The first layer's input needs no gradient.
    macs = 3 * _FRAME_MACS - 400 * 256 * 32
    with torch.no_grad():
        acting = milliseconds(lambda: ours(obs[:8]), 40)
    return {
        "gigaflop": round(256 * macs * 2 / 1e9, 2),
        "ours_ms": milliseconds(lambda: ours(obs).sum().backward(), 6),
        "peer_ms": milliseconds(lambda: peer(obs.float() / 255.0).sum().backward(), 6),
        "ours_in_bfloat16_ms": milliseconds(halved, 6),
        "acting_on_8_ms": acting,
    }


def matrix_rate() -> float:
    """Gigaflop a second of a matrix product of a convolution's size."""
    left, right = torch.randn(1024, 576), torch.randn(576, 64)
    return round(2 * 1024 * 576 * 64 / 1e6 / milliseconds(lambda: left @ right, 60), 1)


def main() -> None:
    """Measure and write the result."""
    limit_threads(1)
    torch.manual_seed(1)
    record = {
        "gigaflop_per_second": matrix_rate(),
        "minigrid_minibatch": grids(),
        "atari_minibatch": frames(),
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": "python -m benchmarks.speed.parts",
    }
    RESULT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
