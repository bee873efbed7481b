"""Several seeds in one program: which there are, whether they fit, and which one acts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psutil

from cleanrl_worker.kit.args import DeviceArgs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.jax_backend import jax
from cleanrl_worker.kit.types import StateDict

# Of the memory that is free now, what one run may count on.
_SHARE = 0.9


def seeds_of(args: DeviceArgs) -> list[int]:
    """The seeds of a run, each the same as if it were trained alone."""
    return [args.seed + index for index in range(args.num_seeds)]


def refuse_what_does_not_fit(args: DeviceArgs, needed: int) -> None:
    """Compare what a compiled program needs with the device's free memory.

    Args:
        args: The run's arguments.
        needed: The bytes that the program needs for all its seeds.

    Raises:
        UsageError: It does not fit; says how many seeds do.
    """
    free = free_memory()
    if needed <= free:
        return
    fitting = int(args.num_seeds * free // needed)
    way_out = f"use at most --num-seeds {fitting}" if fitting else "use fewer --num-envs"
    raise UsageError(
        f"--num-seeds {args.num_seeds} with --num-envs {vars(args)['num_envs']} needs about "
        f"{needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free: {way_out}."
    )


def free_memory() -> int:
    """The bytes that a run may count on, of the GPU it uses or of the machine."""
    stats: Mapping[str, int] = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return int(_SHARE * (stats["bytes_limit"] - stats.get("bytes_in_use", 0)))
    return int(_SHARE * psutil.virtual_memory().available)


def chosen_seed(args: DeviceArgs, model: StateDict) -> StateDict:
    """The parameters of one seed out of a policy file that may hold many.

    The file says in `chosen` which one is wanted; without it the seed with the best return in
    training acts.

    Raises:
        UsageError: The policy has no such seed.
    """
    params: StateDict = model["agent"]
    if args.num_seeds == 1:
        return params
    seeds = seeds_of(args)
    seed = model.get("chosen")
    if seed is None:
        returns: dict[str, Any] = model["returns"]
        seed = max(seeds, key=lambda one: float(returns.get(str(one), float("-inf"))))
    if seed not in seeds:
        raise UsageError(f"The policy has the seeds {seeds[0]} to {seeds[-1]}, not {seed}.")
    index = seeds.index(seed)
    return {path: values[index] for path, values in params.items()}
