"""The worker's end of the telemetry lane: records out, credits obeyed, learning never blocked.

A worker calls `step` and `episode` from its training loop. Sending happens on threads of the
emitter. When the daemon is away records wait in memory, then (policy `spool`) in a file of the run
directory, and reach the daemon after its restart, or the next daemon that opens the run.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import grpc

from mosaic.connect.channel import open_channel
from mosaic.connect.endpoint import Address, current_address
from mosaic.telemetry.outbox import Outbox, OutboxStats, Policy
from mosaic.telemetry.records import Batch, Kind, make_batch
from mosaic.telemetry.schema import frame_name, store_path
from mosaic.telemetry.store import StoreReader
from mosaic.telemetry.summary import SummaryWindow
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc as rpc

RECONNECT_S = 1.0
# A worker waits this long for its daemon before the first step: records that find a connection
# need no spool. A daemon that is away must not hold up the learning for longer.
FIRST_CONTACT_S = 3.0
# A bound for worlds whose every picture is new; one that was forgotten is only sent again.
REMEMBERED_FRAMES = 1024

WhereTo = Callable[[], tuple[Address, str]]


def to_json(value: object) -> str:
    """JSON of an observation, action or info: arrays become lists, unknown things their text."""
    return json.dumps(value, default=_plain, separators=(",", ":"))


def _plain(value: object) -> object:
    to_list = getattr(value, "tolist", None)
    if to_list is not None:
        listed: object = to_list()
        return listed
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def stored_so_far(run_dir: Path, kind: Kind) -> int:
    """The newest sequence number in the run's store, from before this worker started."""
    if not store_path(run_dir).exists():
        return 0
    reader = StoreReader(run_dir)
    try:
        return reader.last_seq(kind)
    finally:
        reader.close()


class Session(Protocol):
    """A worker's connection to its daemon: `WorkerProcess.session`."""

    @property
    def address(self) -> Address:
        """Where the daemon was last."""

    @property
    def token(self) -> str:
        """The session token; empty until the handshake has succeeded."""


def follow_daemon(session: Session | None) -> WhereTo | None:
    """Where the home's current daemon is, with the session token of this worker.

    Args:
        session: The worker's; None for one that runs without a daemon.
    """
    if session is None:
        return None
    return lambda: (current_address(session.address), session.token)


class _Line(threading.Thread):
    """Keeps one stream connected and moves its records."""

    def __init__(self, run_id: str, kind: Kind, where_to: WhereTo, outbox: Outbox) -> None:
        super().__init__(name=f"telemetry-{kind}", daemon=True)
        self._run_id = run_id
        self._kind = kind
        self._where_to = where_to
        self._outbox = outbox
        self._over = threading.Event()
        self._call: grpc.Call | None = None
        self.first_contact = threading.Event()
        self.trouble = "not connected yet"

    def run(self) -> None:
        while not self._over.is_set():
            try:
                self._converse()
            except (grpc.RpcError, OSError, LookupError, ValueError) as error:
                self.trouble = _say(error)
            # Whatever ended the conversation, its sender may still wait for credit.
            self._outbox.disconnected()
            self._over.wait(RECONNECT_S)

    def stop(self) -> None:
        self._over.set()
        if self._call is not None:
            self._call.cancel()
        self._outbox.disconnected()

    def _converse(self) -> None:
        address, token = self._where_to()
        with open_channel(address) as channel:
            stub = rpc.TrainerStub(channel)
            method = stub.PublishRunSteps if self._kind is Kind.STEPS else stub.PublishRunEpisodes
            opened: dict[str, int] = {}
            ready = threading.Event()
            call = self._call = method(
                self._requests(ready, opened),
                metadata=(("authorization", f"Bearer {token}"), ("mosaic-run-id", self._run_id)),
            )
            try:
                for credit in call:
                    if not opened:
                        opened["connection"] = self._outbox.connected(credit.acknowledged)
                        self.trouble = ""
                        self.first_contact.set()
                    self._outbox.credit(credit.grant, credit.acknowledged, credit.starved)
                    ready.set()
            finally:
                call.cancel()
                self._outbox.disconnected()
                ready.set()

    def _requests(self, ready: threading.Event, opened: dict[str, int]) -> Iterator[Batch]:
        # The empty batch opens the stream; nothing follows until the hub has said what it has.
        yield make_batch(self._kind, self._run_id, [])
        ready.wait()
        if not opened:
            return
        while (records := self._outbox.next_batch(opened["connection"])) is not None:
            yield make_batch(self._kind, self._run_id, records)


def _say(error: Exception) -> str:
    if isinstance(error, grpc.RpcError) and isinstance(error, grpc.Call):
        return f"{error.code().name}: {error.details()}"
    return str(error)


