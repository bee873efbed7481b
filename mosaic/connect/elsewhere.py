"""A daemon that is not the one of this home: by an invitation's file or by ssh.

`--connect` and `MOSAIC_CONNECT` name it in one text, the same for every client.
"""

import os
from pathlib import Path
from typing import Protocol

from mosaic.connect.invitation import Invitation

CONNECT_VARIABLE = "MOSAIC_CONNECT"
SCHEME = "ssh://"


class Elsewhere(Protocol):
    """A way to a daemon whose home this process cannot read."""

    @property
    def title(self) -> str:
        """What people call the other end, in a few letters."""

    def reach(self, start: bool = False) -> Invitation:
        """Where the daemon is now, and the token that opens it.

        Args:
            start: Start one if none runs, where that is possible.

        Raises:
            MosaicError: It cannot be reached; says why and what to do.
        """

    def local_socket(self, path: str) -> str:
        """The path of a socket here that leads to a socket of the daemon's machine.

        Raises:
            UnreachableError: There is no connection.
        """

    def release(self) -> None:
        """Say that this user needs the way no more; the last one closes it."""


def named_elsewhere() -> str:
    """What MOSAIC_CONNECT names; empty means the daemon of this home."""
    return os.environ.get(CONNECT_VARIABLE, "")


def find_way(text: str) -> Elsewhere:
    """The way that a text names: `ssh://…` or the path of an invitation. Release it after use.

    Raises:
        InvalidArgumentError: It is no proper address.
        SecretError: The file is no invitation, or others may read it.
    """
    if text.startswith(SCHEME):
        # Here: most commands talk to this machine and need nothing of ssh.
        from mosaic.connect.remote_home import RemoteHome
        from mosaic.connect.tunnel import borrow

        return borrow(RemoteHome.parse(text))
    return Invitation.load(Path(text).expanduser())
