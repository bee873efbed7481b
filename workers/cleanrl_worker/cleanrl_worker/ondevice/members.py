"""Several members in one program: which there are, whether they fit, and which one acts.

A member is one seed with one combination of settings, see `mosaic.curves.members`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import SupportsFloat

import psutil

from cleanrl_worker.kit.args import DeviceArgs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.jax_backend import jax
from cleanrl_worker.kit.types import StateDict
from cleanrl_worker.ondevice.inputs import traced_names
from cleanrl_worker.ondevice.sweeping import sweep_problem
from mosaic.curves import members
from mosaic.curves.members import Member

# Of the memory that is free now, what one run may count on.
_SHARE = 0.9


def members_of(args: DeviceArgs) -> list[Member]:
    """The members of a run, each the same as if it were trained alone.

    Raises:
        UsageError: `vmap_sweep` cannot be read, or names what cannot differ between members.
    """
    if args.vmap_sweep and (sentence := sweep_problem(args.vmap_sweep, traced_names(args))):
        raise UsageError(sentence)
    seeds = [args.seed + index for index in range(args.num_seeds)]
    return members.members_of(seeds, args.vmap_sweep)


def refuse_what_does_not_fit(args: DeviceArgs, needed: int) -> None:
    """Compare what a compiled program needs with the device's free memory.

    Args:
        args: The run's arguments.
        needed: The bytes that the program needs on one device.

    Raises:
        UsageError: It does not fit; says how many seeds or settings do.
    """
    free = free_memory()
    if needed <= free:
        return
    count = len(members_of(args))
    settings = count // args.num_seeds
    fitting = int(count * free // needed)
    if fitting >= settings:
        way_out = f"use at most --num-seeds {fitting // settings}"
    elif fitting:
        way_out = f"use at most {fitting} combinations of settings in --vmap-sweep"
    else:
        way_out = "use fewer --num-envs"
    several = f" and {settings} combinations of settings" if settings > 1 else ""
    raise UsageError(
        f"--num-seeds {args.num_seeds}{several} with --num-envs {vars(args)['num_envs']} needs "
        f"about {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free: {way_out}."
    )


def free_memory() -> int:
    """The bytes that a run may count on, of the GPU it uses or of the machine."""
    stats: Mapping[str, int] = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return int(_SHARE * (stats["bytes_limit"] - stats.get("bytes_in_use", 0)))
    return int(_SHARE * psutil.virtual_memory().available)


def chosen_member(args: DeviceArgs, model: StateDict) -> StateDict:
    """The parameters of one member out of a policy file that may hold many.

    The file says in `chosen` which seed is wanted. Of the members of that seed, or of all, the one
    with the best return in training acts.

    Raises:
        UsageError: The policy has no such seed.
    """
    params: StateDict = model["agent"]
    there = members_of(args)
    if len(there) == 1:
        return params
    seed = model.get("chosen")
    able = [one for one in there if seed is None or one.seed == seed]
    if not able:
        last = args.seed + args.num_seeds - 1
        raise UsageError(f"The policy has the seeds {args.seed} to {last}, not {seed}.")
    returns: dict[str, SupportsFloat] = model["returns"]
    best = max(able, key=lambda one: float(returns.get(one.key, float("-inf"))))
    index = there.index(best)
    return {path: values[index] for path, values in params.items()}
