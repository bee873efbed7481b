"""The registry's file: its tables, how it is opened, and when it is built again."""

import logging
import sqlite3
import time
import uuid
from pathlib import Path

from mosaic.errors import RegistryVersionError, StorageError

SCHEMA_VERSION = 2
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, sequence INTEGER NOT NULL, state TEXT NOT NULL, outcome TEXT NOT NULL,
    worker TEXT NOT NULL, algo TEXT NOT NULL, env_id TEXT NOT NULL, run_name TEXT NOT NULL,
    created_at REAL NOT NULL, finished_at REAL NOT NULL, deleted INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL, search TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE details (
    run_id TEXT PRIMARY KEY, row TEXT NOT NULL, vitals TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_by_sequence ON runs (sequence);
CREATE INDEX runs_by_state ON runs (state);
CREATE INDEX runs_by_age ON runs (deleted, run_id);
CREATE INDEX runs_by_key ON runs (idempotency_key) WHERE idempotency_key != '';
CREATE TABLE removed (run_id TEXT PRIMARY KEY, sequence INTEGER NOT NULL) WITHOUT ROWID;
"""

log = logging.getLogger(__name__)


def connect(path: Path) -> sqlite3.Connection:
    """Open the file.

    Raises:
        StorageError: SQLite cannot; the text says what to do.
    """
    try:
        connection = sqlite3.connect(
            path, timeout=1.0, isolation_level=None, check_same_thread=False
        )
    except sqlite3.OperationalError as error:
        # SQLite has a limit of its own, below that of the file system, and does not name it.
        raise StorageError(
            f"the registry {path} cannot be opened: {error}; its path has {len(str(path))} "
            "characters, and SQLite takes about 500: choose a shorter home with MOSAIC_HOME"
        ) from None
    # WAL: readers never wait for the writer. NORMAL: a power cut may cost the last commits,
    # which the event logs restore; FULL would cost an fsync for each of them.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def prepare(path: Path) -> bool:
    """Make sure a file of our schema is there; True when a new one was made.

    Raises:
        RegistryVersionError: A newer MOSAIC wrote it.
        StorageError: It cannot be opened.
    """
    if path.exists():
        version = _version(path)
        if version is not None and version > SCHEMA_VERSION:
            raise RegistryVersionError(
                f"{path} has schema {version}, this MOSAIC knows {SCHEMA_VERSION}: "
                "use the newer MOSAIC, or move the file away to build it again from the runs"
            )
        if version == SCHEMA_VERSION:
            return False
        _set_aside(path)
    connection = connect(path)
    connection.executescript(_TABLES)
    facts = (("generation", uuid.uuid4().hex), ("epoch", "0"), ("covered", "0"))
    connection.executemany("INSERT INTO meta VALUES (?, ?)", facts)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.commit()
    connection.close()
    return True


def _version(path: Path) -> int | None:
    """The schema version of a file; None when it is not a sound registry."""
    try:
        connection = sqlite3.connect(path, timeout=10.0)
        try:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if version == SCHEMA_VERSION:
                if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                    return None
                connection.execute("SELECT row FROM details LIMIT 1")
                if not connection.execute("SELECT value FROM meta WHERE key='epoch'").fetchone():
                    return None
            return version
        finally:
            connection.close()
    except sqlite3.DatabaseError:
        return None


def _set_aside(path: Path) -> None:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    # With its log, or SQLite would apply the old log to the new file.
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(part.with_name(f"{part.name}.set-aside-{stamp}"))
    log.warning("the registry was unreadable or old; it is set aside and built again")
