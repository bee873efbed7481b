"""Shortening a long curve so that it still looks the same.

Points are put into buckets of equal count, and the lowest and highest of each are kept. Which
points are kept depends on the points alone, never on when they were written or read.
"""

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Places = NDArray[np.intp]


def thin(values: Values, most: int) -> Places:
    """The places of about `most` values: the extremes of each bucket, and both ends."""
    count = len(values)
    if count <= most:
        return np.arange(count)
    kept = extremes(values, bucket_size(count, most))
    return np.unique(np.concatenate([kept, [0, count - 1]]))


def bucket_size(count: int, most: int) -> int:
    """How many of `count` points share a bucket so that about `most` are kept."""
    # Each bucket keeps two.
    return -(-count // max(1, most // 2))


def extremes(values: "NDArray[np.floating]", size: int) -> Places:
    """The places of the lowest and the highest of each `size` values, in no order."""
    values = np.ascontiguousarray(values)
    # A sum is not finite when one of its parts is not. That is rare, and only then a copy is made.
    if not np.isfinite(values.sum()):
        values = np.nan_to_num(values)
    whole = len(values) // size * size
    places = []
    for first, blocks in ((0, values[:whole].reshape(-1, size)), (whole, values[None, whole:])):
        if blocks.size:
            starts = first + np.arange(len(blocks)) * size
            places += [starts + blocks.argmin(axis=1), starts + blocks.argmax(axis=1)]
    return np.concatenate(places)
