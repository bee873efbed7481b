"""Steps a processor second: on the device, in torch, and stable-baselines3, interleaved.

    python -m benchmarks.ondevice [--rounds 2] [--only SAC TD3]

Each contender runs twice, short and long, in a process of its own with one thread. The difference
in steps over the difference in processor time leaves out imports and compilation; logging and
checkpoints are on. By processor time, because a machine that does something else would make the
wall clock's figures those of its load. The result is `benchmarks/results/ondevice.json`; with
`--only`, other work keeps its rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "ondevice.json"
_PEER = """
import sys
from stable_baselines3 import DQN, PPO
import torch
torch.set_num_threads(1)
kind, steps = sys.argv[1], int(sys.argv[2])
if kind == "ppo":
    from stable_baselines3.common.env_util import make_vec_env
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 4), n_steps=128, batch_size=128,
                n_epochs=4, learning_rate=2.5e-4, ent_coef=0.01, clip_range_vf=0.2,
                device="cpu", seed=1)
else:
    model = DQN("MlpPolicy", "CartPole-v1", learning_rate=2.5e-4, buffer_size=10000,
                learning_starts=1000, batch_size=128, tau=1.0, train_freq=10, gradient_steps=1,
                target_update_interval=500, policy_kwargs={"net_arch": [120, 84]},
                device="cpu", seed=1)
model.learn(steps)
"""


@dataclass(frozen=True)
class Contender:
    """One program and the lengths of its two runs."""

    work: str
    name: str
    command: tuple[str, ...]
    short: int
    long: int

    def seconds(self, steps: int) -> float:
        """The processor time of one run."""
        before = _children()
        with tempfile.TemporaryDirectory() as folder:
            words = [word.format(steps=steps, folder=folder) for word in self.command]
            one_thread = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
            subprocess.run(
                words, check=True, env={**os.environ, **one_thread}, stdout=subprocess.DEVNULL
            )
        return _children() - before

    def rate(self) -> float:
        """Steps a processor second."""
        if "_ondevice" in self.name:
            # The compiled program is kept. Without this only the first of the two would compile,
            # and its seconds would be taken for steps.
            self.seconds(self.short)
        return (self.long - self.short) / (self.seconds(self.long) - self.seconds(self.short))


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _ours(name: str, *flags: str) -> tuple[str, ...]:
    module = f"cleanrl_worker.cleanrl.{name}"
    lengths = ("--total-timesteps", "{steps}", "--run-dir", "{folder}/run", "--no-cuda")
    return (sys.executable, "-m", module, *lengths, *flags)


def _peer(kind: str) -> tuple[str, ...]:
    # Braces of the program are doubled: `seconds` fills in the lengths.
    program = _PEER.replace("{", "{{").replace("}", "}}")
    return (sys.executable, "-c", program, kind, "{steps}")


def _our(work: str, name: str, short: int, long: int, flags: tuple[str, ...]) -> Contender:
    return Contender(work, name, _ours(name, *flags), short, long)


_EIGHT = ("--num-seeds", "8")
_DQN = ("--learning-starts", "1000")
_SWING = ("--env-id", "Pendulum-v1")
_REPLAY = (*_SWING, "--learning-starts", "500", "--buffer-size", "20000")
CONTENDERS = [
    Contender("PPO", "ppo_ondevice", _ours("ppo_ondevice"), 51_200, 1_024_000),
    Contender("PPO", "ppo_ondevice, 8 seeds", _ours("ppo_ondevice", *_EIGHT), 6_400, 128_000),
    Contender("PPO", "ppo", _ours("ppo"), 10_240, 102_400),
    Contender("PPO", "stable-baselines3", _peer("ppo"), 5_120, 30_720),
    Contender("DQN", "dqn_ondevice", _ours("dqn_ondevice", *_DQN), 20_000, 220_000),
    Contender("DQN", "dqn", _ours("dqn", *_DQN), 5_000, 25_000),
    Contender("DQN", "stable-baselines3", _peer("dqn"), 3_000, 13_000),
    Contender("PQN", "pqn_ondevice", _ours("pqn_ondevice"), 51_200, 512_000),
    Contender("PQN", "pqn", _ours("pqn"), 10_240, 81_920),
    _our("continuous PPO", "ppo_continuous_ondevice", 20_480, 122_880, _SWING),
    _our("continuous PPO", "ppo_continuous_action", 4_096, 24_576, _SWING),
    _our("MiniGrid", "ppo_ondevice", 20_480, 204_800, ("--env-id", "xminigrid/MiniGrid-Empty-8x8")),
    _our("MiniGrid", "ppo", 2_048, 12_288, ("--env-id", "MiniGrid-Empty-8x8-v0")),
    _our("SAC", "sac_ondevice", 1_000, 4_000, _REPLAY),
    _our("SAC", "sac_continuous_action", 1_000, 4_000, _REPLAY),
    _our("TD3", "td3_ondevice", 1_000, 6_000, _REPLAY),
    _our("TD3", "td3_continuous_action", 1_000, 6_000, _REPLAY),
]  # fmt: skip


def _kept() -> list[dict[str, Any]]:
    """The rows of the last measurement."""
    if not RESULT.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(RESULT.read_text(encoding="utf-8"))["results"]
    return rows


def main() -> None:
    """Measure all contenders, round by round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    works = list(dict.fromkeys(one.work for one in CONTENDERS))
    parser.add_argument("--only", nargs="+", choices=works, default=works, metavar="WORK")
    options = parser.parse_args()
    chosen = [one for one in CONTENDERS if one.work in options.only]
    rates: dict[Contender, list[float]] = {one: [] for one in chosen}
    for _ in range(options.rounds):
        for one in chosen:
            seeds = 8 if "8 seeds" in one.name else 1
            rates[one].append(seeds * one.rate())
            print(one.work, one.name, round(rates[one][-1]), file=sys.stderr, flush=True)
    record = {
        "command": f"python -m benchmarks.ondevice --rounds {options.rounds}",
        "env_id": "CartPole-v1; Pendulum-v1 for continuous PPO, SAC and TD3; the empty MiniGrid",
        "unit": "environment steps a processor second, one thread, all seeds together",
        "machine": {"processor": platform.machine(), "cores": os.cpu_count()},
        "load_at_the_end": round(os.getloadavg()[0], 1),
        "results": [
            *(row for row in _kept() if row["work"] not in options.only),
            *({
                "work": one.work,
                "program": one.name,
                "steps": [one.short, one.long],
                "rates": [round(rate) for rate in found],
                "median": round(statistics.median(found)),
            }
            for one, found in rates.items()),
        ],
    }  # fmt: skip
    RESULT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
