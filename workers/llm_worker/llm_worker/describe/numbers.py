"""Observations that are numbers: named where the environment is known, listed where it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

# More numbers than this say nothing to a reader; their shape and range do.
MOST_NUMBERS = 64


@dataclass(frozen=True)
class NamedNumbers:
    """What the numbers of a known environment mean.

    Attributes:
        rules: What the agent wants.
        names: One for each number, with its unit or range.
        actions: Names of the actions, if there are choices.
    """

    rules: str
    names: tuple[str, ...]
    actions: tuple[str, ...] = ()


# The first prefix that fits counts.
KNOWN: tuple[tuple[str, NamedNumbers], ...] = (
    (
        "CartPole",
        NamedNumbers(
            "Keep the pole upright: its angle within 0.209 rad, the cart within 2.4 of the middle.",
            ("cart position", "cart velocity", "pole angle in rad", "pole angular velocity"),
            ("push left", "push right"),
        ),
    ),
    (
        "MountainCarContinuous",
        NamedNumbers(
            "Reach the position 0.45 on the right hill; the force is weak, swing up.",
            ("position (-1.2 to 0.6)", "velocity (-0.07 to 0.07)"),
        ),
    ),
    (
        "MountainCar",
        NamedNumbers(
            "Reach the position 0.5 on the right hill; the engine is weak, swing up.",
            ("position (-1.2 to 0.6)", "velocity (-0.07 to 0.07)"),
            ("push left", "do nothing", "push right"),
        ),
    ),
    (
        "Acrobot",
        NamedNumbers(
            "Swing the lower end of two joined links above the line at height 1.",
            (
                "cosine of angle 1",
                "sine of angle 1",
                "cosine of angle 2",
                "sine of angle 2",
                "angular velocity 1",
                "angular velocity 2",
            ),
            ("torque left", "no torque", "torque right"),
        ),
    ),
    (
        "Pendulum",
        NamedNumbers(
            "Swing the pendulum up and keep it there with little torque.",
            ("cosine of the angle (1 is upright)", "sine of the angle", "angular velocity"),
        ),
    ),
    (
        "LunarLander",
        NamedNumbers(
            "Land softly between the flags at x = 0, y = 0.",
            (
                "x",
                "y",
                "velocity x",
                "velocity y",
                "angle in rad",
                "angular velocity",
                "left leg touches",
                "right leg touches",
            ),
            ("do nothing", "fire left engine", "fire main engine", "fire right engine"),
        ),
    ),
)


def known_numbers(env_id: str) -> NamedNumbers | None:
    """What is known about an environment whose observations are numbers."""
    return next((facts for prefix, facts in KNOWN if env_id.startswith(prefix)), None)


def named(values: Sequence[float], names: Sequence[str]) -> str:
    """One number a line, each with its name."""
    return "\n".join(f"{n}: {float(v):.4g}" for n, v in zip(names, values, strict=True))


def describe_value(value: object) -> str:
    """Any observation in words, by what it is made of."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {describe_value(item)}" for key, item in value.items())
    if isinstance(value, tuple | list):
        return "\n".join(f"part {n}: {describe_value(item)}" for n, item in enumerate(value))
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array.item():.6g}" if array.dtype.kind == "f" else str(array.item())
    return _array(array)


def _array(array: NDArray[np.generic]) -> str:
    if array.size > MOST_NUMBERS or array.dtype.kind not in "biuf":
        shape = " × ".join(map(str, array.shape))
        if array.dtype.kind not in "biuf":
            return f"{shape} values"
        return f"{shape} numbers from {array.min():.4g} to {array.max():.4g}"
    numbers: JsonValue = [float(f"{float(v):.4g}") for v in array.ravel()]
    return str(numbers)
