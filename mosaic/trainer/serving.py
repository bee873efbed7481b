"""Serving: everything the daemon process owns, from its stores to its port."""

import asyncio
import faulthandler
import logging
import os
import resource
import signal
import sys
import time
import uuid
from collections.abc import Awaitable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

from mosaic.config.paths import Home
from mosaic.config.settings import Settings, load_settings
from mosaic.connect import auth, endpoint
from mosaic.connect.certificate import Certificate, load_certificate
from mosaic.errors import BindRefusedError
from mosaic.system import processes
from mosaic.trainer import failpoints
from mosaic.trainer.api.gate import Gate
from mosaic.trainer.api.service import TrainerService
from mosaic.trainer.api.translator import ErrorTranslator
from mosaic.trainer.launch.executor import LocalExecutor
from mosaic.trainer.loop.engine import Engine
from mosaic.trainer.storage.registry import Registry
from mosaic.wire import trainer_pb2 as pb
from mosaic.workers.discovery import DiscoveredWorker

MAX_MESSAGE = 4 * 2**20
# Beyond the grace period: the kill, and what the end of a run writes.
_AFTER_GRACE_S = 30.0
_ASK_AGAIN_S = 1.0
# Closing takes milliseconds, unless a disk does not answer any more.
_GOODBYE_S = 15.0
Workers = Future[dict[str, DiscoveredWorker]]

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

    async def serve(self, workers: Workers) -> None:
        """Run until it is asked to stop; `workers` are being listed meanwhile."""
        token = auth.load_or_create_token(self._home.token)
        registry = Registry(self._home.registry)
        executor = LocalExecutor()
        found = await asyncio.wrap_future(workers)
        engine = Engine(self._home, self._settings, registry, executor, found, token)
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
        engine.serve_at(self._address(port))
        await server.start()
        # Last: a client that reads `daemon.json` may call at once.
        self._announce(port)
        log.info("serving on port %d, epoch %d", port, engine.epoch)
        # After the announcement: importing takes seconds that no caller has to wait for.
        self._warm_up(engine, executor)
        turning = asyncio.ensure_future(engine.run_forever())
        endings = asyncio.ensure_future(service.telemetry.follow_endings())
        # A signal comes from a shell or from the machine's shutdown: runs are left to the next
        # daemon.
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
            _end_within(_GOODBYE_S)
            turning.cancel()
            endings.cancel()
            with suppress(OSError):
                self._home.endpoint.unlink(missing_ok=True)
            # For calls that are being answered; those who watch would stay for ever.
            await server.stop(grace=0.5)
            await _close("telemetry", service.telemetry.close())
            await _close("runs", engine.close())
            failpoints.point("before_goodbye")
            registry.close()
            log.info("stopped")

    def _request_stop(self, how: "pb.ShutdownRequest.Runs") -> None:
        self._how = how
        self._stopping.set()

    async def _wait_for_runs(self, engine: Engine) -> None:
        """Before leaving: let runs be, stop them, or wait for them, as was asked last.

        The wait ends with a signal, or with a later call that asks to leave the runs. Stopping
        them has a limit: the order is recorded, so the next daemon carries it out.
        """
        engine.queue.draining = True
        began: float | None = None
        asked = -_ASK_AGAIN_S
        while self._how != pb.ShutdownRequest.LEAVE:
            left = [run.run_id for run in engine.live.runs() if not run.queued]
            if not left:
                return
            if self._how == pb.ShutdownRequest.STOP:
                now = time.monotonic()
                began = now if began is None else began
                if now > began + self._settings.grace_s + _AFTER_GRACE_S:
                    log.warning("not ended, and left to the next daemon: %s", ", ".join(left))
                    return
                if now > asked + _ASK_AGAIN_S:
                    # Again: a full disk may have refused to record it, and has room since.
                    engine.stop_all("the daemon was asked to stop its runs")
                    asked = now
            await asyncio.sleep(0.1)

    def _warm_up(self, engine: Engine, executor: LocalExecutor) -> None:
        if not self._settings.warm_start:
            return
        for worker in engine.workers.values():
            if worker.capabilities and worker.capabilities.warm_modules:
                executor.warm_up(worker.capabilities.warm_modules)
                engine.checks.warm_up(worker.capabilities)

    def _bind(self, server: grpc.aio.Server) -> int:
        """Listen where asked; a taken preferred port gives way to a free one, an asked one not.

        Before any other free port comes the one where a daemon that was killed had listened: agents
        on other machines find the next one there at once, without being told where it is.
        """
        door = self._door
        if door.certificate is None and not endpoint.is_loopback(door.host):
            raise BindRefusedError(
                f"refusing to listen on {door.host} without TLS: anyone who can reach it could "
                "run code here; give --tls-cert and --tls-key, or listen on 127.0.0.1"
            )
        wanted = self._settings.port if door.port is None else door.port
        free = (endpoint.last_port(self._home), 0) if door.port in (None, 0) else ()
        for port in (wanted, *free) if wanted else free:
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

    def _address(self, port: int) -> endpoint.Address:
        shown = self._door.certificate
        target = endpoint.join(self._door.reachable_host, port)
        return endpoint.Address(target, shown.pem if shown else "", shown.name if shown else "")

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


async def _close(what: str, closing: Awaitable[None]) -> None:
    """Close one part; whatever is wrong with it, the others are closed too."""
    try:
        await closing
    except Exception:
        log.exception("the %s could not be closed", what)


def _end_within(seconds: float) -> None:
    """End this process after a while, wherever it hangs, and say in the log where that was.

    A disk that does not answer holds every thread that uses it, and Python waits for its threads.
    What is not closed by then is no worse off than after `kill -9`.
    """
    files = [each for each in logging.getLogger().handlers if isinstance(each, logging.FileHandler)]
    faulthandler.dump_traceback_later(seconds, exit=True, file=files[0].stream or sys.stderr)


def _most_connections() -> int:
    """How many may be connected at once: the other half of the descriptors is for the runs.

    Strangers can fill this half, because no token has been shown when a connection is accepted.
    Callers then wait until one of them is closed for its silence. Runs are started, observed and
    recorded all the while.
    """
    return max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


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


def run(home: Home, door: Door, workers: Workers) -> None:
    """Serve a home until it is asked to stop.

    Raises:
        MosaicError: It cannot: a setting, the port or the disk is to blame.
    """
    asyncio.run(Daemon(home, load_settings(home), door).serve(workers))
