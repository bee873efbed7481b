"""What a telemetry record may look like, and what happens to one that may not."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

from mosaic.wire import trainer_pb2 as pb

MAX_TEXT_BYTES = 256 * 1024
MAX_FRAME_BYTES = 2 * 1024 * 1024
# Three texts, a frame and the rest: below the 4 MiB that the daemon takes in one message.
MAX_RECORD_BYTES = MAX_FRAME_BYTES + 4 * MAX_TEXT_BYTES
SAMPLE_CHARS = 200
# Enough to tell a late record from a repeated one; older holes count as repeated.
MAX_HOLES = 256

Record = pb.Step | pb.Episode
Batch = pb.StepBatch | pb.EpisodeBatch


class Kind(StrEnum):
    """The two record streams of a run; each has its own dense sequence."""

    STEPS = "steps"
    EPISODES = "episodes"


class Reason(StrEnum):
    """Why a record was not accepted."""

    NOT_A_NUMBER = "not_a_number"
    OVERSIZED = "oversized"
    OUT_OF_ORDER = "out_of_order"
    DUPLICATE = "duplicate"
    OTHER_RUN = "other_run"
    NO_SEQUENCE = "no_sequence"


@dataclass(frozen=True)
class Rejection:
    """One record that was set aside, with enough of it to recognise it."""

    kind: Kind
    seq: int
    reason: Reason
    detail: str


def records_of(batch: Batch) -> Sequence[Record]:
    """The records inside a batch of either kind."""
    return batch.steps if isinstance(batch, pb.StepBatch) else batch.episodes


def make_batch(kind: Kind, run_id: str, records: Sequence[Record]) -> Batch:
    """A wire batch of the right type around `records`."""
    if kind is Kind.STEPS:
        return pb.StepBatch(run_id=run_id, steps=cast(Sequence[pb.Step], records))
    return pb.EpisodeBatch(run_id=run_id, episodes=cast(Sequence[pb.Episode], records))


def texts_of(record: Record) -> tuple[str, ...]:
    """The JSON texts a record carries."""
    if isinstance(record, pb.Step):
        return record.observation_json, record.action_json, record.info_json
    return (record.info_json,)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number JSON can carry")


def _holds_nan(text: str) -> bool:
    # Parsing every text would cost more than storing it; without these words it cannot hold any.
    if "NaN" not in text and "Infinity" not in text:
        return False
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return True
    return False


def _not_a_number(record: Record) -> str:
    number = record.reward if isinstance(record, pb.Step) else record.total_reward
    if not math.isfinite(number):
        return f"reward is {number}"
    if not math.isfinite(record.at):
        return f"time is {record.at}"
    for text in texts_of(record):
        if _holds_nan(text):
            return f"NaN or Infinity inside {text[:SAMPLE_CHARS]}"
    return ""


def _oversized(record: Record) -> str:
    for text in texts_of(record):
        if len(text) > MAX_TEXT_BYTES:
            return f"a text of {len(text)} bytes, the limit is {MAX_TEXT_BYTES}"
    if isinstance(record, pb.Step) and len(record.frame) > MAX_FRAME_BYTES:
        return f"a frame of {len(record.frame)} bytes, the limit is {MAX_FRAME_BYTES}"
    return ""


@dataclass
class Sieve:
    """Separates good records from bad ones for one stream of one run.

    Every record with a new sequence number moves `last_seq` forward, also a rejected one, so that
    one bad record never makes the good ones after it look out of order.
    """

    run_id: str
    kind: Kind
    last_seq: int = 0
    counts: Counter[Reason] = field(default_factory=Counter)
    missing: int = 0
    _holes: list[tuple[int, int]] = field(default_factory=list)

    def sift(self, batch: Batch) -> tuple[Batch | None, list[Rejection]]:
        """Split a batch into what is accepted (`None` when nothing is) and what is not.

        The batch itself comes back when every record is good, so the usual case copies nothing.
        """
        records = records_of(batch)
        if batch.run_id != self.run_id:
            said = batch.run_id[:40]
            rejected = [
                Rejection(self.kind, r.seq, Reason.OTHER_RUN, f"names run {said!r}")
                for r in records
            ]
            self._count(rejected)
            return None, rejected
        # A batch smaller than the limit holds nothing larger than it.
        check_size = batch.ByteSize() > MAX_TEXT_BYTES
        good: list[Record] = []
        rejected = []
        for record in records:
            verdict = self._judge(record, check_size)
            if verdict is None:
                good.append(record)
            else:
                rejected.append(Rejection(self.kind, record.seq, *verdict))
        if not rejected:
            return (batch if good else None), rejected
        self._count(rejected)
        return (make_batch(self.kind, self.run_id, good) if good else None), rejected

    def _judge(self, record: Record, check_size: bool) -> tuple[Reason, str] | None:
        order = self._order(record.seq)
        if order is not None:
            return order
        if detail := _not_a_number(record):
            return Reason.NOT_A_NUMBER, detail
        if check_size and (detail := _oversized(record)):
            return Reason.OVERSIZED, detail
        return None

    def _order(self, seq: int) -> tuple[Reason, str] | None:
        if seq == self.last_seq + 1:
            self.last_seq = seq
            return None
        if seq == 0:
            return Reason.NO_SEQUENCE, "sequence numbers start at 1"
        if seq > self.last_seq:
            self.missing += seq - self.last_seq - 1
            self._holes = [*self._holes[-(MAX_HOLES - 1) :], (self.last_seq + 1, seq - 1)]
            self.last_seq = seq
            return None
        if any(first <= seq <= last for first, last in self._holes):
            return Reason.OUT_OF_ORDER, f"came after {self.last_seq}"
        return Reason.DUPLICATE, f"came again after {self.last_seq}"

    def _count(self, rejected: list[Rejection]) -> None:
        self.counts.update(rejection.reason for rejection in rejected)
