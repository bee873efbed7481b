"""Checkpoint files on disk: their names, the newest valid one, what they say about themselves.

Needs no torch, so the worker process can answer before the training process exists. A file that
torch saved is a zip archive whose `data.pkl` names the values; the tensors' bytes are separate
entries that are never read here. Anything in `data.pkl` that is not plain data is refused.
"""

from __future__ import annotations

import pickle
import re
import zipfile
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from cleanrl_worker.kit.errors import CheckpointError
from cleanrl_worker.running import checked_files
from mosaic.config.keeping import KeepPolicy
from mosaic.errors import FenceError
from mosaic.runs.pins import finish_removals, remove_unless_pinned
from mosaic.system import fenced

if TYPE_CHECKING:
    from mosaic.config.json_types import JsonValue

POLICY_SUFFIX = ".cleanrl_model"
STATE_SUFFIX = ".state"
_NAME = re.compile(r"step-(\d+)\.(?:state|cleanrl_model)")
# An index names values and holds no tensor data: ours have some kilobytes.
_LARGEST_INDEX = 64 * 2**20
_TORCH_MODULES = ("torch", "torch._utils", "torch.storage", "torch._tensor", "numpy")


@dataclass(frozen=True)
class CheckpointInfo:
    """One checkpoint file.

    Attributes:
        path: The file.
        algorithm: Which algorithm file wrote it; empty for a plain state dict.
        env_id: The environment it was trained in.
        step: The environment step that was reached.
        args: The arguments of that run.
        full: Whether it holds everything that a run needs to continue.
    """

    path: Path
    algorithm: str
    env_id: str
    step: int
    args: dict[str, JsonValue]
    full: bool

    @property
    def foreign_module(self) -> str:
        """Why its environment is not used unasked; empty when it may be."""
        return foreign_module(self.path, self.env_id)


def foreign_module(path: Path, env_id: str) -> str:
    """Why a checkpoint's own environment is not used unless the user names it too.

    `module:Env` makes Gymnasium import a module. Which module runs is the user's choice, not that
    of a file, which may have come from elsewhere.
    """
    if ":" not in env_id:
        return ""
    return (
        f"{path.name} names the environment {env_id!r}, for which a module would be imported; if "
        f"you trust it, give it yourself: --env-id {env_id}"
    )


def step_of(path: Path) -> int:
    """The step in a checkpoint's file name, or -1."""
    match = _NAME.fullmatch(path.name)
    return int(match.group(1)) if match else -1


def prune(
    folder: Path,
    keep: KeepPolicy,
    scores: Mapping[int, float] | None = None,
    undecided: Collection[int] = (),
) -> None:
    """Remove the checkpoints that are not to be kept, with their checksums.

    Args:
        folder: Where they are.
        keep: Which ones stay.
        scores: The return of each step, as far as it is known.
        undecided: Steps that stay because their score is still to come.
    """
    steps = {step_of(path) for path in folder.glob("step-*") if _NAME.fullmatch(path.name)}
    known = scores or {}
    kept = keep.kept({step: known.get(step) for step in steps})
    finish_removals(folder)
    for step in steps - kept - set(undecided):
        files = [folder / f"step-{step}{suffix}" for suffix in (POLICY_SUFFIX, STATE_SUFFIX)]
        # The files first: the other order would leave files that look damaged.
        if remove_unless_pinned(files):
            for file in files:
                checked_files.checksum_path(file).unlink(missing_ok=True)


def find(where: Path, suffix: str = STATE_SUFFIX) -> tuple[Path, list[str]]:
    """Find the checkpoint to continue from.

    Args:
        where: A checkpoint file, a checkpoints folder or a run directory.
        suffix: Which of the two kinds is wanted.

    Returns:
        The newest valid file, and a sentence for each newer one that was skipped.

    Raises:
        CheckpointError: There is none.
    """
    if where.is_file():
        if problem := checked_files.checksum_problem(where):
            raise CheckpointError(
                f"The checkpoint cannot be used: {problem}. Give another file, or its folder "
                f"to take the newest valid one: --resume {where.parent}"
            )
        return where, []
    problems: list[str] = []
    for candidate in _newest_first(where, suffix):
        # Only we write checksums; a policy that was not saved by us has none.
        foreign = step_of(candidate) < 0
        problem = None if foreign else checked_files.checksum_problem(candidate)
        if problem is None:
            return candidate, problems
        problems.append(problem)
    detail = f" ({'; '.join(problems)})" if problems else ""
    raise CheckpointError(
        f"There is no valid checkpoint (*{suffix}) in {where}{detail}. "
        f"Give a file or a run directory that has one: --resume <run-dir>"
    )


