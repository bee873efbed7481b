"""Files of a home that outlive a turn: archived logs, the trash, and the space that is left."""

import logging
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from mosaic.config.paths import Home
from mosaic.config.secrets import SecretStore
from mosaic.config.settings import Settings
from mosaic.runs.directory import RunDirectory, remove_tree
from mosaic.trainer.launch import hardware
from mosaic.trainer.loop.tailer import cap_log

log = logging.getLogger(__name__)


def space_notice(home: Home, settings: Settings) -> str:
    """A sentence when the disk is too full to start anything; empty when it is not."""
    free, kept = hardware.disk_free_mb(home.root), settings.min_free_disk_mb
    if free >= kept:
        return ""
    return f"disk almost full: {free} MB free, {kept} MB are kept; free some under {home.root}"


def keep_logs(home: Home, run_id: str, directory: RunDirectory) -> None:
    """Hard-link the logs into the archive: no copy, and they outlive the run directory."""
    archive = home.logs / run_id
    try:
        archive.mkdir(exist_ok=True)
        for path in (directory.stdout, directory.stderr):
            if path.is_file() and not path.is_symlink() and not (archive / path.name).exists():
                try:
                    os.link(path, archive / path.name)
                except OSError:
                    shutil.copyfile(path, archive / path.name)
    except OSError as error:
        log.error("the logs of run %s could not be archived: %s", run_id, error)


def cap_logs(directories: Iterable[RunDirectory], settings: Settings) -> None:
    """Give back the oldest part of logs that have grown past the limit."""
    for directory in directories:
        for path in (directory.stdout, directory.stderr):
            cap_log(path, settings.log_cap_mb * 2**20)


def remove_files(home: Home, run_id: str, run_dir: Path) -> None:
    """Everything a run left in a home, its secrets included, gone for good."""
    SecretStore(home.secrets).delete(run_id)
    for name in (f"config-{run_id}.json", f"worker-{run_id}.json"):
        (home.configs / name).unlink(missing_ok=True)
    remove_tree(home.logs / run_id)
    remove_tree(run_dir)


def has_expired(run_dir: Path, settings: Settings) -> bool:
    """Whether a folder has been in the trash for longer than it is kept there."""
    try:
        moved_at = run_dir.stat().st_ctime
    except FileNotFoundError:
        return False
    return moved_at < time.time() - settings.trash_days * 86400
