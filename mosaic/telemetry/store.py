"""A run's telemetry on disk: one SQLite file, one writer thread, any number of readers.

Durability: a batch counts as stored when its transaction is committed to the write-ahead log, which
survives `kill -9` of every process. What was received and not yet committed (at most one batch, or
`COMMIT_EVERY_S` of records) can be lost then; the store notices at the next opening and says so.
"""

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mosaic.errors import StoreDamagedError
from mosaic.telemetry.records import Kind, Reason, Record, Rejection
from mosaic.telemetry.schema import (
    COLUMNS,
    Row,
    create_tables,
    frame_name,
    insert_rows,
    row_record,
    rows_of,
    store_path,
)
from mosaic.wire import trainer_pb2 as pb

# A transaction has a price of its own: large ones are cheap, frequent ones are soon acknowledged.
COMMIT_RECORDS = 2048
COMMIT_EVERY_S = 0.2
RETRY_S = 1.0
QUARANTINE_ROWS = 1000
# Only to save a look into the table; a frame that was forgotten is ignored as a duplicate.
REMEMBERED_FRAMES = 4096


@dataclass(frozen=True)
class Committed:
    """What one transaction made safe."""

    kind: Kind
    last_seq: int
    count: int
    size: int


@dataclass
class _Work:
    records: list[tuple[Kind, list[Record], int]] = field(default_factory=list)
    rejected: dict[tuple[Kind, Reason], tuple[int, int]] = field(default_factory=dict)
    samples: list[Rejection] = field(default_factory=list)
    count: int = 0

    def __bool__(self) -> bool:
        return bool(self.records or self.rejected)

    def set_aside(self, rejection: Rejection) -> None:
        key = rejection.kind, rejection.reason
        seen = 0 if rejection.reason is Reason.OTHER_RUN else rejection.seq
        total, last_seq = self.rejected.get(key, (0, 0))
        self.rejected[key] = total + 1, max(last_seq, seen)
        if rejection.reason is not Reason.DUPLICATE and len(self.samples) < QUARANTINE_ROWS:
            self.samples.append(rejection)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # With a write-ahead log this survives a killed process; a power cut may cost the newest
        # batches but never the file.
        connection.execute("PRAGMA synchronous = NORMAL")
        create_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _put_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(aside)
    # They belong to the damaged file; SQLite would apply them to the new one.
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return aside


class StoreReader:
    """Reads a run's store without ever writing to it; safe to share between threads."""

    def __init__(self, run_dir: Path) -> None:
        self._lock = threading.Lock()
        uri = f"{store_path(run_dir).resolve().as_uri()}?mode=ro"
        self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=10)

    def read(
        self, kind: Kind, after: int = 0, limit: int = 512, episode: int | None = None
    ) -> list[Record]:
        """Records with a sequence number past `after`, in order."""
        where = "seq > ?" if episode is None else "seq > ? AND episode = ?"
        bound = (after, limit) if episode is None else (after, episode, limit)
        rows = self._rows(
            f"SELECT {', '.join(COLUMNS[kind])} FROM {kind} WHERE {where} ORDER BY seq LIMIT ?",
            bound,
        )
        return [row_record(kind, row) for row in rows]

    def frame(self, name: str) -> bytes:
        """A stored frame by its name; empty when there is none."""
        rows = self._rows("SELECT data FROM frames WHERE name = ?", (name,))
        picture = rows[0][0] if rows else b""
        return picture if isinstance(picture, bytes) else b""

    def last_seq(self, kind: Kind) -> int:
        """The newest sequence number this store has seen, accepted or set aside."""
        [stored] = self._numbers(f"SELECT COALESCE(MAX(seq), 0) FROM {kind}")
        [aside] = self._numbers(
            "SELECT COALESCE(MAX(last_seq), 0) FROM quarantine_counts WHERE kind = ?", (kind,)
        )
        return max(stored or 0, aside or 0)

    def count(self, kind: Kind) -> int:
        """How many records of a kind are stored."""
        [count] = self._numbers(f"SELECT COUNT(*) FROM {kind}")
        return count or 0

    def episode_range(self) -> tuple[int | None, int | None]:
        """The first and last episode with recorded steps."""
        first, last = self._numbers("SELECT MIN(episode), MAX(episode) FROM steps")
        return first, last

    def quarantined(self) -> dict[str, dict[str, int]]:
        """How many records were set aside, by kind and reason."""
        totals: dict[str, dict[str, int]] = {}
        for kind, reason, total in self._rows(
            "SELECT kind, reason, total FROM quarantine_counts", ()
        ):
            if isinstance(total, int):
                totals.setdefault(str(kind), {})[str(reason)] = total
        return totals

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _numbers(self, statement: str, bound: Row = ()) -> list[int | None]:
        """The columns of the one row that a statement asks for; None where there is no number."""
        return [cell if isinstance(cell, int) else None for cell in self._rows(statement, bound)[0]]

    def _rows(self, statement: str, bound: Row) -> list[Row]:
        with self._lock:
            try:
                return self._connection.execute(statement, bound).fetchall()
            except sqlite3.DatabaseError as error:
                raise StoreDamagedError(f"the telemetry store cannot be read: {error}") from error


