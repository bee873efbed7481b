"""Which checkpoint files a folder holds: names, newest valid one, pruning. No torch needed."""

from __future__ import annotations

import re
from pathlib import Path

from cleanrl_worker.kit import files
from cleanrl_worker.kit.errors import CheckpointError

POLICY_SUFFIX = ".cleanrl_model"
STATE_SUFFIX = ".state"
_NAME = re.compile(r"step-(\d+)\.(?:state|cleanrl_model)")


def prune(folder: Path, keep: int) -> None:
    """Keep the newest checkpoints and remove the older ones with their checksums."""
    steps = sorted({step_of(path) for path in folder.glob("step-*") if _NAME.fullmatch(path.name)})
    for step in steps[:-keep]:
        for suffix in (POLICY_SUFFIX, STATE_SUFFIX):
            files.remove_checked(folder / f"step-{step}{suffix}")


def step_of(path: Path) -> int:
    """The step in a checkpoint's file name, or -1."""
    match = _NAME.fullmatch(path.name)
    return int(match.group(1)) if match else -1


def find(where: Path, suffix: str = STATE_SUFFIX) -> tuple[Path, list[str]]:
    """Find the checkpoint to continue from.

    Args:
        where: a checkpoint file, a checkpoints folder or a run directory.
        suffix: which of the two kinds is wanted.

    Returns:
        The newest valid file, and a sentence for each newer one that was passed over.

    Raises:
        CheckpointError: when there is none.
    """
    if where.is_file():
        if problem := files.checksum_problem(where):
            raise CheckpointError(
                f"The checkpoint cannot be used: {problem}. Give another file, or its folder "
                f"to take the newest valid one: --resume {where.parent}"
            )
        return where, []
    folder = where / "checkpoints" if (where / "checkpoints").is_dir() else where
    candidates = sorted(folder.glob(f"step-*{suffix}"), key=step_of, reverse=True)
    problems: list[str] = []
    for candidate in candidates:
        problem = files.checksum_problem(candidate)
        if problem is None:
            return candidate, problems
        problems.append(problem)
    detail = f" ({'; '.join(problems)})" if problems else ""
    raise CheckpointError(
        f"There is no valid checkpoint (*{suffix}) in {where}{detail}. "
        f"Give a file or a run directory that has one: --resume <run-dir>"
    )
