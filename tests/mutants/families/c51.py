"""C51: its projection, its loss, and that it learns."""

from __future__ import annotations

from mutants.learning import Learning
from mutants.subject import Mutant

MUTANTS: list[Mutant] = []

_CARTPOLE = "--learning-starts 1000 --exploration-fraction 0.3 --target-network-frequency 250"
LEARNING = [
    Learning(
        "c51",
        f"--total-timesteps 20000 {_CARTPOLE} --learning-rate 1e-3",
        "--total-timesteps 1000",
        3,
    ),
]
