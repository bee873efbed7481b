"""A file with which a client connects that cannot read the daemon's home.

It may be another user's, or on another machine. The file holds the home's token: who has it may
do everything that the home's owner may.
"""

import stat
from dataclasses import dataclass, field
from pathlib import Path

from mosaic.config.paths import Home
from mosaic.connect import auth
from mosaic.connect.endpoint import Address, find_endpoint
from mosaic.errors import SecretError
from mosaic.runs.directory import read_json
from mosaic.system import atomic


@dataclass(frozen=True)
class Invitation:
    """Where a daemon is, and the token that opens it."""

    address: Address
    token: bytes = field(repr=False)

    @classmethod
    def to_home(cls, home: Home) -> "Invitation":
        """To the daemon that serves a home now.

        Raises:
            DaemonNotRunningError: None runs.
            SecretError: The home's token cannot be used.
        """
        return cls(find_endpoint(home).address, auth.load_token(home.token))

    @classmethod
    def load(cls, path: Path) -> "Invitation":
        """Read one from its file.

        Raises:
            SecretError: The file is missing, damaged, or others may read it.
        """
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise SecretError(f"no invitation at {path}: {error.strerror}") from None
        # It holds the token, so it is guarded like the token's own file.
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise SecretError(f"{path} can be read by others; run: chmod 600 {path}")
        document = read_json(path) or {}
        try:
            address = Address(
                str(document["target"]),
                str(document.get("certificate", "")),
                str(document.get("name", "")),
            )
            return cls(address, str(document["token"]).encode())
        except (KeyError, AttributeError):
            raise SecretError(
                f"{path} is not an invitation; make one where the daemon runs: mosaic invite FILE"
            ) from None

    @property
    def title(self) -> str:
        """The daemon's address."""
        return self.address.target

    def reach(self, start: bool = False) -> "Invitation":
        """Itself: it names one daemon, which only its own machine can start."""
        return self

    def local_socket(self, path: str) -> str:
        """The same path: an invitation leads to no other machine's sockets."""
        return path

    def release(self) -> None:
        """Nothing: an invitation holds no connection."""

    def save(self, path: Path) -> None:
        """Write it to a file that only its owner can read."""
        atomic.write_json(
            path,
            {
                "target": self.address.target,
                "certificate": self.address.certificate,
                "name": self.address.name,
                "token": self.token.decode(),
            },
            mode=0o600,
        )
