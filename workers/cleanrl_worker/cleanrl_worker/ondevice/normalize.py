"""Running normalisation inside compiled code, as `kit.normalize` does it outside."""

from __future__ import annotations

from typing import Any, NamedTuple

from cleanrl_worker.kit.jax_backend import jnp
from cleanrl_worker.ondevice.environment import Traced

_CLIP, _EPSILON = 10.0, 1e-8


class Statistics(NamedTuple):
    """The mean and variance of everything seen so far (Chan et al., 1979)."""

    mean: Traced
    var: Traced
    # Hides the method of tuples; its name is in every checkpoint.
    count: Any


def no_statistics(shape: tuple[int, ...]) -> Statistics:
    """Statistics before anything was seen."""
    return Statistics(jnp.zeros(shape), jnp.ones(shape), jnp.float32(1e-4))


def seen(statistics: Statistics, rows: Traced, counts: Traced | None = None) -> Statistics:
    """The statistics after some more rows.

    Args:
        statistics: Those before.
        rows: What was seen, one row each.
        counts: 1 for each row that counts, 0 for the others; by default all do.
    """
    weights = jnp.ones(len(rows)) if counts is None else counts.astype(jnp.float32)
    number = weights.sum()
    column = weights.reshape(-1, *(1,) * (rows.ndim - 1))
    mean = (column * rows).sum(axis=0) / number
    var = (column * jnp.square(rows - mean)).sum(axis=0) / number
    # Shares, not sums: in 32 bits a sum over millions of rows would lose what is added to it.
    total = statistics.count + number
    share = number / total
    delta = mean - statistics.mean
    return Statistics(
        statistics.mean + share * delta,
        statistics.var + share * (var - statistics.var + (1 - share) * jnp.square(delta)),
        total,
    )


def normalized(statistics: Statistics, obs: Traced) -> Traced:
    """Observations with mean 0 and variance 1, clipped; NumPy arrays give NumPy arrays."""
    scaled = (obs - statistics.mean) / (statistics.var + _EPSILON) ** 0.5
    return scaled.clip(-_CLIP, _CLIP)


def scaled_rewards(statistics: Statistics, rewards: Traced) -> Traced:
    """Rewards divided by the standard deviation of the discounted return, clipped."""
    scaled = rewards / jnp.sqrt(statistics.var + _EPSILON)
    return scaled.clip(-_CLIP, _CLIP)
