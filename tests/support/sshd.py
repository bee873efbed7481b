"""A real sshd on a free port, for the user who runs the tests, with keys of its own.

Nothing of the user's own ssh configuration is read or changed.
"""

import getpass
import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from mosaic.system.processes import process_state

from .arithmetic import kernels
from .leaks import MARK
from .trainer import until
from .wire import Wire

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
MOSAIC = str(Path(sys.executable).with_name("mosaic"))
# Where a sshd of the superuser drops its rights; packages make it when the machine starts.
_PRIVATE_FOLDER = Path("/run/sshd")


class Sshd:
    """A running sshd, and the ssh command that is let in.

    Args:
        folder: Where its keys and settings are.
        variables: The environment of the sessions.
        wire: The network that it listens on; None for this machine's own.
    """

    def __init__(
        self, folder: Path, variables: Mapping[str, str], wire: Wire | None = None
    ) -> None:
        self._folder = folder
        self._host = wire.there if wire else "127.0.0.1"
        self._prefix = wire.prefix if wire else ()
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("host", "key", "stranger"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
            )
        shutil.copy(folder / "key.pub", folder / "authorized")
        (folder / "authorized").chmod(0o600)
        self.port = _free_port()
        host_key = (folder / "host.pub").read_text()
        (folder / "known").write_text(f"[{self._host}]:{self.port} {host_key}")
        (folder / "nobody").touch()
        given = {MARK: os.environ.get(MARK, ""), **kernels(), **variables}
        (folder / "sshd_config").write_text(
            f"""Port {self.port}
ListenAddress {self._host}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
SetEnv {" ".join(f'"{name}={value}"' for name, value in given.items())}
"""
        )

    def command(self, key: str = "key", known: str = "known") -> str:
        """The ssh command of a user with a key and a list of known hosts, for `MOSAIC_SSH`."""
        config = self._folder / f"config-{key}-{known}"
        config.write_text(
            f"""IdentityFile {self._folder}/{key}
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile {self._folder}/{known}
GlobalKnownHostsFile none
"""
        )
        return f"ssh -F {config}"

    def address(self, home: Path, program: str = MOSAIC) -> str:
        """A home as `--connect` names it."""
        return f"ssh://{getpass.getuser()}@{self._host}:{self.port}{home}?mosaic={program}"

    def start(self) -> "Sshd":
        """Begin to listen."""
        sshd = shutil.which("sshd", path=_PATH)
        assert sshd is not None
        with (self._folder / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(
                # In the foreground, its words into our file.
                [*self._prefix, sshd, "-D", "-e", "-f", self._folder / "sshd_config"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        until(self._listens, "sshd listens")
        return self

    def refusal(self) -> str:
        """Why this account cannot log in here at all, such as a locked one; empty if it can."""
        done = subprocess.run(
            [*self.command().split(), "-o", "BatchMode=yes", "-p", str(self.port),
             f"{getpass.getuser()}@{self._host}", "true"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stderr.strip() if done.returncode else ""

    def stop(self) -> None:
        """Stop listening; connections that are open stay open, as with any sshd."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def clients(self) -> list[int]:
        """The ssh processes of tunnels to this server."""
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        # `-M`: not the short commands that add a forwarding to a tunnel.
        mine = [pid for pid in pids if {"-M", str(self.port)} <= set(command_of(pid))]
        return [pid for pid in mine if process_state(pid) not in ("", "Z")]

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "sshd.log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex((self._host, self.port)) == 0


def _free_port() -> int:
    """A port below those that the system hands out, so that no other test gets it meanwhile."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def command_of(pid: int) -> list[str]:
    """The words of a process's command; none when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


@contextmanager
def sshd_at(folder: Path, variables: Mapping[str, str], wire: Wire | None = None) -> Iterator[Sshd]:
    """A sshd until the end of the block; skips the test where none is installed.

    Args:
        folder: Where its keys and settings are.
        variables: The environment of the sessions, as an account's own start files would set it.
        wire: The network that it listens on; None for this machine's own.
    """
    for program in ("sshd", "ssh", "ssh-keygen"):
        if shutil.which(program, path=_PATH) is None:
            pytest.skip(f"needs {program}: apt-get install openssh-server openssh-client")
    if os.geteuid() == 0:
        _PRIVATE_FOLDER.mkdir(mode=0o755, exist_ok=True)
    server = Sshd(folder, variables, wire).start()
    try:
        if problem := server.refusal():
            pytest.skip(f"this account cannot log in by ssh: {problem}")
        yield server
    finally:
        server.stop()
