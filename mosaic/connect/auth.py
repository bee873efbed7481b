"""Who may call: the home's token for clients, a launch key and then a session for each worker.

Launch keys and sessions are derived from the token, so that a worker adopted by a new daemon
keeps its session without anything being stored.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from mosaic.errors import SecretError
from mosaic.system.owner import foreign


def load_or_create_token(path: Path) -> bytes:
    """The home's token, made on first use.

    Raises:
        SecretError: Others may read the file.
    """
    try:
        # Created with its mode, not changed afterwards: in between anyone could open it.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return load_token(path)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(secrets.token_urlsafe(32))
    return load_token(path)


def load_token(path: Path) -> bytes:
    """The token of a home.

    Raises:
        SecretError: It is missing, empty, another user's, or others may read it.
    """
    try:
        info, text = path.stat(), path.read_text().strip()
    except FileNotFoundError:
        raise SecretError(f"no token at {path}; run: mosaic up") from None
    # Who made the token knows it, and could call as its owner.
    if reason := foreign(path, info):
        raise SecretError(reason)
    if info.st_mode & 0o077:
        raise SecretError(f"{path} can be read by others; run: chmod 600 {path}")
    if not text:
        raise SecretError(f"{path} is empty; delete it and run: mosaic up")
    return text.encode()


def proof(token: bytes, challenge: bytes) -> bytes:
    """What only a holder of the token can answer to a challenge."""
    # A prefix of its own, here and below. Without it anyone could send a run's id as the challenge
    # and get that run's key from the one call that needs no token.
    return hmac.new(token, b"health" + challenge, hashlib.sha256).digest()


def launch_key(token: bytes, run_id: str) -> str:
    """The key with which the worker of a run may register."""
    return hmac.new(token, b"launch" + run_id.encode(), hashlib.sha256).hexdigest()


def session_token(token: bytes, run_id: str) -> str:
    """The token of a registered worker."""
    return hmac.new(token, b"session" + run_id.encode(), hashlib.sha256).hexdigest()


def matches(expected: str | bytes, given: str) -> bool:
    """Comparison that takes the same time wherever the two differ."""
    wanted = expected if isinstance(expected, bytes) else expected.encode()
    return hmac.compare_digest(wanted, given.encode())
