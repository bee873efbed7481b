"""Checkpoints of a training: everything that the next update depends on, in one file."""

from __future__ import annotations

import hashlib
import io
import shutil
from pathlib import Path
from typing import TypedDict

import torch

from llm_worker.errors import RecordError
from llm_worker.model.train import LearnerState
from llm_worker.process import LlmProcess
from mosaic.system import atomic

STATE = "checkpoints/learn.state"


class State(TypedDict):
    """One checkpoint: the training, and what the model could do before it."""

    training: LearnerState
    before: dict[str, float]


def save(process: LlmProcess, state: State, step: int) -> None:
    """Write a checkpoint; a reader sees the old or the new one, never half of it."""
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    data = buffer.getvalue()
    path = process.run_dir / STATE
    path.parent.mkdir(exist_ok=True)
    atomic.write_bytes(path, data)
    process.emit.checkpoint_saved(STATE, step, hashlib.sha256(data).hexdigest(), "full")


def load(run_dir: Path) -> State | None:
    """The newest checkpoint of a run; None when there is none."""
    path = run_dir / STATE
    if not path.exists():
        return None
    # Tensors and numbers only: a checkpoint from elsewhere may not run code.
    state: State = torch.load(path, weights_only=True, map_location="cpu")
    return state


def earlier_run(checkpoint_path: str) -> Path:
    """The run directory that a path of `--resume` means.

    Raises:
        RecordError: There is no checkpoint of a training there.
    """
    path = Path(checkpoint_path)
    for candidate in (path, path.parent, path.parent.parent):
        if (candidate / STATE).exists():
            return candidate
    raise RecordError(f"{checkpoint_path} is no checkpoint of llm_bc or llm_grpo")


def take_over(run_dir: Path, earlier: Path, *names: str) -> None:
    """Copy what a continued run needs from the one before; the checkpoint last.

    With the checkpoint the copy is complete: a kill before that repeats it.
    """
    if (run_dir / STATE).exists():
        return
    for name in (*names, STATE):
        if not (earlier / name).exists():
            raise RecordError(f"{earlier.name} has no {name}, without which it cannot continue")
        (run_dir / name).parent.mkdir(parents=True, exist_ok=True)
        half = run_dir / f"{name}.half"
        shutil.copyfile(earlier / name, half)
        half.rename(run_dir / name)
