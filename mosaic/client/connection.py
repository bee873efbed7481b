"""Proving that a daemon is ours."""

import hmac
import secrets

import grpc

from mosaic.config.paths import Home
from mosaic.connect import auth
from mosaic.errors import (
    DaemonNotRunningError,
    NotOurDaemonError,
    SecretError,
)
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc


def prove(channel: grpc.Channel, token: bytes, timeout_s: float = 5.0) -> pb.Health:
    """Make the program that answers prove that it knows this home's token.

    Raises:
        NotOurDaemonError: It does not know it.
        DaemonNotRunningError: Nothing answers.
    """
    # A challenge, because our token must not be sent to a stranger that has taken the port.
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
                f"no daemon is running for {home.root}; start one: mosaic up"
            ) from None
        raise error
