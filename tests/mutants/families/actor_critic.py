"""DDPG, TD3 and SAC: their targets, losses and delays, and that they learn."""

from __future__ import annotations

from mutants.learning import Learning
from mutants.subject import Mutant

MUTANTS: list[Mutant] = []

_PENDULUM = "--env-id Pendulum-v1 --buffer-size 10000 --gamma 0.98 --batch-size 64"
_NOISY = f"{_PENDULUM} --learning-starts 1000 --exploration-noise 0.3 --learning-rate 1e-3"
_NOTHING = "--total-timesteps 400"
LEARNING = [
    Learning("ddpg_continuous_action", f"--total-timesteps 7000 {_NOISY}", _NOTHING, 2.5),
    Learning("td3_continuous_action", f"--total-timesteps 7000 {_NOISY}", _NOTHING, 2.5),
    Learning(
        "sac_continuous_action",
        f"--total-timesteps 4000 {_PENDULUM} --learning-starts 500",
        _NOTHING,
        2.5,
    ),
]
