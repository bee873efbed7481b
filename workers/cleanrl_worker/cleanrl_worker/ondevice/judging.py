"""What the critics of the member that acts expect of its actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cleanrl_worker.kit.args import DeviceArgs
from cleanrl_worker.kit.judging import both_critics
from cleanrl_worker.kit.types import StateDict
from cleanrl_worker.ondevice.members import chosen_member


def critics_of_member(
    args: DeviceArgs, model: StateDict, init: Callable[[Any], Any]
) -> list[Any] | None:
    """Both critics of the member that `chosen_member` chooses; None for a file without critics.

    Args:
        args: The run's arguments.
        model: What the policy file holds.
        init: Makes the parameters of one critic from a random key; gives the structure.
    """
    if "critics" not in model:
        return None
    return both_critics(init, chosen_member(args, {**model, "agent": model["critics"]}))
