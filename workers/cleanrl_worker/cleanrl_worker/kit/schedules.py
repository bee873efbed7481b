"""Numbers that change with the step."""

from __future__ import annotations


def linear_schedule(start: float, end: float, duration: float, step: int) -> float:
    """From `start` to `end` in `duration` steps, constant afterwards."""
    return max(start + (end - start) / duration * step, end)
