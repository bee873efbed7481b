"""The embedded XMPP server: pyjabber in a process of its own, on a free loopback port.

Usage: python -m spade_bdi_rl_worker.xmpp_server FOLDER [PORT]. Prints the client port once it
listens. When its standard input closes it removes FOLDER, which holds its key, and ends: it cannot
outlive the worker that started it.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import shutil
import socket
import ssl
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

HOST = "localhost"


def free_port() -> int:
    """A port that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def confine(server_module: ModuleType) -> None:
    """Keep pyjabber on loopback, without its admin page and without helper processes.

    Left alone it also listens on the machine's outer address, serves an administration page and
    starts a process pool that would outlive a killed server.
    """
    vars(server_module).update(
        setup_query_local_ip=lambda: None, ProcessPoolExecutor=ThreadPoolExecutor
    )
    server_module.HttpServer.start = _no_admin_page


async def _no_admin_page(_self: object) -> None:
    await asyncio.Event().wait()


def make_certificate(folder: Path) -> None:
    """Write a key and a self-signed certificate where pyjabber looks for them."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    key_bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    key_file = folder / f"{HOST}_key.pem"
    key_file.touch(mode=0o600)
    key_file.write_bytes(key_bytes)
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    (folder / f"{HOST}_cert.pem").write_bytes(pem)


async def serve(folder: Path, port: int) -> None:
    """Serve until cancelled; says the port on stdout once it listens."""
    from loguru import logger
    from pyjabber import AppConfig
    from pyjabber import server as server_module
    from pyjabber.server_parameters import Parameters

    logger.remove()
    confine(server_module)
    make_certificate(folder)
    server = server_module.Server(
        Parameters(
            host=HOST,
            client_port=port,
            server_port=free_port(),
            database_in_memory=True,
            database_path=str(folder / "unused.db"),
            cert_path=str(folder),
            message_persistence=False,
        )
    )
    # With TLS 1.3 a quick client sends its new stream together with the end of the handshake, and
    # pyjabber reads it as part of the old one; TLS 1.2 makes the client wait one round trip.
    AppConfig.app_config.ssl_context.maximum_version = ssl.TLSVersion.TLSv1_2
    running = asyncio.create_task(server.start())
    ready = asyncio.create_task(server.ready.wait())
    await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
    if server.ready.is_set():
        print(port, flush=True)
    await running


def _end_with_parent(folder: Path) -> None:
    while os.read(0, 4096):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def main() -> None:
    """Start the server named on the command line."""
    folder = Path(sys.argv[1])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    asyncio.run(serve(folder, port or free_port()))


if __name__ == "__main__":
    main()
