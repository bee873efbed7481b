"""Which devices a run's members are spread over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from cleanrl_worker.kit.jax_backend import jax
from cleanrl_worker.ondevice.sweeping import device_count

AXIS = "members"
Pytree = TypeVar("Pytree")
Result = TypeVar("Result")


class Spread:
    """Members over the devices that the run has; each device holds whole members.

    A member is computed on one device, by the same program as on a single one, so its bits do not
    depend on how many devices there are.

    Args:
        members: How many members the run has.

    Attributes:
        devices: Those that are used, as many as `count`.
    """

    def __init__(self, members: int) -> None:
        # Those that the run reserved: CUDA_VISIBLE_DEVICES hides the others.
        found = jax.devices()
        self.count = device_count(members, len(found))
        mesh = jax.sharding.Mesh(np.array(found[: self.count]), (AXIS,))
        self._mesh = mesh
        self.devices = found[: self.count]
        self._by_member = jax.sharding.PartitionSpec(AXIS)
        self._all = jax.sharding.PartitionSpec()

    def placed(self, members: Pytree) -> Pytree:
        """A pytree with an axis of members in front, each part on the device of its member."""
        if self.count == 1:
            here: Pytree = jax.device_put(members)
            return here
        where = jax.sharding.NamedSharding(self._mesh, self._by_member)
        spread: Pytree = jax.device_put(members, where)
        return spread

    def shape(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> jax.ShapeDtypeStruct:
        """What an array with an axis of members in front looks like to the compiler."""
        if self.count == 1:
            return jax.ShapeDtypeStruct(shape, dtype)
        place = jax.sharding.NamedSharding(self._mesh, self._by_member)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=place)

    def over(self, program: Callable[..., Result]) -> Callable[..., Result]:
        """A program of `(members, members, shared, shared)`, run on each device for its members."""
        if self.count == 1:
            return program
        own, shared = self._by_member, self._all
        # What is the same everywhere is not traced through branches and loops: nothing here is
        # exchanged between devices.
        shared_out: Callable[..., Result] = jax.shard_map(
            program,
            mesh=self._mesh,
            in_specs=(own, own, shared, shared),
            out_specs=own,
            check_vma=False,
        )
        return shared_out
