"""What of a run directory goes to the daemon, and how: pure names, and one look at the folder."""

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mosaic.config.keeping import PIN_SUFFIX

LOGS = "logs/"
_TELEMETRY = "telemetry/"
_GROWING = (LOGS, "tensorboard/")
_GROWING_SUFFIXES = (".points", ".jsonl")
# The daemon's own, or records of this machine alone.
_NEVER = frozenset({"config.json", "events.jsonl", "fence", "imported.json"})
_NEVER_STEMS = ("control", "stop-asked", "lease", "fastlane")
_DEEPEST = 8


@dataclass(frozen=True)
class Found:
    """A file of the run, as it was at the moment of the look."""

    size: int
    modified_ns: int
    inode: int


def grows(path: str) -> bool:
    """Whether a file is only ever appended to, so that its new end is enough."""
    if path.endswith("/"):
        return False
    return path.startswith(_GROWING) or path.endswith(_GROWING_SUFFIXES)


def is_record(path: str, kind: str) -> bool:
    """Whether a file is the record `exit` or `supervisor` of some attempt."""
    name = PurePosixPath(path).name
    return "/" not in path and name.startswith(kind) and name.endswith(".json")


def belongs(path: str, ended: bool = False) -> bool:
    """Whether a file goes to the daemon at all.

    Args:
        path: Relative to the run directory.
        ended: The worker has ended: what it could not deliver itself goes too.
    """
    parts = PurePosixPath(path).parts
    name = parts[-1]
    if path.endswith("/"):
        return not name.startswith((".", *_NEVER_STEMS)) and not path.startswith(_TELEMETRY)
    if path.startswith(_TELEMETRY):
        # The daemon keeps the store; only what never reached it is sent, once it is final.
        return ended and name.startswith("spool-")
    if path in _NEVER or parts[0].startswith(_NEVER_STEMS) or name.endswith((".tmp", ".lock")):
        return False
    return not name.startswith(".") and not name.endswith(PIN_SUFFIX)


def look(root: Path) -> dict[str, Found]:
    """Every regular file and folder below a folder, by its path in it; links are not followed.

    The path of a folder ends with `/`. Folders count too: a worker that makes `metrics/` says by
    that alone that it keeps its curves itself.
    """
    found: dict[str, Found] = {}
    _look(str(root), "", found, 0)
    return found


def _look(root: str, prefix: str, found: dict[str, Found], depth: int) -> None:
    try:
        entries = list(os.scandir(os.path.join(root, prefix)))
    except OSError:
        return  # removed in the meantime
    for entry in entries:
        path = f"{prefix}{entry.name}"
        try:
            if entry.is_dir(follow_symlinks=False):
                found[f"{path}/"] = Found(0, 0, 0)
                if depth < _DEEPEST:
                    _look(root, f"{path}/", found, depth + 1)
            elif entry.is_file(follow_symlinks=False):
                info = entry.stat(follow_symlinks=False)
                found[path] = Found(info.st_size, info.st_mtime_ns, info.st_ino)
        except OSError:
            continue
