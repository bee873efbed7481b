"""Checkpoints: the policy alone, and the full state that continues a run exactly.

`step-<N>.cleanrl_model` holds the policy and what is needed to rebuild it;
`step-<N>.state` holds everything: networks, optimisers, counters, random generators,
replay memory, statistics and environments. Both hold only tensors, numbers, text, lists
and dictionaries, so both load with `weights_only=True` and can run no code.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from cleanrl_worker.kit.errors import CheckpointError
from cleanrl_worker.kit.types import StateDict
from cleanrl_worker.running import checked_files
from cleanrl_worker.running.checkpoint_files import POLICY_SUFFIX, STATE_SUFFIX

FORMAT = 1


@dataclass(frozen=True)
class Saved:
    """One file that a checkpoint consists of."""

    path: Path
    step: int
    sha256: str
    kind: str


def save(folder: Path, step: int, policy: StateDict, state: StateDict) -> list[Saved]:
    """Write both files of a checkpoint, each whole or not at all.

    Args:
        folder: The run's `checkpoints` folder.
        step: The environment step that was reached.
        policy: What rebuilds the policy.
        state: Everything needed to continue.

    Returns:
        What was written, the policy first.
    """
    saved = []
    for suffix, kind, content in ((POLICY_SUFFIX, "policy", policy), (STATE_SUFFIX, "full", state)):
        path = folder / f"step-{step}{suffix}"
        plain = to_plain({"format": FORMAT, **content})
        digest = checked_files.write_checked(path, partial(torch.save, plain))
        saved.append(Saved(path, step, digest, kind))
    return saved


def load_values(path: Path, device: str | torch.device = "cpu") -> object:
    """Read a file that torch saved, without ever running code from it.

    Raises:
        CheckpointError: The file is damaged or holds more than plain data.
    """
    try:
        content: object = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CheckpointError(
            f"{path} is not a checkpoint that can be loaded safely: {reason}. "
            "Only files of plain tensors and values are accepted."
        ) from None
    return content


def load(path: Path, device: str | torch.device = "cpu") -> StateDict:
    """Read a checkpoint file without ever running code from it.

    Raises:
        CheckpointError: The file is damaged, or no checkpoint of ours.
    """
    content = load_values(path, device)
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is not a checkpoint: it holds a {type(content).__name__}.")
    if content.get("format", FORMAT) != FORMAT:
        raise CheckpointError(
            f"{path} has format {content['format']}, this version reads format {FORMAT}. "
            "Use the version that wrote it."
        )
    return content


def to_plain(value: object) -> object:
    """Turn arrays into tensors and tuples into lists, all the way down."""
    if isinstance(value, torch.Tensor):
        # A view would drag its whole storage into the file.
        small = value.untyped_storage().nbytes() > value.numel() * value.element_size()
        return value.detach().clone() if small else value.detach()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value if value.flags.c_contiguous else value.copy())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}")


def random_state() -> StateDict:
    """The state of every global random generator."""
    version, numbers, gauss = random.getstate()
    state: StateDict = {
        "python": [version, list(numbers), gauss],
        "numpy": list(np.random.get_state()),
        "torch": torch.get_rng_state(),
    }
    # Asking an unused GPU for its state would start CUDA, which takes seconds and memory.
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def restore_random_state(state: StateDict) -> None:
    """Put every global random generator back."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy(), *rest))
    torch.set_rng_state(state["torch"].cpu())
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([item.cpu() for item in state["cuda"]])
