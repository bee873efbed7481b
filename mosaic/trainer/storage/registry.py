"""The registry: an SQLite index over run directories, written by one thread.

It can always be thrown away. An older or damaged file is set aside and built again from the event
logs; only a newer one is refused, because its writer may know more than we do.

Lock order: `_settling` and `_reader_lock` are never held together, and the writer thread takes
neither while it is inside a transaction.
"""

import json
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mosaic.errors import StorageError
from mosaic.records.run import Outcome
from mosaic.trainer import failpoints
from mosaic.trainer.core.states import Run, State, run_from_dict, run_to_dict
from mosaic.trainer.storage import schema
from mosaic.trainer.storage.paging import Cell, Query, conditions, decode_token, encode_token

_BUSY_RETRY_S = 0.2
_START_PATIENCE_S = 20.0
_COLUMNS = "row, vitals, sequence, run_id"
_SELECT = f"SELECT {_COLUMNS} FROM runs JOIN details USING (run_id)"
_GONE = -1
# What one row can be wrong with; a lock, a full disk or a damaged file is another matter.
_UNWRITABLE = (
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.IntegrityError,
    sqlite3.DataError,
    OverflowError,
    ValueError,
    TypeError,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Vitals:
    """A run's newest vital signs and how far its log has been read."""

    step: int = 0
    total: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    last_heartbeat: float = 0.0
    eta_s: float = 0.0
    log_offset: int = 0
    log_seq: int = 0
    quarantined: int = 0


@dataclass(frozen=True)
class StoredRun:
    """One row as clients may see it."""

    run: Run
    vitals: Vitals
    sequence: int


@dataclass(frozen=True)
class Page:
    """What a query gave."""

    runs: list[StoredRun]
    next_page_token: str
    total: int


class Registry:
    """All access to the registry file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rebuilt = schema.prepare(path)
        self._reader = schema.connect(self._path)
        self._reader_lock = threading.Lock()
        self._work: queue.Queue[_Work | None] = queue.Queue()
        # What the writer has not committed yet; None is a row on its way out. Without it a client
        # that submits and asks at once would be told that there is no such run.
        self._uncommitted: dict[str, StoredRun | None] = {}
        self._settling = threading.Lock()
        self.generation = self._meta("generation")
        self.sequence = self._newest_sequence()
        self._writer = threading.Thread(target=self._write_forever, name="registry", daemon=True)
        self._writer.start()

    # ------------------------------------------------------------ writing

    def put(self, run: Run, vitals: Vitals) -> int:
        """Store a row; returns its new place in the sequence of changes."""
        self.sequence += 1
        words = (run.run_id, run.run_name, run.algo, run.env_id, *run.tags, run.notes)
        # The parent too: searching for a run finds what was made from it.
        search = " ".join((*words, run.parent_run_id))
        values = (
            run.run_id,
            self.sequence,
            str(run.state),
            run.outcome,
            run.worker,
            run.algo,
            run.env_id,
            run.run_name,
            run.created_at,
            run.finished_at,
            int(run.deleted),
            run.idempotency_key,
            search.lower(),
        )
        marks = ",".join("?" * len(values))
        with self._settling:
            self._uncommitted[run.run_id] = StoredRun(run, vitals, self.sequence)
        details = (run.run_id, json.dumps(run_to_dict(run)), json.dumps(vitals.__dict__))
        self._enqueue("INSERT OR REPLACE INTO details VALUES (?, ?, ?)", details)
        insert = f"INSERT OR REPLACE INTO runs VALUES ({marks})"
        self._work.put(_Work(insert, values, settles=(run.run_id, self.sequence)))
        return self.sequence

    def put_vitals(self, run_id: str, vitals: Vitals) -> None:
        """Store vital signs alone; watchers are not notified."""
        text = json.dumps(vitals.__dict__)
        self._enqueue("UPDATE details SET vitals = ? WHERE run_id = ?", (text, run_id))

    def remove(self, run_id: str) -> int:
        """Forget a row for good; returns the change's place in the sequence."""
        self.sequence += 1
        with self._settling:
            self._uncommitted[run_id] = None
        for table in ("runs", "details"):
            self._enqueue(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))
        insert = "INSERT OR REPLACE INTO removed VALUES (?, ?)"
        self._work.put(_Work(insert, (run_id, self.sequence), settles=(run_id, _GONE)))
        return self.sequence

    def recall(self, key: str) -> str:
        """Something remembered about this home; empty when there is nothing."""
        rows = self._read("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else ""

    def remember(self, key: str, value: str) -> None:
        """Keep something about this home for the next daemon."""
        self._enqueue("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def covered_until(self) -> float:
        """Every event recorded before this moment of the wall clock is in the file."""
        return float(self._meta("covered"))

    def next_epoch(self, after: int = 0) -> int:
        """Count one more start of a daemon on this home; `after` is the newest epoch of a run."""
        epoch = max(int(self._meta("epoch")), after) + 1
        self._enqueue("UPDATE meta SET value = ? WHERE key = 'epoch'", (str(epoch),))
        self.flush(timeout_s=_START_PATIENCE_S)
        return epoch

    def flush(self, timeout_s: float = 2.0) -> None:
        """Wait until everything put so far can be read back.

        Raises:
            StorageError: Another program holds the file, or the disk refuses.
        """
        done = threading.Event()
        self._work.put(_Work("", (), done))
        if not done.wait(timeout_s):
            raise StorageError(
                "the registry is locked by another program or the disk is full; try again shortly"
            )

    def close(self) -> None:
        """Write what is left and close the file."""
        self._work.put(None)
        self._writer.join(timeout=10.0)
        with self._reader_lock:
            self._reader.close()

    # ------------------------------------------------------------ reading

    def get(self, run_id: str) -> StoredRun | None:
        """One row, also one still on its way to the file."""
        with self._settling:
            if run_id in self._uncommitted:
                return self._uncommitted[run_id]
        rows = self._read(f"{_SELECT} WHERE run_id = ?", (run_id,))
        return _stored(rows[0]) if rows else None

    def find_by_key(self, idempotency_key: str) -> str | None:
        """The run submitted with this key."""
        # A copy, because the writer's thread removes what it has committed.
        for waiting in tuple(self._uncommitted.values()):
            if waiting is not None and waiting.run.idempotency_key == idempotency_key:
                return waiting.run.run_id
        rows = self._read("SELECT run_id FROM runs WHERE idempotency_key = ?", (idempotency_key,))
        return str(rows[0][0]) if rows else None

    def ids(self, outcome: str = "") -> set[str]:
        """Every run id, or those of runs that ended so."""
        where, values = (" WHERE outcome = ?", (outcome,)) if outcome else ("", ())
        return {row[0] for row in self._read(f"SELECT run_id FROM runs{where}", values)}

    def ids_with_prefix(self, prefix: str, limit: int = 5) -> list[str]:
        """Ids that begin so, newest first."""
        sql = "SELECT run_id FROM runs WHERE run_id >= ? AND run_id < ? AND deleted = 0 "
        sql += "ORDER BY run_id DESC LIMIT ?"
        # No id sorts after that letter, so this is a range, which the index answers.
        return [row[0] for row in self._read(sql, (prefix, prefix + "\x7f", limit))]

    def newest(self) -> str | None:
        """The run submitted last."""
        rows = self._read(
            "SELECT run_id FROM runs WHERE deleted = 0 ORDER BY run_id DESC LIMIT 1", ()
        )
        return str(rows[0][0]) if rows else None

    def live(self) -> list[StoredRun]:
        """Every run that has not ended."""
        rows = self._read(f"{_SELECT} WHERE state != 'TERM'", ())
        return [_stored(row) for row in rows]

    def deleted(self) -> list[StoredRun]:
        """Everything in the trash."""
        return [_stored(row) for row in self._read(f"{_SELECT} WHERE deleted = 1", ())]

    def changes(self, since: int) -> tuple[list[StoredRun], list[tuple[str, int]]]:
        """Rows changed and ids removed after a place in the sequence."""
        changed = self._read(f"{_SELECT} WHERE sequence > ? ORDER BY sequence", (since,))
        removed = self._read("SELECT run_id, sequence FROM removed WHERE sequence > ?", (since,))
        return [_stored(row) for row in changed], [(row[0], row[1]) for row in removed]

    def page(self, query: Query) -> Page:
        """A page of runs."""
        where, values = conditions(query)
        descending = query.sort.startswith("-")
        column = query.sort.lstrip("-")
        # Ids grow with every run, whatever the clock did in between; the time is only for display.
        column = "run_id" if column == "created_at" else column
        order = "DESC" if descending else "ASC"
        total = self._read(f"SELECT COUNT(*) FROM runs WHERE {where}", values)[0][0]
        after = decode_token(query.page_token)
        if after:
            sign = "<" if descending else ">"
            where += f" AND ({column}, run_id) {sign} (?, ?)"
            values = [*values, *after]
        ordered = f"ORDER BY {column} {order}, run_id {order}"
        # The narrow table is searched and sorted; the long rows are fetched for this page alone.
        wanted = f"SELECT run_id, sequence, {column} AS place FROM runs WHERE {where} {ordered}"
        sql = f"SELECT {_COLUMNS}, place FROM ({wanted} LIMIT ?) JOIN details USING (run_id) "
        sql += f"ORDER BY place {order}, run_id {order}"
        rows = self._read(sql, (*values, query.page_size + 1))
        # One row more than asked for tells whether there is another page.
        more = len(rows) > query.page_size
        rows = rows[: query.page_size]
        runs = [_stored(row) for row in rows]
        token = encode_token(rows[-1][4], runs[-1].run.run_id) if more else ""
        return Page(runs, token, total)

    # ------------------------------------------------------------ inside

    def _enqueue(self, sql: str, values: Sequence[Cell]) -> None:
        self._work.put(_Work(sql, values))

    def _write_forever(self) -> None:
        connection = schema.connect(self._path)
        try:
            while True:
                first = self._work.get()
                batch = [first]
                # Everything that has piled up goes into one transaction: under a burst of
                # submissions the commit, not the statement, is what takes time.
                while not self._work.empty() and len(batch) < 500:
                    batch.append(self._work.get())
                work = [item for item in batch if item is not None]
                self._commit(connection, work)
                if len(work) < len(batch):
                    return
        finally:
            connection.close()

    def _commit(self, connection: sqlite3.Connection, work: Iterable["_Work"]) -> None:
        """Write a batch in one transaction, for as long as it takes."""
        items = list(work)
        while items:
            try:
                # The write lock now: a file that is locked is met before anything was written.
                connection.execute("BEGIN IMMEDIATE")
                for item in items:
                    self._execute(connection, item)
                # In the same transaction as the rows it speaks for: a recovery that trusts it can
                # skip every log that has not changed since.
                covered = (repr(items[-1].at),)
                connection.execute("UPDATE meta SET value = ? WHERE key = 'covered'", covered)
                failpoints.point("before_commit")
                connection.execute("COMMIT")
                failpoints.point("after_commit")
                break
            except sqlite3.DatabaseError as error:
                # Locked, full or damaged: the event logs have it all, so waiting loses nothing.
                with suppress(sqlite3.DatabaseError):
                    connection.execute("ROLLBACK")
                log.warning("registry write postponed: %s", error)
                time.sleep(_BUSY_RETRY_S)
        for item in items:
            if item.done:
                item.done.set()
            if item.settles is not None:
                self._settle(*item.settles)

    def _execute(self, connection: sqlite3.Connection, item: "_Work") -> None:
        """Write one row; one that cannot be written must not keep the others from the file."""
        if not item.sql:
            return
        try:
            connection.execute(item.sql, item.values)
        except _UNWRITABLE as error:
            log.error("the registry cannot hold a row of run %s: %s", item.values[0], error)

    def _settle(self, run_id: str, sequence: int) -> None:
        """A row has reached the file; forget it here."""
        with self._settling:
            waiting = self._uncommitted.get(run_id)
            arrived = sequence == (_GONE if waiting is None else waiting.sequence)
            # A newer row of the same run may be queued behind this one; it is still needed here.
            if arrived:
                self._uncommitted.pop(run_id, None)

    def _read(self, sql: str, values: Sequence[Cell]) -> list[tuple[Any, ...]]:
        with self._reader_lock:
            try:
                return self._reader.execute(sql, values).fetchall()
            except sqlite3.DatabaseError as error:
                raise StorageError(f"the registry cannot be read now: {error}") from error

    def _meta(self, key: str) -> str:
        return str(self._read("SELECT value FROM meta WHERE key = ?", (key,))[0][0])

    def _newest_sequence(self) -> int:
        sql = "SELECT MAX(COALESCE((SELECT MAX(sequence) FROM runs), 0), "
        sql += "COALESCE((SELECT MAX(sequence) FROM removed), 0))"
        return int(self._read(sql, ())[0][0])


@dataclass(frozen=True)
class _Work:
    """One write; `settles` is the row it brings to the file."""

    sql: str
    values: Sequence[Cell]
    done: threading.Event | None = None
    settles: tuple[str, int] | None = None
    at: float = field(default_factory=time.time)


def _stored(row: Sequence[Any]) -> StoredRun:
    """A row of the file; one that makes no sense is shown as damaged instead of breaking a list."""
    try:
        return StoredRun(run_from_dict(json.loads(row[0])), Vitals(**json.loads(row[1])), row[2])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"its row in the registry cannot be read ({error}); start the daemon again"
        run = Run(str(row[3]), State.TERM, outcome=Outcome.DAMAGED.value, reason=reason)
        return StoredRun(run, Vitals(), row[2])
