"""Finding the daemon of a home, proving it is ours, and starting it when there is none."""

import hmac
import os
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from mosaic.config.paths import Home
from mosaic.connect import auth
from mosaic.errors import (
    BindRefusedError,
    DaemonNotRunningError,
    DaemonRunningError,
    NotOurDaemonError,
    SecretError,
)
from mosaic.runs.directory import read_json
from mosaic.system.processes import ProcessKey, is_alive
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc

MAX_MESSAGE = 64 * 2**20
_START_LIMIT_S = 30.0
_OPTIONS = [("grpc.max_receive_message_length", MAX_MESSAGE)]


@dataclass(frozen=True)
class Endpoint:
    """Where a home's daemon says it is."""

    host: str
    port: int
    pid: int
    instance: str
    certificate: str
    key: ProcessKey

    @property
    def target(self) -> str:
        return f"{self.host}:{self.port}"


def find_endpoint(home: Home) -> Endpoint:
    """The daemon of a home, as it announced itself.

    Raises:
        DaemonNotRunningError: None has, or it died without a word.
    """
    document = read_json(home.endpoint)
    if document is None:
        raise DaemonNotRunningError(f"no daemon serves {home.root}; start one: mosaic up")
    key = ProcessKey(document["pid"], document["start_time"], document["boot_id"])
    if not is_alive(key):
        raise DaemonNotRunningError(
            f"the daemon of {home.root} (pid {key.pid}) is gone; start it again: mosaic up"
        )
    return Endpoint(
        document["host"],
        document["port"],
        key.pid,
        document["instance"],
        document["certificate"],
        key,
    )


class Bearer(grpc.AuthMetadataPlugin):  # type: ignore[misc]
    """Adds the token to calls over TLS."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, context: Any, callback: Any) -> None:
        callback((("authorization", f"Bearer {self._token}"),), None)


def open_channel(endpoint: Endpoint) -> grpc.Channel:
    """A channel to a daemon; the token is not sent before `prove` has passed."""
    if not endpoint.certificate:
        return grpc.insecure_channel(endpoint.target, options=_OPTIONS)
    certificate = Path(endpoint.certificate).read_bytes()
    credentials = grpc.ssl_channel_credentials(root_certificates=certificate)
    return grpc.secure_channel(endpoint.target, credentials, options=_OPTIONS)


def prove(channel: grpc.Channel, token: bytes, timeout_s: float = 5.0) -> pb.Health:
    """Make whoever answers show that it knows this home's token.

    Raises:
        NotOurDaemonError: It does not.
        DaemonNotRunningError: Nobody answers.
    """
    challenge = secrets.token_bytes(32)
    stub = trainer_pb2_grpc.TrainerStub(channel)
    try:
        health: pb.Health = stub.GetHealth(
            pb.GetHealthRequest(challenge=challenge), timeout=timeout_s
        )
    except grpc.RpcError as error:
        if error.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INTERNAL):
            raise NotOurDaemonError("another program answers on the daemon's port") from None
        raise DaemonNotRunningError(f"the daemon does not answer: {error.details()}") from None
    if not hmac.compare_digest(health.proof, auth.proof(token, challenge)):
        raise NotOurDaemonError(
            "something answers on the daemon's port but does not know this home's token; "
            "run: mosaic down && mosaic up"
        )
    return health


def start_daemon(
    home: Home,
    port: int | None = None,
    listen: str = "127.0.0.1",
    tls: tuple[str, str] | None = None,
) -> Endpoint:
    """Start a daemon in the background and wait until it serves.

    Raises:
        DaemonRunningError: One runs already.
        BindRefusedError: It may not or cannot listen there, or it did not start.
    """
    command = [sys.executable, "-m", "mosaic.trainer.daemon", "--home", str(home.root)]
    command += ["--listen", listen]
    if port is not None:
        command += ["--port", str(port)]
    if tls:
        command += ["--tls-cert", tls[0], "--tls-key", tls[1]]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd="/",
    )
    assert process.stderr is not None
    deadline = time.monotonic() + _START_LIMIT_S
    with process.stderr:
        os.set_blocking(process.stderr.fileno(), False)
        while time.monotonic() < deadline:
            if process.poll() is not None:
                os.set_blocking(process.stderr.fileno(), True)
                text = process.stderr.read().decode(errors="replace").strip()
                raise _start_error(process.returncode, text)
            endpoint = _announced_by(home, process.pid)
            if endpoint is not None:
                process.returncode = 0  # it is nobody's child to wait for: it outlives us
                return endpoint
            time.sleep(0.01)
    process.kill()
    process.wait()
    raise BindRefusedError(f"the daemon did not start within {_START_LIMIT_S:g} s")


def _start_error(code: int, text: str) -> Exception:
    if code == 3:
        return DaemonRunningError(text)
    last = text.splitlines()[-1] if text else f"it ended with exit code {code}"
    return BindRefusedError(last)


def _announced_by(home: Home, pid: int) -> Endpoint | None:
    try:
        endpoint = find_endpoint(home)
    except DaemonNotRunningError:
        return None
    return endpoint if endpoint.pid == pid else None


def read_token(home: Home) -> bytes:
    """The home's token.

    Raises:
        DaemonNotRunningError: No daemon ever ran here.
    """
    try:
        return auth.load_token(home.token)
    except SecretError as error:
        if not home.token.exists():
            raise DaemonNotRunningError(
                f"no daemon serves {home.root}; start one: mosaic up"
            ) from None
        raise error
