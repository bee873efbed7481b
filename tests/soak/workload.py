"""The runs of a soak: short ones of every kind, so that hundreds fit into some minutes."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaic.records import RunRecord

Config = dict[str, Any]

_SCRIPT = """#!/bin/sh
# @description: two phases of one second
# @phases: 2
sleep 1
sleep 1
"""


@dataclass(frozen=True)
class Kind:
    """A kind of run and how often it is submitted, relative to the others."""

    name: str
    weight: int
    config: Callable[[random.Random, "Workload"], Config | None]


class Workload:
    """Draws the next configuration. An evaluation needs a run that has ended with a policy."""

    def __init__(self, chance: random.Random, folder: Path) -> None:
        self._chance = chance
        self.script = folder / "phases.sh"
        self.script.write_text(_SCRIPT)
        self.policies: list[RunRecord] = []
        self.bases: set[str] = set()

    def draw(self) -> tuple[str, Config]:
        """A kind of run and its configuration."""
        while True:
            weights = [kind.weight for kind in KINDS]
            kind = self._chance.choices(KINDS, weights)[0]
            config = kind.config(self._chance, self)
            if config is not None:
                return kind.name, config


def _document(worker: str, algo: str, extras: Config | None = None, **fields: Any) -> Config:
    config = {"algo": algo, "extras": extras or {}, **fields}
    return {"artifacts": {}, "metadata": {"worker": {"type": worker, "config": config}}}


def _example(chance: random.Random, _: Workload) -> Config:
    return _document("example", "", total_timesteps=chance.randint(500, 8_000))


def _train(algo: str, least: int, most: int) -> Callable[[random.Random, Workload], Config]:
    def config(chance: random.Random, _: Workload) -> Config:
        steps = chance.randint(least, most)
        seed = chance.randrange(1000)
        return _document("cleanrl", algo, env_id="CartPole-v1", total_timesteps=steps, seed=seed)

    return config


def _evaluation(chance: random.Random, workload: Workload) -> Config | None:
    if not workload.policies:
        return None
    base = chance.choice(workload.policies)
    workload.bases.add(base.run_id)
    folder = str(Path(base.run_dir) / "checkpoints")
    extras = {"mode": "policy_eval", "policy_path": folder, "eval_episodes": 5}
    return _document("cleanrl", base.algo, extras, env_id=base.env_id, seed=1)


def _script(_: random.Random, workload: Workload) -> Config:
    return _document("cleanrl", "", {"mode": "script", "script_path": str(workload.script)})


def _spade(chance: random.Random, _: Workload) -> Config:
    extras = {"episodes": 60, "frames": False}
    seed = chance.randrange(1000)
    return _document("spade_bdi", "", extras, env_id="FrozenLake-v1", seed=seed)


KINDS = (
    Kind("example", 8, _example),
    Kind("ppo", 4, _train("ppo", 20_000, 120_000)),
    Kind("dqn", 2, _train("dqn", 12_000, 25_000)),
    Kind("eval", 2, _evaluation),
    Kind("script", 2, _script),
    Kind("spade", 1, _spade),
)
