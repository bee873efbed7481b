"""What adapters of other packages' environments share."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from cleanrl_worker.kit.jax_backend import jax, jnp
from cleanrl_worker.ondevice.environment import State, Traced

SOME_KEY = jax.ShapeDtypeStruct((2,), np.uint32)


def row(parts: object) -> Traced:
    """All numbers of an observation, however nested, in one row."""
    leaves = [jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(parts)]
    return jnp.concatenate(leaves) if len(leaves) > 1 else leaves[0]


def row_space(obs: jax.ShapeDtypeStruct) -> spaces.Box:
    """The space of such rows, from the shape of one."""
    return spaces.Box(-np.inf, np.inf, obs.shape, np.float32)


def same_types(after: State, before: State) -> State:
    """A state with the types of the one before: a compiled loop must not change them."""
    return jax.tree.map(lambda new, old: jnp.asarray(new, jnp.result_type(old)), after, before)
