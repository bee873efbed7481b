"""Whose a file is. What another user wrote is not trusted, whatever it says."""

import os
import pwd
import stat
from pathlib import Path


def foreign(path: Path, info: os.stat_result) -> str:
    """Why a file must not be trusted, with the fix; empty when it may be.

    It has to belong to the user of this process. The superuser's files are trusted as well: who
    can write those can do anything already.
    """
    user = os.geteuid()
    if info.st_uid in (user, 0):
        return ""
    return (
        f"{path} belongs to {_name(info.st_uid)}, and this process runs as {_name(user)}: what "
        f"another user wrote is not trusted; run as {_name(info.st_uid)}, or, if the files are "
        f"yours, run: chown -R {_name(user)} {path}"
    )


def writable_by_others(path: Path, info: os.stat_result) -> str:
    """Why a file may have been changed by another user, with the fix; empty when it cannot be."""
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{path} can be written by others; look at it, then run: chmod 600 {path}"
    return ""


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