def locate(given: str, run_dir: Path | None, suffix: str, *, check: bool) -> Path:
    """The checkpoint file that a user means: a file, a folder of them or a run directory.

    Args:
        given: An absolute path, or one relative to the run directory or the working directory.
        run_dir: The run's own directory.
        suffix: Which kind is wanted; the other kind of the same step is exchanged for it.
        check: Whether to compare the content with its checksum, which reads the whole file.

    Raises:
        CheckpointError: There is none, or none that is valid.
    """
    path = _exchanged(_absolute(given, run_dir), suffix)
    if not path.exists():
        raise CheckpointError(f"there is no file or folder {path}")
    if suffix == STATE_SUFFIX and path.suffix == POLICY_SUFFIX:
        # A policy without its state: training can begin with its weights.
        suffix = POLICY_SUFFIX
    if path.is_file() and not check:
        return path
    if not check:
        # A zip archive has its table of contents at the end: one cut short is recognised
        # without reading gigabytes.
        whole = next(filter(zipfile.is_zipfile, _newest_first(path, suffix)), None)
        if whole is not None:
            return whole
    if path.is_file() and suffix == POLICY_SUFFIX and step_of(path) < 0:
        return path  # a user's own policy file, which has no checksum
    return find(path, suffix)[0]


def _absolute(given: str, run_dir: Path | None) -> Path:
    path = Path(given).expanduser()
    if path.is_absolute():
        return path
    inside = (run_dir or Path()) / path
    return inside if inside.exists() else Path.cwd() / path


def _exchanged(path: Path, suffix: str) -> Path:
    other = POLICY_SUFFIX if suffix == STATE_SUFFIX else STATE_SUFFIX
    if path.suffix == other and path.with_suffix(suffix).is_file():
        return path.with_suffix(suffix)
    return path


def _newest_first(where: Path, suffix: str) -> list[Path]:
    folder = where / "checkpoints" if (where / "checkpoints").is_dir() else where
    numbered = sorted(folder.glob(f"step-*{suffix}"), key=step_of, reverse=True)
    if numbered or suffix != POLICY_SUFFIX:
        return numbered
    # Upstream's scripts name the one policy that they save after themselves.
    return sorted(folder.glob(f"*{suffix}"))


def describe(path: Path) -> CheckpointInfo:
    """Read what a checkpoint says about itself.

    The file may come from anywhere, and some hundred bytes of pickle can compute for years. So it
    is read in a process of its own, with limits on time and memory.

    Raises:
        CheckpointError: It is damaged, or holds more than plain data.
    """
    try:
        answer = _described(str(path.absolute()), _mark(path))
    except (OSError, FenceError) as error:
        raise CheckpointError(f"{path} is not a checkpoint that can be read: {error}.") from None
    if isinstance(answer, str):
        raise CheckpointError(answer)
    return CheckpointInfo(path=path, **answer)


def _mark(path: Path) -> tuple[int, int, int]:
    """What changes when a file is written."""
    info = path.stat()
    return info.st_ino, info.st_size, info.st_mtime_ns


# The same file is looked at several times in a row: to complete a config, and to check it.
@lru_cache(maxsize=64)
def _described(path: str, mark: tuple[int, int, int]) -> _Description | str:
    """What the helper process answers: a description, or why there is none."""
    try:
        answer: object = fenced.call(f"{__name__}:read_description", path)
    except FenceError as error:
        if not error.final:
            raise
        answer = f"{path} is not a checkpoint that can be read: {error}."
    return cast("_Description | str", answer)


def read_description(path: object) -> JsonValue:
    """Behind the fence: the fields of a `CheckpointInfo`, or a sentence that says what is wrong."""
    try:
        content = _read_index(Path(str(path)))
    except CheckpointError as error:
        return f"{path} cannot be loaded safely: {error}"
    except (OSError, zipfile.BadZipFile, StopIteration) as error:
        reason = str(error) or "it has no index"
        return f"{path} is not a checkpoint that can be read: {reason}."
    except Exception as error:
        # A hostile or damaged pickle may raise anything at all.
        text = f"{type(error).__name__}: {error}"
        return f"{path} is not a checkpoint that can be read: {text}."
    description = _description(Path(str(path)), content if isinstance(content, dict) else {})
    return cast("JsonValue", description)


def _read_index(path: Path) -> object:
    with zipfile.ZipFile(path) as archive:
        index = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        if archive.getinfo(index).file_size > _LARGEST_INDEX:
            raise CheckpointError(f"{path.name} is not a checkpoint: its index is too large.")
        with archive.open(index) as file:
            content: object = _PlainUnpickler(file).load()
    return content


class _Description(TypedDict):
    """What a `CheckpointInfo` has beside its path."""

    algorithm: str
    env_id: str
    step: int
    args: dict[str, JsonValue]
    full: bool


def _description(path: Path, content: Mapping[object, object]) -> _Description:
    args = content.get("args")
    step = content.get("step")
    return _Description(
        algorithm=str(content.get("algorithm") or ""),
        env_id=str(content.get("env_id") or ""),
        step=step if isinstance(step, int) else max(step_of(path), 0),
        args=dict(args) if isinstance(args, dict) else {},
        full="objects" in content,
    )


class _Placeholder:
    """Takes the place of a tensor."""

    def __init__(self, *parts: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


class _PlainUnpickler(pickle.Unpickler):
    """Builds plain values only; the names of torch become placeholders, all others an error."""

    def find_class(self, module: str, name: str) -> type:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module in _TORCH_MODULES:
            return _Placeholder
        raise CheckpointError(f"it holds {module}.{name}, which is not plain data.")

    def persistent_load(self, pid: object) -> None:
        return None
