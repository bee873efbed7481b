"""Where a home's daemon listens: the only reader and the only writer of `daemon.json`.

This module needs no gRPC, so a worker that still has to fork may use it.
"""

import ipaddress
import os
import socket
from dataclasses import dataclass

from mosaic import __version__
from mosaic.config.json_types import JsonValue
from mosaic.config.paths import HOME_VARIABLE, Home
from mosaic.errors import DaemonNotRunningError
from mosaic.runs.directory import read_json
from mosaic.system import atomic, processes
from mosaic.system.processes import ProcessKey


@dataclass(frozen=True)
class Address:
    """What a channel needs to know.

    Attributes:
        target: `host:port`, an IPv6 host in brackets.
        certificate: The daemon's certificate as PEM text, empty without TLS. It is kept as text
            and not as a path: the file may be renewed or moved while the daemon still shows
            the certificate that it started with.
        name: A name that the certificate carries.
    """

    target: str
    certificate: str = ""
    name: str = ""


@dataclass(frozen=True)
class Endpoint:
    """The daemon of a home, as it announced itself.

    Attributes:
        place: Where it is reached instead of `host:port`, such as `unix:PATH`: an agent announces
            a daemon on another machine like this.
    """

    host: str
    port: int
    instance: str
    key: ProcessKey
    certificate: str = ""
    name: str = ""
    place: str = ""

    @property
    def pid(self) -> int:
        return self.key.pid

    @property
    def target(self) -> str:
        return self.place or join(self.host, self.port)

    @property
    def address(self) -> Address:
        return Address(self.target, self.certificate, self.name)


def join(host: str, port: int) -> str:
    """`host:port` as gRPC reads it: an IPv6 address needs brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def reachable_host(listen: str) -> str:
    """The address at which this machine reaches a daemon that listens on `listen`.

    `0.0.0.0` and `::` mean every address. They can be listened on, not connected to.
    """
    try:
        address = ipaddress.ip_address(listen)
    except ValueError:
        return listen
    if not address.is_unspecified:
        return listen
    return "127.0.0.1" if address.version == 4 else "::1"


def announce(home: Home, endpoint: Endpoint) -> None:
    """Say where the daemon is, to all who can read this home."""
    document = {
        "host": endpoint.host,
        "port": endpoint.port,
        "pid": endpoint.key.pid,
        "start_time": endpoint.key.start_time,
        "boot_id": endpoint.key.boot_id,
        "machine": socket.gethostname(),
        "instance": endpoint.instance,
        "certificate": endpoint.certificate,
        "name": endpoint.name,
        "place": endpoint.place,
        "version": __version__,
    }
    # Whole or not at all: clients poll for this file while the daemon starts.
    atomic.write_json(home.endpoint, document, mode=0o600)


def find_endpoint(home: Home) -> Endpoint:
    """The daemon of a home, if the process that announced itself still runs.

    Raises:
        DaemonNotRunningError: No daemon runs, or its announcement is damaged.
    """
    endpoint, _ = _announced(home)
    # A pid alone proves nothing: after a crash another program may have it, and may listen on
    # the daemon's old port.
    if not processes.is_alive(endpoint.key):
        raise DaemonNotRunningError(
            f"the daemon of {home.root} (pid {endpoint.pid}) is gone; start it again: mosaic up"
        )
    return endpoint


def last_port(home: Home) -> int:
    """Where the last daemon of a home listened, if it was killed; 0 if it said goodbye."""
    try:
        return _announced(home)[0].port
    except DaemonNotRunningError:
        return 0


def _announced(home: Home) -> tuple[Endpoint, str]:
    """What the last daemon of a home said of itself, and the machine that it was on."""
    document = read_json(home.endpoint)
    if document is None:
        raise DaemonNotRunningError(f"no daemon is running for {home.root}; start one: mosaic up")
    try:
        key = ProcessKey(
            _number(document["pid"]), _number(document["start_time"]), str(document["boot_id"])
        )
        endpoint = Endpoint(
            str(document["host"]),
            _number(document["port"]),
            str(document["instance"]),
            key,
            str(document.get("certificate", "")),
            str(document.get("name", "")),
            str(document.get("place", "")),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DaemonNotRunningError(
            f"{home.endpoint} is damaged ({type(error).__name__}: {error}); if a daemon still "
            f"runs, end it (its pid is in {home.lock}), then: mosaic up"
        ) from None
    return endpoint, str(document.get("machine", ""))


def _number(value: JsonValue) -> int:
    if not isinstance(value, int | float | str):
        raise TypeError(f"{value!r} is not a number")
    return int(value)


def current_address(fallback: Address) -> Address:
    """Where a worker's daemon is now; a restarted one may use another port or certificate.

    Args:
        fallback: The address to use when this process belongs to no home, or while the home
            has no daemon.
    """
    root = os.environ.get(HOME_VARIABLE, "")
    if not root:
        return fallback
    try:
        endpoint, machine = _announced(Home.locate(root))
    except DaemonNotRunningError:
        return fallback
    # On the node of a cluster the daemon's process cannot be looked for. A wrong address costs a
    # call that no one answers; without the certificate in it no call would ever be answered.
    elsewhere = endpoint.key.boot_id != processes.boot_id() and machine != socket.gethostname()
    return endpoint.address if elsewhere or processes.is_alive(endpoint.key) else fallback
