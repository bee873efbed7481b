"""The certificate of a daemon: checked whole before anything listens with it."""

import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from mosaic.errors import BindRefusedError

# One call of each side produces what the other side waits for; TLS 1.3 needs two, 1.2 three.
_ROUNDS = 4


@dataclass(frozen=True)
class Certificate:
    """What a daemon shows to its callers.

    Attributes:
        pem: The certificate, with its chain if it has one.
        key: Its private key.
        name: A name that the certificate carries.
    """

    pem: str
    key: bytes
    name: str


def load_certificate(certificate: Path, key: Path) -> Certificate:
    """Read a certificate and its key, and shake hands with them once, in memory.

    Raises:
        BindRefusedError: They cannot be read, are broken, do not belong together, are out of
            date, or carry no name.
    """
    pem, secret = _read(certificate), _read(key)
    client = _client(certificate, pem)
    server = _server(certificate, key)
    try:
        name = _name(_shake_hands(client, server))
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or str(error)
        raise _refusal(certificate, str(reason).lower()) from None
    if not name:
        raise _refusal(certificate, "it carries no name; make it with a subjectAltName")
    return Certificate(pem, secret.encode(), name)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not PEM text"
        raise _refusal(path, str(reason)) from None


def _refusal(path: Path, reason: str) -> BindRefusedError:
    return BindRefusedError(
        f"{path} cannot be used: {reason}; give a valid pair with --tls-cert and --tls-key"
    )


def _client(certificate: Path, pem: str) -> ssl.SSLContext:
    """A client that trusts this certificate alone, as our clients do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # A certificate signed by an authority is trusted by itself, without its authority.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=pem)
    except ssl.SSLError:
        raise _refusal(certificate, "it is not a certificate in PEM form") from None
    return context


def _server(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # An encrypted key would be asked for on a terminal that a daemon does not have.
        context.load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise _refusal(key, f"it is not the key of {certificate}") from None
        raise _refusal(key, "it is not a private key in PEM form without a password") from None
    return context


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> dict[str, object]:
    """The certificate as a client sees it.

    Raises:
        ssl.SSLError: A client would not accept it.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(incoming=to_client, outgoing=to_server)
    serving = server.wrap_bio(incoming=to_server, outgoing=to_client, server_side=True)
    for side in (asking, serving) * _ROUNDS:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return dict(asking.getpeercert() or {})


def _name(shown: dict[str, object]) -> str:
    """A name of the certificate: a host before an address, the common name without either."""
    alternatives = shown.get("subjectAltName", ())
    assert isinstance(alternatives, tuple)
    names = dict(reversed(alternatives))
    if "DNS" in names:
        return str(names["DNS"]).replace("*", "mosaic")
    if "IP Address" in names:
        return str(ipaddress.ip_address(names["IP Address"]))
    subject = shown.get("subject", ())
    assert isinstance(subject, tuple)
    return next((value for part in subject for key, value in part if key == "commonName"), "")
