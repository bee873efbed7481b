"""The daemon process: one per home. `python -m mosaic.trainer.daemon`, started by `mosaic up`."""

import argparse
import asyncio
import fcntl
import json
import logging
import os
import resource
import signal
import socket
import sys
import tempfile
import uuid
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path

import grpc

from mosaic.config.paths import Home
from mosaic.config.settings import Settings, load_settings
from mosaic.connect import auth, endpoint
from mosaic.connect.certificate import Certificate, load_certificate
from mosaic.errors import (
    BindRefusedError,
    DaemonNotRunningError,
    DaemonRunningError,
    MosaicError,
    StorageError,
)
from mosaic.runs.directory import read_json
from mosaic.system import processes
from mosaic.system.shortage import shortage
from mosaic.trainer.api.gate import Gate
from mosaic.trainer.api.service import TrainerService
from mosaic.trainer.api.translator import ErrorTranslator
from mosaic.trainer.launch.executor import LocalExecutor
from mosaic.trainer.loop.engine import Engine
from mosaic.trainer.storage.registry import Registry
from mosaic.wire import trainer_pb2 as pb
from mosaic.workers.asking import discover_fenced

EXIT_ALREADY_RUNNING = 3
EXIT_REFUSED = 2
MAX_MESSAGE = 4 * 2**20
# Below this not even the events of a few runs fit.
_LEAST_ROOM = 1 << 16

log = logging.getLogger("mosaic.daemon")


@dataclass(frozen=True)
class Door:
    """Where to listen and with what protection."""

    host: str = "127.0.0.1"
    port: int | None = None
    certificate: Certificate | None = None

    @property
    def reachable_host(self) -> str:
        """Where this machine's own clients and workers connect to."""
        return endpoint.reachable_host(self.host)


class Daemon:
    """Everything the process owns, from lock to goodbye."""

    def __init__(self, home: Home, settings: Settings, door: Door) -> None:
        self._home = home
        self._settings = settings
        self._door = door
        self._instance = uuid.uuid4().hex
        self._stopping = asyncio.Event()
        self._how = pb.ShutdownRequest.LEAVE

    async def serve(self) -> None:
        """Run until it is asked to stop."""
        token = auth.load_or_create_token(self._home.token)
        registry = Registry(self._home.registry)
        executor = LocalExecutor()
        engine = Engine(self._home, self._settings, registry, executor, discover_fenced(), token)
        # Before anyone is served: a client must never see a run that still has to be recovered.
        engine.recover()
        service = TrainerService(engine, token, self._instance, self._request_stop)
        server = grpc.aio.server(
            interceptors=[Gate(token), ErrorTranslator()],
            options=[
                # Two daemons on one port would share the calls between them.
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", MAX_MESSAGE),
                ("grpc.keepalive_time_ms", 60_000),
                # Anyone local may connect, and every connection costs a descriptor. One that
                # says nothing is closed soon; ours speak within milliseconds. One that makes no
                # calls is closed later; a client notices nothing, its next call reconnects.
                ("grpc.server_handshake_timeout_ms", 10_000),
                ("grpc.max_connection_idle_ms", 300_000),
                ("grpc.max_allowed_incoming_connections", _most_connections()),
            ],
        )
        service.register(server)
        port = self._bind(server)
        engine.effects.target = endpoint.join(self._door.reachable_host, port)
        await server.start()
        # Last: a client that reads `daemon.json` may call at once.
        self._announce(port)
        log.info("serving on port %d, epoch %d", port, engine.epoch)
        self._warm_up(engine, executor)
        turning = asyncio.ensure_future(engine.run_forever())
        endings = asyncio.ensure_future(service.telemetry.follow_endings())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(
                number, self._request_stop, pb.ShutdownRequest.LEAVE
            )
        try:
            stop = asyncio.ensure_future(self._stopping.wait())
            await asyncio.wait({turning, stop}, return_when=asyncio.FIRST_COMPLETED)
            if turning.done():
                turning.result()
            await self._wait_for_runs(engine)
        finally:
            # The reverse of the start: first no new callers, then no calls, then the stores.
            turning.cancel()
            endings.cancel()
            self._home.endpoint.unlink(missing_ok=True)
            await server.stop(grace=0.5)
            await service.telemetry.close()
            await engine.close()
            registry.close()
            log.info("stopped")

    def _request_stop(self, how: "pb.ShutdownRequest.Runs") -> None:
        self._how = how
        self._stopping.set()

    async def _wait_for_runs(self, engine: Engine) -> None:
        """Before leaving: let runs be, stop them, or wait for them, as asked."""
        engine.draining = True
        if self._how == pb.ShutdownRequest.LEAVE:
            return
        if self._how == pb.ShutdownRequest.STOP:
            engine.stop_all("the daemon was asked to stop its runs")
        while any(not run.queued for run in engine.live.runs()):
            await asyncio.sleep(0.1)

    def _warm_up(self, engine: Engine, executor: LocalExecutor) -> None:
        if not self._settings.warm_start:
            return
        for worker in engine.workers.values():
            if worker.capabilities and worker.capabilities.warm_modules:
                executor.warm_up(worker.capabilities.warm_modules)
                engine.checks.warm_up(worker.capabilities)

    def _bind(self, server: grpc.aio.Server) -> int:
        """Listen where asked; a taken preferred port gives way to a free one, an asked one not."""
        door = self._door
        if door.certificate is None and not endpoint.is_loopback(door.host):
            raise BindRefusedError(
                f"refusing to listen on {door.host} without TLS: anyone who can reach it could "
                "run code here; give --tls-cert and --tls-key, or listen on 127.0.0.1"
            )
        wanted = self._settings.port if door.port is None else door.port
        for port in (wanted, 0) if door.port is None else (wanted,):
            bound = self._add_port(server, port)
            if bound:
                return bound
        raise BindRefusedError(
            f"port {wanted} on {door.host} is in use by another program; "
            "choose another (mosaic up --port N) or any free one (--port 0)"
        )

    def _add_port(self, server: grpc.aio.Server, port: int) -> int:
        address = endpoint.join(self._door.host, port)
        shown = self._door.certificate
        try:
            if shown is not None:
                credentials = grpc.ssl_server_credentials([(shown.key, shown.pem.encode())])
                return int(server.add_secure_port(address, credentials))
            return int(server.add_insecure_port(address))
        except RuntimeError:
            return 0

    def _announce(self, port: int) -> None:
        pid = os.getpid()
        started = processes.start_time(pid)
        assert started is not None
        shown = self._door.certificate
        endpoint.announce(
            self._home,
            endpoint.Endpoint(
                self._door.reachable_host,
                port,
                self._instance,
                processes.ProcessKey(pid, started, processes.boot_id()),
                shown.pem if shown else "",
                shown.name if shown else "",
            ),
        )


