"""What a training state holds, as digests that two equal trainings share.

A state is walked in the order in which it was saved. Numbers are compared by their bytes, so
that a NaN equals itself and -0.0 differs from 0.0: equal means equal to the last bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from cleanrl_worker.kit.types import StateDict

# Everything that decides how training continues. The rest of a checkpoint says what it is (its
# arguments name paths, which differ between two runs of the same training).
PARTS = ("step", "policy", "objects", "random")


@dataclass(frozen=True)
class Comparison:
    """Two training states side by side.

    Attributes:
        values: How many values they hold together.
        digests: One digest for each state.
        different: The names of the values that differ, in the order of the state.
        first_difference: The first of them, with what differs; empty when none does.
    """

    values: int
    digests: tuple[str, str]
    different: tuple[str, ...]
    first_difference: str


def compare(one: StateDict, other: StateDict) -> Comparison:
    """Compare everything that decides how training continues."""
    left, right = (dict(_leaves({part: s.get(part) for part in PARTS})) for s in (one, other))
    names = [*left, *(name for name in right if name not in left)]
    hashes = [{name: _digest(leaf) for name, leaf in side.items()} for side in (left, right)]
    different = [name for name in names if hashes[0].get(name) != hashes[1].get(name)]
    first = ""
    if different:
        first = f"{different[0]} ({_explain(left, right, different[0])})"
    return Comparison(
        len(names), (_together(hashes[0]), _together(hashes[1])), tuple(different), first
    )


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        # Without it a list that has lost its last item would look like one that never had it.
        yield f"{name}[]", len(value)
        for index, item in enumerate(value):
            yield from _leaves(item, f"{name}[{index}]")
    else:
        yield name, value


def _digest(leaf: object) -> str:
    found = hashlib.sha256()
    if isinstance(leaf, torch.Tensor):
        found.update(f"{leaf.dtype} {tuple(leaf.shape)} ".encode())
        plain = leaf.detach().cpu().contiguous().flatten()
        # The one type of torch that NumPy does not have.
        plain = plain.view(torch.int16) if plain.dtype == torch.bfloat16 else plain
        found.update(np.ascontiguousarray(plain.numpy()).data)
    else:
        found.update(f"{type(leaf).__name__} {leaf!r}".encode())
    return found.hexdigest()


def _together(hashes: dict[str, str]) -> str:
    found = hashlib.sha256()
    for name, digest in sorted(hashes.items()):
        found.update(f"{name} {digest}\n".encode())
    return found.hexdigest()


def _explain(left: dict[str, object], right: dict[str, object], name: str) -> str:
    """What differs in one value, in words."""
    if name not in left or name not in right:
        return "only in the recorded state" if name in left else "not in the recorded state"
    one, other = left[name], right[name]
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return f"{_short(one)} recorded, {_short(other)} trained again"
    if one.shape != other.shape or one.dtype != other.dtype:
        return (
            f"{one.dtype} of shape {tuple(one.shape)} recorded, {other.dtype} of shape "
            f"{tuple(other.shape)} trained again"
        )
    # In double precision: unsigned integers and Booleans cannot be subtracted as they are.
    distance = (one.double() - other.double()).abs().flatten()
    apart = int((distance != 0).sum())
    return f"{apart:,} of {one.numel():,} numbers differ, by up to {float(distance.max()):.3g}"


def _short(value: object) -> str:
    text = f"a tensor {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
