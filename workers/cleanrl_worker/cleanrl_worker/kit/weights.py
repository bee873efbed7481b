"""Loads trained weights into a network, also those that another program saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from torch import Tensor, nn

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.types import StateDict

if TYPE_CHECKING:
    from cleanrl_worker.kit.normalize import RunningMeanStd

Network = TypeVar("Network", bound=nn.Module)


def load_weights(network: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Give a network its trained weights.

    CleanRL's scripts have the same layers under other names (`fc1.weight` for
    `network.0.weight`). So where the names differ, tensors are taken in their order, as long as
    each has as many numbers in the same arrangement.

    Args:
        network: Gets the weights.
        saved: A state dict of such a network.

    Raises:
        RuntimeError: When the layers do not correspond.
    """
    wanted = network.state_dict()
    if wanted.keys() != saved.keys() and len(wanted) == len(saved):
        pairs = zip(wanted.items(), saved.values(), strict=True)
        if all(_sizes(own) == _sizes(other) for (_, own), other in pairs):
            tensors = zip(wanted.items(), saved.values(), strict=True)
            saved = {name: other.reshape(own.shape) for (name, own), other in tensors}
    network.load_state_dict(saved)


def trained_critics(
    make: Callable[[], Network], model: Mapping[str, StateDict]
) -> list[Network] | None:
    """The two critics of a policy file; None for one of an earlier release, which has none.

    Args:
        make: An untrained critic.
        model: What the policy file holds.
    """
    if not {"qf1", "qf2"} <= model.keys():
        return None
    critics = [make(), make()]
    for critic, name in zip(critics, ("qf1", "qf2"), strict=True):
        critic.load_state_dict(model[name])
    return critics


def warm_start(where: str, agent: nn.Module, statistics: RunningMeanStd | None = None) -> None:
    """Let an agent begin with a policy that is trained already, such as one that bc has cloned.

    What judges states (`critic…`) starts fresh: a policy that was cloned has none, and that of
    another algorithm would judge another policy.

    Args:
        where: A `.cleanrl_model` file, a checkpoints folder or a run directory.
        agent: Gets the weights of the same names.
        statistics: Gets those of the observations, which the policy's weights were made for.

    Raises:
        UsageError: There is no policy, or it is of another shape.
    """
    # Here: a run that begins without a policy need not load what evaluates one.
    from cleanrl_worker.running.evaluation import load_policy

    content = load_policy(Path(where).expanduser())
    saved, own = content["model"].get("agent", {}), agent.state_dict()
    wanted = [name for name in own if not name.startswith("critic")]
    unfit = [name for name in wanted if name not in saved or saved[name].shape != own[name].shape]
    if unfit:
        raise UsageError(
            f"--warm-start {where}: it is a policy of {content['algorithm']} on "
            f"{content['env_id']}, whose network has no {unfit[0]!r} of the shape "
            f"{tuple(own[unfit[0]].shape)}; clone one for this algorithm and environment with bc."
        )
    agent.load_state_dict({**own, **{name: saved[name] for name in wanted}})
    if statistics is not None and "obs_rms" in content["model"]:
        statistics.load_state_dict(content["model"]["obs_rms"])


def _sizes(tensor: Tensor) -> list[int]:
    """The shape without the dimensions of one, which CleanRL's action scales have."""
    return [size for size in tensor.shape if size != 1]
