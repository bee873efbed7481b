"""Which arguments are inputs of the compiled program, which shape it, and which it never sees."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from cleanrl_worker.kit.args import DeviceArgs
from cleanrl_worker.kit.jax_backend import jax
from cleanrl_worker.ondevice.environment import Traced

ArgsType = TypeVar("ArgsType", bound=DeviceArgs)

# How long it trains: an input, so that a longer run of the same shapes is the same program.
_LENGTH = "total_timesteps"
_SHARED = frozenset(field.name for field in fields(DeviceArgs))


def traced_names(args: DeviceArgs) -> Collection[str]:
    """The algorithm's own arguments that are inputs of the compiled program."""
    return [name for name, value in _own(args).items() if isinstance(value, float)]


def traced_numbers(args: DeviceArgs) -> dict[str, Traced]:
    """What can change without another program: arguments that are floats, and how long it trains.

    The length is a float too, because 32 bits count no further than two thousand million steps.
    """
    own = _own(args)
    return as_numbers({name: own[name] for name in (*traced_names(args), _LENGTH)})


def as_numbers(values: Mapping[str, float]) -> dict[str, Traced]:
    """Numbers on the device, without a program of their own to put them there."""
    numbers: dict[str, Traced] = jax.device_put(
        {name: np.float32(value) for name, value in values.items()}
    )
    return numbers


def shaping_settings(args: DeviceArgs) -> dict[str, Any]:
    """The algorithm's own arguments, those that are inputs without their values.

    Two runs with the same ones have the same program, as far as arguments go.
    """
    inputs = {*traced_names(args), _LENGTH}
    # That it is a number does shape the program: without one, `target_kl` stops nothing.
    return {name: float if name in inputs else value for name, value in _own(args).items()}


def seen_inside(args: ArgsType) -> ArgsType:
    """The arguments as the compiled functions get them, before the inputs are put in.

    What every script shares, such as the seed and the folder, is as by default: a program that
    was made by one run serves others, and nothing of the first may be in it.
    """
    shared: dict[str, Any] = {
        field.name: field.default for field in fields(args) if field.name in _SHARED
    }
    return replace(args, **shared)


def _own(args: DeviceArgs) -> dict[str, Any]:
    return {name: value for name, value in vars(args).items() if name not in _SHARED}
