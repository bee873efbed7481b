"""Copies of runs' files that a program on this machine has to open: videos, event files, studies.

The files come through the daemon. They are kept in a folder of the window's own, which goes when
the window does.
"""

import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path

from mosaic.client import TrainerClient
from mosaic.config.paths import confine

# Enough to go back and forth between a few runs; event files of a long run can be large.
_MOST_RUNS = 8


class RunCache:
    """The copies of each run, for as many runs as were looked at last. Its methods may block."""

    def __init__(self) -> None:
        # Readable for this user alone, which `mkdtemp` makes sure of: logs and configs are private.
        self._root = Path(tempfile.mkdtemp(prefix="mosaic-window-"))
        self._lock = threading.Lock()
        # One download a run at a time: two that write the same copy would spoil it.
        self._runs: OrderedDict[str, threading.Lock] = OrderedDict()
        self._closed = False

    def fetch(self, client: TrainerClient, run_id: str, path: str) -> Path:
        """A fresh copy of a file that is changed in place: a database, a video."""
        folder, lock = self._use(run_id)
        with lock:
            target = _target(folder, path)
            # `download` only appends; a database that was changed in place would become a mixture.
            target.unlink(missing_ok=True)
            client.download(run_id, path, target)
            return target

    def follow(self, client: TrainerClient, run_id: str, paths: list[str]) -> Path:
        """Bring copies of files that only grow up to date; the folder they are in."""
        folder, lock = self._use(run_id)
        with lock:
            for path in paths:
                client.download(run_id, path, _target(folder, path))
        return folder

    def gather(
        self, client: TrainerClient, board: str, runs: Mapping[str, tuple[str, Sequence[str]]]
    ) -> Path:
        """Bring copies of several runs' files up to date, side by side in one folder.

        Args:
            client: A connection.
            board: A name for the folder.
            runs: The run id and the files of each run, by the name of its own folder in it.
        """
        folder, lock = self._use(board)
        with lock:
            for name, (run_id, paths) in runs.items():
                for path in paths:
                    # Without the folder that is the same for all: only its own name is shown.
                    inside = path.partition("/")[2] or path
                    client.download(run_id, path, _target(folder, f"{name}/{inside}"))
        return folder

    def close(self) -> None:
        """Remove every copy."""
        with self._lock:
            self._closed = True
        shutil.rmtree(self._root, ignore_errors=True)

    def _use(self, run_id: str) -> tuple[Path, threading.Lock]:
        with self._lock:
            if self._closed:
                raise OSError("the window is closing")
            lock = self._runs.setdefault(run_id, threading.Lock())
            self._runs.move_to_end(run_id)
            while len(self._runs) > _MOST_RUNS:
                oldest, _ = self._runs.popitem(last=False)
                shutil.rmtree(self._root / oldest, ignore_errors=True)
            folder = self._root / run_id
            folder.mkdir(mode=0o700, exist_ok=True)
            return folder, lock


def _target(folder: Path, path: str) -> Path:
    # A daemon elsewhere names the path; a name that leads out of the cache is refused.
    target = confine(folder, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    return target
