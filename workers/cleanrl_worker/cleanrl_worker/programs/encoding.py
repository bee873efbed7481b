"""Observations, actions and pictures as JSON: small vectors as lists, the rest as bytes."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from gymnasium import spaces

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.types import Array, Space

# What `json.dumps` takes.
Json: TypeAlias = object
FORMATS = ("png", "jpeg", "none")
_LONGEST_LIST = 1024


def encode_value(value: object) -> Json:
    """A value that JSON can carry."""
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): encode_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode_value(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def _encode_array(array: Array) -> Json:
    if array.ndim <= 1 and array.size <= _LONGEST_LIST:
        return encode_value(array.tolist())
    content = np.ascontiguousarray(array)
    return {
        "shape": list(content.shape),
        "dtype": str(content.dtype),
        "base64": base64.b64encode(content.tobytes()).decode(),
    }


def encode_frame(picture: Array, form: str) -> dict[str, Json]:
    """A picture as PNG or JPEG in base64."""
    from PIL import Image

    target = io.BytesIO()
    Image.fromarray(np.asarray(picture, np.uint8)).save(target, form.upper())
    height, width = picture.shape[:2]
    content = base64.b64encode(target.getvalue()).decode()
    return {"format": form, "width": width, "height": height, "base64": content}


def decode_action(space: Space, given: Json) -> int | Array:
    """An action of the environment from what a line of JSON gave.

    Raises:
        UsageError: It is none.
    """
    if isinstance(space, spaces.Discrete):
        low, high = int(space.start), int(space.start + space.n) - 1
        # JSON's true is an int to Python, and no action.
        if isinstance(given, int) and not isinstance(given, bool) and low <= given <= high:
            return given
        raise UsageError(f"action must be a whole number from {low} to {high}, not {given!r}")
    try:
        action = np.asarray(given, space.dtype).reshape(space.shape)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"action must be numbers of shape {space.shape}, not {given!r}") from None
    if not space.contains(action):
        raise UsageError(f"action {given!r} is outside {space}")
    return action


def decode_observation(space: Space, given: Json) -> Array:
    """An observation as a policy reads it, from nested lists of numbers.

    Policies that read one row of numbers get observations of other shapes row by row, as
    `kit.observations` prepares them in training.

    Raises:
        UsageError: It has another shape, or is no number.
    """
    try:
        found = np.asarray(given, space.dtype)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"observation must be numbers of shape {space.shape}") from None
    if space.shape == (found.size,):
        found = found.ravel()
    if found.shape != space.shape:
        raise UsageError(f"observation must have the shape {space.shape}, not {found.shape}")
    return found
