"""A worker's side of the conversation with the daemon: register and obey.

gRPC is imported when a session is opened, not before, so that a worker may fork until then.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from queue import Empty, Queue
from typing import TYPE_CHECKING

from mosaic.connect.endpoint import Address, current_address
from mosaic.errors import HandshakeRefusedError
from mosaic.workers.capabilities import PROTOCOL_VERSION

if TYPE_CHECKING:
    import grpc

    from mosaic.wire import trainer_pb2 as pb
    from mosaic.wire.trainer_pb2_grpc import TrainerStub

Obey = Callable[[str], None]
# How long a worker waits for an absent daemon before it begins without one.
# Shorter than the daemon's own handshake deadline, so that a slow daemon is met, not missed.
PATIENCE_S = 30.0
# Looking once a second costs nothing. It has to be far less than the daemon's handshake deadline,
# which begins when a restarted daemon finds the run.
_RECONNECT_S = (0.2, 0.5, 1.0)


class WorkerSession:
    """A worker's connection to the daemon; it survives restarts of the daemon.

    Use `register` to make one. Commands arrive on a thread of the session.
    """

    def __init__(self, run_id: str, address: Address, launch_key: str) -> None:
        self._run_id = run_id
        self._address = address
        self._launch_key = launch_key
        self._session = ""
        self._reports: Queue[tuple[int, str, str] | None] = Queue()
        self._newest_status = ""
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._request: pb.RegisterWorkerRequest | None = None
        self._call: grpc.Call | None = None
        self._channel: grpc.Channel | None = None

    @classmethod
    def register(
        cls,
        target: str,
        worker_kind: str,
        capabilities: Mapping[str, object],
    ) -> "WorkerSession":
        """Shake hands with the daemon that started this process.

        If no daemon answers, the work does not wait for ever: after a while the session continues
        without one, and `listen` shakes hands with the next one.

        Args:
            target: The daemon's address when this worker was started. What the home's daemon
                announces takes precedence: it may have been restarted, and it may need TLS.
            worker_kind: The worker's type.
            capabilities: `algo`, `env_id`, `supports_pause`, `supports_checkpoint`, `extras`.

        Raises:
            HandshakeRefusedError: The daemon refuses this worker.
        """
        session = cls(
            os.environ.get("MOSAIC_RUN_ID", ""),
            current_address(Address(target)),
            os.environ.get("MOSAIC_LAUNCH_KEY", ""),
        )
        session._shake_hands(worker_kind, capabilities)
        return session

    def listen(self, obey: Obey, joined_late: Callable[[], None] | None = None) -> None:
        """Receive `pause`, `resume`, `checkpoint`; both functions run on a thread.

        Args:
            obey: Carries out a command. The session itself adds `stop`, once the daemon has ended
                this run and no longer accepts reports from it.
            joined_late: Called when a daemon that was away at the start has accepted this worker:
                it has to hear again that the run has started.
        """
        self._thread = threading.Thread(
            target=self._converse, args=(obey, joined_late), name="mosaic-control", daemon=True
        )
        self._thread.start()

    def report(self, status: str, detail: str = "") -> None:
        """Answer a command: `paused`, `resumed`, `checkpointed`, `refused`."""
        # Only these two are repeated to the next daemon: it asks again for a checkpoint itself.
        if status in ("paused", "resumed"):
            self._newest_status = status
        self._reports.put((0, status, detail))

    @property
    def token(self) -> str:
        """The session token, needed on every later call."""
        return self._session

    @property
    def address(self) -> Address:
        """Where the daemon was when this worker last talked to it."""
        return self._address

    def close(self) -> None:
        """End the conversation."""
        # First: every thread looks at it when its call or its wait ends.
        self._closed.set()
        self._reports.put(None)
        if self._call is not None:
            self._call.cancel()
        if self._thread is not None:
            # Not for ever: it may be inside the worker's own function.
            self._thread.join(timeout=2.0)
        if self._channel is not None:
            self._channel.close()

    def _shake_hands(self, worker_kind: str, capabilities: Mapping[str, object]) -> None:
        from mosaic.wire import trainer_pb2 as pb

        self._request = pb.RegisterWorkerRequest(
            run_id=self._run_id,
            worker_kind=worker_kind,
            protocol_version=PROTOCOL_VERSION,
            capabilities_json=json.dumps(dict(capabilities)),
            pid=os.getpid(),
        )
        deadline, attempt = time.monotonic() + PATIENCE_S, 0
        while not self._register() and time.monotonic() < deadline:
            self._reconnect(attempt)
            attempt += 1

    def _register(self) -> bool:
        """Ask once; False when no daemon answers.

        Raises:
            HandshakeRefusedError: One answers and refuses this worker.
        """
        import grpc

        try:
            # A third of the patience: a daemon that hangs is asked more than once.
            reply = self._stub().RegisterWorker(
                self._request, metadata=self._metadata(self._launch_key), timeout=10.0
            )
        # Only silence is worth another try; a refusal would be the same the next time.
        except grpc.RpcError as error:
            absent = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
            if error.code() in absent:
                return False
            raise HandshakeRefusedError(
                f"the daemon at {self._address.target} refused the handshake: {error.details()}"
            ) from None
        self._session = reply.session_token
        return True

    def _converse(self, obey: Obey, joined_late: Callable[[], None] | None) -> None:
        attempt = 0
        late = not self._session
        while not self._session and not self._closed.is_set():
            try:
                if not self._register():
                    self._reconnect(attempt)
                    attempt += 1
            except (HandshakeRefusedError, ValueError):
                # The daemon has settled this run without us, or this session was closed.
                if not self._closed.is_set():
                    obey("stop")
                return
        if late and joined_late is not None and self._session:
            joined_late()
        self._listen_forever(obey)

    def _listen_forever(self, obey: Obey) -> None:
        import grpc

        attempt = 0
        while not self._closed.is_set():
            try:
                call = self._call = self._stub().ControlStream(
                    self._report_stream(), metadata=self._metadata()
                )
                for command in call:
                    attempt = 0
                    obey(type(command).Kind.Name(command.kind).lower())
            except (grpc.RpcError, ValueError):
                # The daemon is gone, or `close` has closed the channel: look again.
                pass
            if not self._closed.is_set():
                self._reconnect(attempt)
                attempt += 1

    def _report_stream(self) -> "Iterator[pb.ControlReport]":
        from mosaic.wire import trainer_pb2 as pb

        # Only the newest stream may take reports: an older one would send them to a daemon
        # that is gone. A pause that may have been reported to an old daemon is repeated.
        mine: Queue[tuple[int, str, str] | None] = Queue()
        self._reports = mine
        yield pb.ControlReport(run_id=self._run_id, status="ready")
        if self._newest_status == "paused":
            yield pb.ControlReport(run_id=self._run_id, status="paused")
        while not self._closed.is_set() and mine is self._reports:
            try:
                # Wakes up to see whether a newer stream has replaced this one.
                item = mine.get(timeout=1.0)
            except Empty:
                continue
            if item is None:
                return
            number, status, detail = item
            yield pb.ControlReport(
                run_id=self._run_id, command_id=number, status=status, detail=detail
            )

    def _stub(self) -> "TrainerStub":
        from mosaic.connect.channel import open_channel
        from mosaic.wire import trainer_pb2_grpc

        if self._channel is None:
            self._channel = open_channel(self._address)
        return trainer_pb2_grpc.TrainerStub(self._channel)

    def _reconnect(self, attempt: int) -> None:
        """Wait a little, then find out where the daemon is now."""
        self._closed.wait(_RECONNECT_S[min(attempt, len(_RECONNECT_S) - 1)])
        address = current_address(self._address)
        # A channel to the same address reconnects on its own. One to an old address never would.
        if address != self._address and self._channel is not None:
            self._channel.close()
            self._channel = None
        self._address = address

    def _metadata(self, key: str = "") -> tuple[tuple[str, str], ...]:
        return (
            ("authorization", f"Bearer {key or self._session}"),
            ("mosaic-run-id", self._run_id),
        )
