"""PPO, RPO and PQN on flat observations."""

from __future__ import annotations

from mutants.learning import Learning
from mutants.subject import Mutant

MUTANTS: list[Mutant] = []

_NOTHING = "--learning-rate 1e-12"
LEARNING = [
    Learning("ppo", "--total-timesteps 40000", _NOTHING, 4),
    Learning(
        "pqn",
        "--total-timesteps 60000 --learning-rate 1e-3 --exploration-fraction 0.3 --seed 2",
        _NOTHING,
        3,
    ),
    Learning(
        "ppo_continuous_action",
        "--total-timesteps 24576 --env-id InvertedPendulum-v5",
        _NOTHING,
        8,
    ),
    Learning(
        "rpo_continuous_action",
        "--total-timesteps 24576 --env-id InvertedPendulum-v5",
        _NOTHING,
        5,
    ),
]
