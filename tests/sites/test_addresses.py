"""Where a worker finds its daemon, on this machine and on another one."""

import json
import os
import socket
from pathlib import Path

import pytest

from mosaic.config.paths import HOME_VARIABLE, Home
from mosaic.connect import endpoint
from mosaic.connect.endpoint import Address, Endpoint, current_address
from mosaic.system.processes import ProcessKey, boot_id, start_time

GIVEN = Address("login1:50055")


def _announce(root: Path, key: ProcessKey, machine: str) -> None:
    home = Home(root)
    home.trainer.mkdir()
    endpoint.announce(home, Endpoint("login1", 50060, "x", key, "PEM", "login1"))
    document = json.loads(home.endpoint.read_text())
    home.endpoint.write_text(json.dumps({**document, "machine": machine}))


@pytest.mark.parametrize(
    ("key", "machine", "found"),
    [
        # The shared folder of a cluster: the daemon is on the login node, with its certificate.
        (ProcessKey(7, 7, "of-login1"), "login1", Address("login1:50060", "PEM", "login1")),
        # This machine before it was restarted, and a process that is gone.
        (ProcessKey(7, 7, "before"), socket.gethostname(), GIVEN),
        (ProcessKey(os.getpid(), 1, boot_id()), socket.gethostname(), GIVEN),
        (
            ProcessKey(os.getpid(), start_time(os.getpid()) or 0, boot_id()),
            socket.gethostname(),
            Address("login1:50060", "PEM", "login1"),
        ),
    ],
    ids=["elsewhere", "restarted", "gone", "here"],
)
def test_a_worker_finds_its_daemon(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: ProcessKey,
    machine: str,
    found: Address,
) -> None:
    """The newest announcement counts, with its certificate, unless its process is known dead."""
    _announce(tmp_path, key, machine)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    assert current_address(GIVEN) == found


def test_a_socket_can_stand_for_host_and_port(tmp_path: Path) -> None:
    """What an agent announces is a way to the daemon, not an address of its own."""
    key = ProcessKey(os.getpid(), start_time(os.getpid()) or 0, boot_id())
    home = Home(tmp_path)
    home.trainer.mkdir()
    endpoint.announce(home, Endpoint("", 0, "", key, "PEM", "n", "unix:/x/daemon"))
    assert endpoint.find_endpoint(home).address == Address("unix:/x/daemon", "PEM", "n")