class TelemetryEmitter:
    """Publishes a worker's steps and episodes.

    Args:
        run_id: The run the records belong to.
        run_dir: The run's directory (`MOSAIC_RUN_DIR`).
        where_to: Gives the daemon's current address and the session token; asked at every
            connection. With None there is no daemon: everything goes to the spool at once.
        policy: What happens when the hub gives no credit: `slow`, `sample` or `spool`.
        minimal: Send only a summary every `summary_every_s` seconds instead of each record.
        patience_s: The longest that policy `slow` holds the learning up at a stretch.
    """

    def __init__(
        self,
        run_id: str,
        run_dir: Path,
        where_to: WhereTo | None,
        policy: Policy | str = Policy.SPOOL,
        minimal: bool = False,
        summary_every_s: float = 5.0,
        patience_s: float = 5.0,
    ) -> None:
        self._minimal = minimal
        self._summary = SummaryWindow(summary_every_s, time.monotonic())
        self._newest_episode = 0
        self._frames_sent: dict[str, None] = {}
        self._outboxes = {
            kind: Outbox(
                run_dir,
                kind,
                # Episodes are few and are what people count: they are never dropped to save time.
                Policy(policy) if kind is Kind.STEPS and where_to else Policy.SPOOL,
                stored_so_far(run_dir, kind),
                patience_s,
            )
            for kind in Kind
        }
        self._lines = (
            [_Line(run_id, kind, where_to, box) for kind, box in self._outboxes.items()]
            if where_to
            else []
        )
        for line in self._lines:
            line.start()
        deadline = time.monotonic() + FIRST_CONTACT_S
        for line in self._lines:
            line.first_contact.wait(max(0.0, deadline - time.monotonic()))

    @property
    def trouble(self) -> str:
        """Why records are not being delivered right now; empty when they are."""
        return next((line.trouble for line in self._lines if line.trouble), "")

    def known(self, kind: Kind) -> int:
        """How many records of the run's earlier processes are safe; asked before the first one.

        A worker that was killed and repeats itself from the start leaves out so many.
        """
        return self._outboxes[kind].last_seq

    def stats(self) -> dict[str, OutboxStats]:
        """Taken, dropped, spooled and waited, by stream."""
        return {kind.value: outbox.stats for kind, outbox in self._outboxes.items()}

    def step(
        self,
        *,
        episode: int,
        step: int,
        observation: object,
        action: object,
        reward: float,
        terminated: bool = False,
        truncated: bool = False,
        info: object = None,
        frame: bytes = b"",
        agent_id: str = "",
    ) -> bool:
        """Record one environment step; False when the policy dropped it."""
        if self._minimal:
            self._summary.add_step()
            return True
        record = pb.Step(
            episode=episode,
            step=step,
            observation_json=to_json(observation),
            action_json=to_json(action),
            reward=float(reward),
            terminated=bool(terminated),
            truncated=bool(truncated),
            info_json=to_json(info) if info else "",
            at=time.time(),
            agent_id=agent_id,
        )
        name = frame_name(frame) if frame else ""
        if frame:
            record.frame_ref = name
            # A picture that was sent is in the store under its name: a world that stands still
            # sends it once.
            if name not in self._frames_sent:
                record.frame = frame
        # Both ends of an episode are kept even when steps are sampled: they delimit it.
        ends = terminated or truncated or step == 0
        kept = self._outboxes[Kind.STEPS].put(record, important=ends)
        if kept and record.frame:
            self._remember_frame(name)
        return kept

    def episode(
        self,
        *,
        episode: int,
        length: int,
        total_reward: float,
        outcome: str = "",
        seed: int = 0,
        info: object = None,
        agent_id: str = "",
    ) -> bool:
        """Record a finished episode; in minimal mode it joins the next summary."""
        if self._minimal:
            self._summary.add_episodes(1, length, total_reward)
            return self.summarise(episode)
        return self._put_episode(episode, length, total_reward, outcome, seed, info, agent_id)

    def add_to_summary(self, episodes: int, steps: int, returns: float) -> None:
        """Count many finished episodes at once, for a learner that runs them in bulk."""
        self._summary.add_episodes(episodes, steps, returns)

    def summarise(self, episode: int, force: bool = False) -> bool:
        """Send the summary of everything since the last one, when it is due."""
        self._newest_episode = max(self._newest_episode, episode)
        summary = self._summary.take(time.monotonic(), force)
        if summary is None:
            return True
        return self._put_episode(
            episode, summary["steps"], summary["return_sum"], "summary", 0, summary, ""
        )

    def close(self, timeout: float = 5.0) -> int:
        """Deliver what is left within `timeout`; the rest stays in the spool (its count)."""
        if self._minimal:
            self.summarise(self._newest_episode, force=True)
        # Without a line there is no one to wait for.
        deadline = time.monotonic() + (timeout if self._lines else 0.0)
        for outbox in self._outboxes.values():
            outbox.drain(max(0.0, deadline - time.monotonic()))
        for line in self._lines:
            line.stop()
        for line in self._lines:
            line.join(2.0)
        return sum(outbox.close() for outbox in self._outboxes.values())

    def _put_episode(
        self,
        episode: int,
        length: int,
        total_reward: float,
        outcome: str,
        seed: int,
        info: object,
        agent_id: str,
    ) -> bool:
        record = pb.Episode(
            episode=episode,
            length=length,
            total_reward=float(total_reward),
            outcome=outcome,
            seed=seed,
            info_json=to_json(info) if info else "",
            at=time.time(),
            agent_id=agent_id,
        )
        return self._outboxes[Kind.EPISODES].put(record, important=True)

    def _remember_frame(self, name: str) -> None:
        self._frames_sent[name] = None
        if len(self._frames_sent) > REMEMBERED_FRAMES:
            self._frames_sent.pop(next(iter(self._frames_sent)))
