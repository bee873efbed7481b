"""Files of a home that outlive a run's end: archived logs, what is removed, the space left."""

import logging
import os
import shutil
from pathlib import Path

from mosaic.config.paths import Home
from mosaic.config.secrets import SecretStore
from mosaic.config.settings import Settings
from mosaic.runs import opening
from mosaic.runs.directory import RunDirectory, remove_tree
from mosaic.system import atomic
from mosaic.trainer.launch import hardware
from mosaic.trainer.loop.tailer import cap_log

# A run makes some tens of files, and those that are running need room for theirs too.
_FILES_KEPT = 200

log = logging.getLogger(__name__)


class DiskWatch:
    """Follows the space that is left.

    Attributes:
        notice: A sentence when the disk is too full to start anything; empty when it is not.
    """

    def __init__(self, home: Home, settings: Settings) -> None:
        self._home = home
        self._settings = settings
        self.notice = ""

    def look(self) -> None:
        """Measure now."""
        root = self._home.root
        free, kept = hardware.disk_free_mb(root), self._settings.min_free_disk_mb
        files = hardware.files_free(root)
        if free < kept:
            left = f"{free} MB free, {kept} MB are kept"
        elif files is not None and files < _FILES_KEPT:
            left = f"only {files} more files can be created, {_FILES_KEPT} are kept"
        else:
            self.notice = ""
            return
        self.notice = f"disk almost full: {left}; free some under {root}"


def keep_logs(home: Home, run_id: str, directory: RunDirectory) -> None:
    """Hard-link the logs into the archive: no copy, and they outlive the run directory."""
    archive = home.logs / run_id
    try:
        archive.mkdir(mode=0o700, exist_ok=True)
        for path in (directory.stdout, directory.stderr):
            if not (archive / path.name).exists():
                _keep(directory, path.name, archive / path.name)
    except OSError as error:
        log.error("the logs of run %s could not be archived: %s", run_id, error)


def _keep(directory: RunDirectory, name: str, target: Path) -> None:
    try:
        descriptor = opening.open_regular(directory.path, f"logs/{name}")
    except OSError:
        return  # none was written, or something that is no log is in its place
    with os.fdopen(descriptor, "rb") as log_file:
        # The opened file and not its path, which may lead elsewhere by now. A link costs no space
        # and no time, whatever the log's size; another file system (a bind mount of `logs`) can
        # only be copied to.
        try:
            os.link(f"/proc/self/fd/{descriptor}", target, follow_symlinks=True)
        except OSError:
            with target.open("xb") as copy:
                shutil.copyfileobj(log_file, copy)


def remove_half_written(directory: RunDirectory) -> None:
    """Remove what a worker left when it was killed while saving; no process writes there now."""
    for folder in (directory.path, directory.path / "checkpoints"):
        try:
            names = [name for name in os.listdir(folder) if atomic.is_half_written(name)]
            for name in names:
                (folder / name).unlink(missing_ok=True)
        except OSError:
            continue


def cap_logs(directory: RunDirectory, settings: Settings) -> None:
    """Free the oldest part of logs that have grown past the limit."""
    for path in (directory.stdout, directory.stderr):
        cap_log(path, settings.log_cap_mb * 2**20)


def remove_files(home: Home, run_id: str, run_dir: Path) -> None:
    """Everything a run left in a home, its secrets included, gone for good."""
    # The secrets first: whatever fails after this leaves no credential behind.
    SecretStore(home.secrets).delete(run_id)
    for name in (f"config-{run_id}.json", f"worker-{run_id}.json"):
        (home.configs / name).unlink(missing_ok=True)
    remove_tree(home.logs / run_id)
    remove_tree(run_dir)


def has_expired(run_dir: Path, settings: Settings, now: float) -> bool:
    """Whether a folder has been in the trash for longer than it is kept there, as of `now`."""
    try:
        # The change time: a move sets it, and a user who writes into the folder does not end the
        # wait sooner, as the modification time of a file within could.
        moved_at = os.lstat(run_dir).st_ctime
    except OSError:
        return False
    return moved_at < now - settings.trash_days * 86400
