"""The extra environment variables of runs that wait for their start."""

import os
from collections.abc import Mapping
from pathlib import Path

from mosaic.config.paths import Home
from mosaic.runs.directory import RunDirectory
from mosaic.runs.opening import open_regular, read_document
from mosaic.system.shortage import shortage

_Mark = tuple[int, int, int]


class RunEnvironments:
    """What each waiting run wants in its environment, secrets by reference.

    The configuration was parsed when the run was submitted. It is read from the disk again only
    where that is no longer known: after a restart of the daemon, or when the file has changed.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._known: dict[str, tuple[_Mark | None, Mapping[str, str]]] = {}

    def keep(self, run_id: str, environment: Mapping[str, str]) -> None:
        """Remember the environment of a run that has just been submitted."""
        self._known[run_id] = (self._mark(run_id), environment)

    def find(self, run_id: str) -> Mapping[str, str] | None:
        """The environment of a run; None when its configuration is gone or damaged.

        Raises:
            OSError: It could not be read for want of descriptors or memory.
        """
        mark = self._mark(run_id)
        if mark is None:
            return None
        if run_id not in self._known or self._known[run_id][0] != mark:
            document = read_document(self._path(run_id))
            environment = document.get("environment", {}) if document is not None else None
            if not isinstance(environment, dict):
                _raise_if_short(self._path(run_id))
                return None
            self._known[run_id] = (mark, {str(key): str(environment[key]) for key in environment})
        return self._known[run_id][1]

    def take(self, run_id: str) -> Mapping[str, str]:
        """The environment of a run that starts now; it is not needed again."""
        environment = self.find(run_id)
        self.forget(run_id)
        return environment or {}

    def forget(self, run_id: str) -> None:
        """A run has started, or ended before it could."""
        self._known.pop(run_id, None)

    def _mark(self, run_id: str) -> _Mark | None:
        """What changes when the file is written; None when it is not there."""
        try:
            info = self._path(run_id).stat()
        except OSError:
            return None
        return info.st_ino, info.st_size, info.st_mtime_ns

    def _path(self, run_id: str) -> Path:
        return RunDirectory(self._home.run_dir(run_id)).config


def _raise_if_short(path: Path) -> None:
    """A file that could not be read for want of room is not damaged: its run has to wait."""
    try:
        os.close(open_regular(path.parent, path.name))
    except OSError as error:
        if shortage(error):
            raise
