"""What a checkpoint file says about itself, read without torch and without running anything.

A file that torch saved is a zip archive whose `data.pkl` names the values; the tensors' bytes lie
beside it and are never touched here. Anything in it that is not plain data is refused.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cleanrl_worker.kit.checkpoint_files import POLICY_SUFFIX, STATE_SUFFIX, find, step_of
from cleanrl_worker.kit.errors import CheckpointError

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
    args: dict[str, Any]
    full: bool


def describe(path: Path) -> CheckpointInfo:
    """Read a checkpoint's own words.

    Raises:
        CheckpointError: It is damaged, or holds more than plain data.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            index = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            if archive.getinfo(index).file_size > _LARGEST_INDEX:
                raise CheckpointError(f"{path.name} is not a checkpoint: its index is too large.")
            with archive.open(index) as file:
                content = _PlainUnpickler(file).load()
    except CheckpointError as error:
        raise CheckpointError(f"{path} cannot be loaded safely: {error}") from None
    except (OSError, zipfile.BadZipFile, StopIteration) as error:
        reason = str(error) or "it has no index"
        raise CheckpointError(f"{path} is not a checkpoint that can be read: {reason}.") from None
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise CheckpointError(f"{path} is not a checkpoint that can be read: {text}.") from None
    return _info(path, content if isinstance(content, dict) else {})


def _info(path: Path, content: dict[Any, Any]) -> CheckpointInfo:
    args = content.get("args")
    step = content.get("step")
    return CheckpointInfo(
        path=path,
        algorithm=str(content.get("algorithm") or ""),
        env_id=str(content.get("env_id") or ""),
        step=step if isinstance(step, int) else max(step_of(path), 0),
        args=dict(args) if isinstance(args, dict) else {},
        full="objects" in content,
    )


def locate(given: str, run_dir: Path | None, suffix: str, *, check: bool) -> Path:
    """The checkpoint file behind what a user gave: a file, a folder of them or a run directory.

    Args:
        given: An absolute path, or one relative to the run directory or the working directory.
        run_dir: The run's own directory.
        suffix: Which kind is wanted; the other kind beside it is exchanged for it.
        check: Whether to compare the content with its checksum, which reads the whole file.

    Raises:
        CheckpointError: There is none, or none that is valid.
    """
    path = Path(given).expanduser()
    if not path.is_absolute():
        inside = (run_dir or Path()) / path
        path = inside if inside.exists() else Path.cwd() / path
    other = POLICY_SUFFIX if suffix == STATE_SUFFIX else STATE_SUFFIX
    if path.suffix == other and path.with_suffix(suffix).is_file():
        path = path.with_suffix(suffix)
    if not path.exists():
        raise CheckpointError(f"there is no file or folder {path}")
    if suffix == STATE_SUFFIX and path.suffix == POLICY_SUFFIX:
        raise CheckpointError(
            f"{path} holds the policy alone; training continues from a full state "
            f"(step-<N>{STATE_SUFFIX} in a run's checkpoints folder)"
        )
    if path.is_file() and not check:
        return path
    if not check:
        folder = path / "checkpoints" if (path / "checkpoints").is_dir() else path
        candidates = sorted(folder.glob(f"step-*{suffix}"), key=step_of, reverse=True)
        whole = next(filter(zipfile.is_zipfile, candidates), None)
        if whole is not None:
            return whole
    if path.is_file() and suffix == POLICY_SUFFIX and step_of(path) < 0:
        return path
    return find(path, suffix)[0]


class _Inert:
    """Stands where a tensor would be."""

    def __init__(self, *parts: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


class _PlainUnpickler(pickle.Unpickler):
    """Builds plain values only; the names of torch become placeholders, all others an error."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module in _TORCH_MODULES:
            return _Inert
        raise CheckpointError(f"it holds {module}.{name}, which is not plain data.")

    def persistent_load(self, pid: Any) -> None:
        return None
