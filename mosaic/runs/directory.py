"""The folder of one run: names of its files, creation, and removal that follows no link."""

import json
import os
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mosaic.config.json_types import JsonValue
from mosaic.system import atomic


@dataclass(frozen=True)
class RunDirectory:
    """Where the parts of a run are.

    Each attempt has records of its own: what a late process of an earlier one still writes is
    then read by no one.

    The paths are worked out once: every look at a live run, four times a second, asks for some.
    """

    path: Path
    attempt: int = 1

    def _own(self, stem: str, ending: str = "") -> Path:
        """A file of this attempt alone."""
        return self.path / (stem + (f"-{self.attempt}" if self.attempt > 1 else "") + ending)

    @cached_property
    def config(self) -> Path:
        return self.path / "config.json"

    @cached_property
    def logs(self) -> Path:
        return self.path / "logs"

    @cached_property
    def stdout(self) -> Path:
        return self.logs / "stdout.log"

    @cached_property
    def stderr(self) -> Path:
        return self.logs / "stderr.log"

    @cached_property
    def analytics(self) -> Path:
        return self.path / "analytics.json"

    @cached_property
    def play(self) -> Path:
        """Where a player finds the game; there while a game waits for one."""
        return self.path / "play.json"

    @cached_property
    def supervisor(self) -> Path:
        return self._own("supervisor", ".json")

    @cached_property
    def supervisor_lock(self) -> Path:
        return self._own("supervisor", ".lock")

    @cached_property
    def exit(self) -> Path:
        return self._own("exit", ".json")

    @cached_property
    def lease(self) -> Path:
        """What a supervisor on another machine writes again and again while it lives."""
        return self._own("lease", ".json")

    @cached_property
    def control(self) -> Path:
        """The signals for a worker on another machine, in order."""
        return self._own("control", ".json")

    @cached_property
    def fence(self) -> Path:
        """The number of the attempt that may write; supervisors of earlier ones end."""
        return self.path / "fence"

    @cached_property
    def stop_asked(self) -> Path:
        """Tells the supervisor of a worker that is started again after a kill to leave it dead."""
        return self._own("stop-asked")

    @cached_property
    def imported(self) -> Path:
        """There in a run that came from another home, where its idempotency key was spent."""
        return self.path / "imported.json"

    def create(self) -> None:
        """Make the folder of a new run.

        Raises:
            FileExistsError: A run with this id exists.
        """
        self.path.mkdir()
        self.logs.mkdir()


def read_json(path: Path) -> dict[str, JsonValue] | None:
    """A JSON object of the user's own files; None when it is absent or damaged.

    It follows links, as people expect of their own files. What a run has written is read with
    `mosaic.runs.opening.read_document`.
    """
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def remove_tree(path: Path) -> None:
    """Delete a folder without ever following a link out of it."""
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _remove_at(path.name, parent)
    finally:
        os.close(parent)
    atomic.sync_folder(path.parent)


def _remove_at(name: str, parent: int) -> None:
    try:
        # Relative to an open folder at every step: a folder that is replaced by a link in the
        # meantime cannot lead out.
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=parent)
        return
    folder = os.open(
        name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent
    )
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
        for child in names:
            _remove_at(child, folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=parent)
