"""The tables of a run's telemetry store and how records map onto them."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import cast

from mosaic.errors import StoreVersionError
from mosaic.telemetry.records import Kind, Record
from mosaic.wire import trainer_pb2 as pb

SCHEMA_VERSION = 1
# What SQLite holds in a column.
Cell = int | float | str | bytes | None
Row = tuple[Cell, ...]

STORE_FOLDER = "telemetry"
STORE_FILE = "telemetry.db"

STEP_COLUMNS = (
    "seq",
    "episode",
    "step",
    "observation_json",
    "action_json",
    "reward",
    "terminated",
    "truncated",
    "info_json",
    "frame_ref",
    "at",
    "agent_id",
)
EPISODE_COLUMNS = (
    "seq",
    "episode",
    "length",
    "total_reward",
    "outcome",
    "seed",
    "info_json",
    "at",
    "agent_id",
)
COLUMNS = {Kind.STEPS: STEP_COLUMNS, Kind.EPISODES: EPISODE_COLUMNS}

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS steps (
    seq INTEGER PRIMARY KEY, episode INTEGER NOT NULL, step INTEGER NOT NULL,
    observation_json TEXT NOT NULL, action_json TEXT NOT NULL, reward REAL NOT NULL,
    terminated INTEGER NOT NULL, truncated INTEGER NOT NULL, info_json TEXT NOT NULL,
    frame_ref TEXT NOT NULL, at REAL NOT NULL, agent_id TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS steps_by_episode ON steps (episode);
CREATE TABLE IF NOT EXISTS episodes (
    seq INTEGER PRIMARY KEY, episode INTEGER NOT NULL, length INTEGER NOT NULL,
    total_reward REAL NOT NULL, outcome TEXT NOT NULL, seed INTEGER NOT NULL,
    info_json TEXT NOT NULL, at REAL NOT NULL, agent_id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS frames (name TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS quarantine (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, seq INTEGER NOT NULL, reason TEXT NOT NULL,
    detail TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS quarantine_counts (
    kind TEXT NOT NULL, reason TEXT NOT NULL, total INTEGER NOT NULL, last_seq INTEGER NOT NULL,
    PRIMARY KEY (kind, reason));
"""


def store_path(run_dir: Path) -> Path:
    """Where a run keeps its telemetry."""
    return run_dir / STORE_FOLDER / STORE_FILE


def frame_name(frame: bytes) -> str:
    """The name of a frame: equal pictures have equal names and are kept once."""
    return hashlib.sha256(frame).hexdigest()[:32]


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables, and refuse a store written by a newer MOSAIC."""
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found > SCHEMA_VERSION:
        raise StoreVersionError(
            f"this telemetry store has schema {found}, this MOSAIC reads up to {SCHEMA_VERSION}: "
            "update MOSAIC"
        )
    connection.executescript(_TABLES)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _step_row(step: pb.Step) -> Row:
    """A step as its table row."""
    return (
        step.seq,
        step.episode,
        step.step,
        step.observation_json,
        step.action_json,
        step.reward,
        step.terminated,
        step.truncated,
        step.info_json,
        step.frame_ref or (frame_name(step.frame) if step.frame else ""),
        step.at,
        step.agent_id,
    )


def _episode_row(episode: pb.Episode) -> Row:
    """An episode as its table row."""
    return (
        episode.seq,
        episode.episode,
        episode.length,
        episode.total_reward,
        episode.outcome,
        episode.seed,
        episode.info_json,
        episode.at,
        episode.agent_id,
    )


def rows_of(kind: Kind, records: Iterable[Record]) -> list[Row]:
    """Records of one kind as table rows."""
    if kind is Kind.STEPS:
        return [_step_row(step) for step in cast(Iterable[pb.Step], records)]
    return [_episode_row(episode) for episode in cast(Iterable[pb.Episode], records)]


def row_record(kind: Kind, row: Row) -> Record:
    """A table row as the record it came from."""
    fields = dict(zip(COLUMNS[kind], row, strict=True))
    # The columns have the names and types of the message's fields.
    make: Callable[..., Record] = pb.Step if kind is Kind.STEPS else pb.Episode
    return make(**fields)


def insert_rows(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], rows: Sequence[Row]
) -> None:
    """Insert many rows in few statements.

    Each statement hands Python's interpreter lock back once; row by row the writer would wait for
    it thousands of times while the event loop is busy.
    """
    start = 0
    head = f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES "
    row_text = f"({', '.join('?' * len(columns))})"
    while start < len(rows):
        # Powers of two: SQLite keeps the few statements that result compiled.
        size = min(256, 1 << ((len(rows) - start).bit_length() - 1))
        values = (v for row in rows[start : start + size] for v in row)
        connection.execute(head + ", ".join([row_text] * size), tuple(values))
        start += size
