"""A node with a network of its own: a namespace behind one virtual wire, which can be cut.

A cut wire is silent. Nothing says that a connection is over, as when a cable is pulled or a switch
fails; a process that is killed would close its connections and be noticed at once.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Wire:
    """A wire between this machine and one namespace.

    Attributes:
        here: Our address on it.
        there: The address of the other end.
        prefix: Starts a command at the other end.
    """

    def __init__(self) -> None:
        # Unique on this machine, also beside another run of the tests; devices take 15 letters.
        self._name = f"mos{os.getpid()}"
        self._ends = {f"{self._name}a": (), f"{self._name}b": ("-n", self._name)}
        # Of the range for measurements between networks, which no real network uses.
        net = f"198.18.{os.getpid() // 64 % 256}.{os.getpid() % 64 * 4}"
        first, last = net.rsplit(".", 1)
        self.here, self.there = f"{first}.{int(last) + 1}", f"{first}.{int(last) + 2}"
        # Not `ip netns exec`, which hides what is mounted under /sys; SLURM needs it.
        self.prefix = ("nsenter", f"--net=/run/netns/{self._name}")

    def make(self) -> None:
        """Make the namespace and the wire."""
        near, far = self._ends
        _do("ip", "netns", "add", self._name)
        _do("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", self._name)
        _do("ip", "-n", self._name, "link", "set", "lo", "up")
        for (end, inside), address in zip(self._ends.items(), (self.here, self.there), strict=True):
            _do("ip", *inside, "addr", "add", f"{address}/30", "dev", end)
            _do("ip", *inside, "link", "set", end, "up")

    def cut(self) -> None:
        """Lose every packet, both ways. Addresses and devices stay, as with a pulled cable."""
        for end, inside in self._ends.items():
            _do("tc", *inside, "qdisc", "add", "dev", end, "root", "pfifo", "limit", "0")

    def join(self) -> None:
        """Let packets through again."""
        for end, inside in self._ends.items():
            _do("tc", *inside, "qdisc", "del", "dev", end, "root")

    def remove(self) -> None:
        """Leave nothing of it; the second end goes with the first."""
        near = next(iter(self._ends))
        subprocess.run(["ip", "link", "del", near], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", self._name], capture_output=True, check=False)


@contextmanager
def wire() -> Iterator[Wire]:
    """A wire until the end of the block; skips the test where none can be made."""
    if os.geteuid() or not all(map(shutil.which, ("ip", "tc", "nsenter"))):
        pytest.skip("making a network namespace takes the rights of root, ip, tc and nsenter")
    made = Wire()
    try:
        try:
            made.make()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespace can be made here: {error.stderr.strip()}")
        yield made
    finally:
        made.remove()


def certificate(folder: Path, *addresses: str) -> tuple[str, ...]:
    """A certificate for these addresses, as options of a daemon that listens on the first."""
    names = ",".join(f"IP:{address}" for address in addresses)
    cert, key = folder / "cert.pem", folder / "cert.key"
    _do(
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", "2", "-subj", "/CN=mosaic", "-addext", f"subjectAltName={names}",
        "-out", str(cert), "-keyout", str(key),
    )  # fmt: skip
    key.chmod(0o600)
    return ("--listen", addresses[0], "--port", "0", "--tls-cert", str(cert), "--tls-key", str(key))


def _do(*command: str) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True)