class StoreWriter:
    """The one writer of a run's store.

    `submit` never waits for the disk: a thread of its own writes in batches and reports each commit
    through `on_commit` (called on that thread). A failing disk is retried for ever with the batch
    in hand, `trouble` says what is wrong meanwhile, and the credit window holds the worker back.
    """

    def __init__(
        self, run_dir: Path, on_commit: Callable[[list[Committed]], None] = lambda _: None
    ) -> None:
        path = store_path(run_dir)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._connection = _open(path)
            self.notice = self._opening_notice()
        except sqlite3.DatabaseError as error:
            aside = _put_aside(path)
            self._connection = _open(path)
            self._set_meta("closed", "no")
            self.notice = (
                f"the telemetry store was damaged ({error}) and is kept "
                f"as {aside.name}, with the earlier records; a new one was begun"
            )
        self.trouble = ""
        self._on_commit = on_commit
        self._work = _Work()
        self._known_frames: dict[str, None] = {}
        self._wake = threading.Condition()
        self._writing = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="telemetry-store", daemon=True)
        self._thread.start()

    def submit(self, kind: Kind, records: list[Record], size: int) -> None:
        """Take records to write; they are safe once reported through `on_commit`."""
        with self._wake:
            self._work.records.append((kind, records, size))
            self._work.count += len(records)
            self._wake.notify_all()

    def set_aside(self, rejections: list[Rejection]) -> None:
        """Count rejected records and keep a bounded sample of them."""
        with self._wake:
            for rejection in rejections:
                self._work.set_aside(rejection)
            self._wake.notify_all()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything submitted so far is on disk; False when the time ran out."""
        with self._wake:
            return self._wake.wait_for(lambda: not self._work and not self._writing, timeout)

    def close(self, timeout: float = 10.0) -> bool:
        """Write what is left and mark the store as closed in good order."""
        clean = self.flush(timeout)
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join(timeout)
        if clean:
            self._set_meta("closed", "yes")
        self._connection.close()
        return clean

    def _opening_notice(self) -> str:
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'closed'").fetchone()
        self._set_meta("closed", "no")
        if row is None or row[0] == "yes":
            return ""
        return (
            "the telemetry store was not closed in good order: records received in the last "
            f"{COMMIT_EVERY_S} s before that (at most {COMMIT_RECORDS} a batch) may be missing"
        )

    def _set_meta(self, key: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: bool(self._work) or self._closing)
                if not self._work:
                    return
                self._wake.wait_for(
                    lambda: self._closing or self._work.count >= COMMIT_RECORDS, COMMIT_EVERY_S
                )
                work, self._work = self._work, _Work()
                self._writing = True
            stored = self._write_until_safe(work)
            with self._wake:
                self._writing = False
                self._wake.notify_all()
            if stored:
                self._on_commit(
                    [
                        Committed(kind, records[-1].seq, len(records), size)
                        for kind, records, size in work.records
                    ]
                )

    def _write_until_safe(self, work: _Work) -> bool:
        while True:
            try:
                self._write(work)
            except sqlite3.Error as error:
                self.trouble = f"the telemetry store cannot be written: {error}"
                with self._wake:
                    if self._wake.wait_for(lambda: self._closing, RETRY_S):
                        return False
            else:
                self.trouble = ""
                return True

    def _write(self, work: _Work) -> None:
        rows: dict[Kind, list[Row]] = {Kind.STEPS: [], Kind.EPISODES: []}
        frames: dict[str, bytes] = {}
        for kind, records, _size in work.records:
            rows[kind].extend(rows_of(kind, records))
            if kind is Kind.STEPS:
                frames.update(self._new_frames(records))
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            if frames:
                insert_rows(self._connection, "frames", ("name", "data"), list(frames.items()))
            for kind, kind_rows in rows.items():
                insert_rows(self._connection, kind, COLUMNS[kind], kind_rows)
            self._write_rejections(work)
            self._connection.execute("COMMIT")
        except BaseException:
            self._rollback()
            raise
        self._remember(frames)

    def _rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _new_frames(self, records: list[Record]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for record in records:
            assert isinstance(record, pb.Step)
            if record.frame:
                name = record.frame_ref or frame_name(record.frame)
                if name not in self._known_frames:
                    found[name] = record.frame
        return found

    def _remember(self, frames: dict[str, bytes]) -> None:
        for name in frames:
            self._known_frames[name] = None
        while len(self._known_frames) > REMEMBERED_FRAMES:
            self._known_frames.pop(next(iter(self._known_frames)))

    def _write_rejections(self, work: _Work) -> None:
        if not work.rejected:
            return
        kept = self._connection.execute("SELECT COUNT(*) FROM quarantine").fetchone()[0]
        sample = [
            (r.kind, r.seq, r.reason, r.detail)
            for r in work.samples[: max(0, QUARANTINE_ROWS - kept)]
        ]
        insert_rows(self._connection, "quarantine", ("kind", "seq", "reason", "detail"), sample)
        self._connection.executemany(
            "INSERT INTO quarantine_counts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "total = total + excluded.total, last_seq = MAX(last_seq, excluded.last_seq)",
            [(*key, *value) for key, value in work.rejected.items()],
        )