def _most_connections() -> int:
    """How many may be connected at once: the other half of the descriptors is for the runs.

    Strangers can fill this half, since nobody has shown a token when a connection is accepted.
    Callers then wait until one of them is closed for its silence. Runs are started, observed and
    recorded all the while.
    """
    return max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def hold_home(home: Home) -> int:
    """Lock a home for this process.

    Raises:
        DaemonRunningError: Another daemon has it.
        StorageError: The home cannot be written, or its file system knows no locks.
    """
    try:
        home.create()
        descriptor = os.open(home.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if shortage(error):
            raise _full(home, error) from None
        raise StorageError(
            f"the home {home.root} cannot be used: {error.strerror}; "
            "choose another with MOSAIC_HOME"
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise DaemonRunningError(_who_has(home)) from None
    except OSError as error:
        os.close(descriptor)
        raise StorageError(
            f"the home {home.root} cannot be locked: {error.strerror}; "
            "put it on a local disk with MOSAIC_HOME"
        ) from None
    try:
        owner = {"pid": os.getpid(), "machine": socket.gethostname()}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)
        _try_writing(home)
    except OSError as error:
        os.close(descriptor)
        raise _full(home, error) from None
    return descriptor


def _full(home: Home, error: OSError) -> StorageError:
    return StorageError(
        f"the disk that holds {home.root} takes no more: {error.strerror}; free some space or "
        "delete some files, then start again with: mosaic up"
    )


def _try_writing(home: Home) -> None:
    """Write a little and remove it: a full disk is better named now than found out by and by.

    Free space alone says too little: there are quotas, and disks without an inode left.
    """
    with tempfile.TemporaryFile(dir=home.trainer) as probe:
        probe.write(bytes(_LEAST_ROOM))
        probe.flush()
        os.fsync(probe.fileno())


def _who_has(home: Home) -> str:
    owner = read_json(home.lock) or {}
    try:
        port = f", port {endpoint.find_endpoint(home).port}"
    except DaemonNotRunningError:
        port = ""
    return (
        f"a daemon already owns {home.root}: pid {owner.get('pid', '?')} "
        f"on {owner.get('machine', '?')}{port}; stop it with: mosaic down"
    )


def open_door(host: str, port: int | None, certificate: Path | None, key: Path | None) -> Door:
    """Where to listen, with its certificate checked.

    Raises:
        BindRefusedError: Only one of certificate and key is given, or they cannot be used.
    """
    if certificate is None and key is None:
        return Door(host, port)
    if certificate is None or key is None:
        given, missing = ("--tls-key", "--tls-cert") if key else ("--tls-cert", "--tls-key")
        raise BindRefusedError(f"{given} needs {missing}: give both, or neither")
    return Door(host, port, load_certificate(certificate, key))


def main() -> int:
    """Parse, lock, serve."""
    parser = argparse.ArgumentParser(prog="mosaic.trainer.daemon", description=__doc__)
    parser.add_argument("--home")
    parser.add_argument("--listen", default="127.0.0.1")
    parser.add_argument("--port", type=int)
    parser.add_argument("--tls-cert", type=Path)
    parser.add_argument("--tls-key", type=Path)
    options = parser.parse_args()
    home = Home.locate(options.home)
    os.environ["MOSAIC_HOME"] = str(home.root)
    try:
        lock = hold_home(home)
        _log_to(home.daemon_log)
        door = open_door(options.listen, options.port, options.tls_cert, options.tls_key)
        asyncio.run(Daemon(home, load_settings(home), door).serve())
        os.close(lock)
    except DaemonRunningError as error:
        print(error, file=sys.stderr)
        return EXIT_ALREADY_RUNNING
    except MosaicError as error:
        print(error, file=sys.stderr)
        return EXIT_REFUSED
    return 0


def _log_to(path: Path) -> None:
    handler = RotatingFileHandler(path, maxBytes=5_000_000, backupCount=3)
    logging.basicConfig(
        level=logging.INFO, handlers=[handler], format="%(asctime)s %(levelname)s %(message)s"
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))


if __name__ == "__main__":
    sys.exit(main())
