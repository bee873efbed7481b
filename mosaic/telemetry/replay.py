"""Replay of a recorded episode: observations, actions, rewards and frames as they were."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from mosaic.config.json_types import JsonValue
from mosaic.errors import NotRecordedError
from mosaic.records import EpisodeBatch, StepBatch, StepRecord
from mosaic.telemetry.png import draw_grid, encode_png
from mosaic.telemetry.records import Kind
from mosaic.telemetry.schema import store_path
from mosaic.telemetry.store import StoreReader
from mosaic.wire import trainer_pb2 as pb

PAGE = 512


class Recordings(Protocol):
    """The part of the SDK's client that reads records."""

    def steps(self, run_id: str, *, episode: int | None = None) -> Iterator[StepBatch]: ...
    def episodes(self, run_id: str) -> Iterator[EpisodeBatch]: ...


@dataclass(frozen=True)
class ReplayStep:
    """One recorded step, with its JSON texts read."""

    seq: int
    episode: int
    step: int
    observation: JsonValue
    action: JsonValue
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, JsonValue]
    frame: bytes
    agent_id: str
    at: float


def replay(steps: Iterable[pb.Step | StepRecord]) -> Iterator[ReplayStep]:
    """Steps from the wire or the store, as values."""
    for step in steps:
        info = _read(step.info_json)
        yield ReplayStep(
            seq=step.seq,
            episode=step.episode,
            step=step.step,
            observation=_read(step.observation_json),
            action=_read(step.action_json),
            reward=step.reward,
            terminated=step.terminated,
            truncated=step.truncated,
            info=info if isinstance(info, dict) else {},
            frame=step.frame,
            agent_id=step.agent_id,
            at=step.at,
        )


def read_episode(run_dir: Path, episode: int, agent_id: str | None = None) -> list[ReplayStep]:
    """All steps of one recorded episode with their frames.

    Raises:
        NotRecordedError: The store has no step of that episode; the text says what it has.
    """
    if not store_path(run_dir).exists():
        raise NotRecordedError(f"the run in {run_dir.name} has recorded no telemetry")
    reader = StoreReader(run_dir)
    try:
        steps = list(_stored_steps(reader, episode, agent_id))
        if not steps:
            raise NotRecordedError(_what_there_is(reader, episode))
        return list(replay(steps))
    finally:
        reader.close()


def read_games(run_dir: Path) -> Iterator[tuple[int, list[object]]]:
    """The seed and the actions of every episode that a run has recorded, in order.

    Raises:
        NotRecordedError: There is no store.
    """
    if not store_path(run_dir).exists():
        raise NotRecordedError(f"the run in {run_dir.name} has recorded no telemetry")
    reader = StoreReader(run_dir)
    try:
        cursor = 0
        while page := reader.read(Kind.EPISODES, cursor, PAGE):
            cursor = page[-1].seq
            for one in cast(list[pb.Episode], page):
                steps = _stored_steps(reader, one.episode, one.agent_id)
                yield one.seed, [_read(step.action_json) for step in steps]
    finally:
        reader.close()


def fetch_episode(trainer: Recordings, run_id: str, episode: int) -> list[ReplayStep]:
    """All steps of one recorded episode, from the daemon.

    Raises:
        NotRecordedError: There is no step of that episode; the text says what there is.
    """
    batches = trainer.steps(run_id, episode=episode)
    steps = list(replay(step for batch in batches for step in batch.steps))
    if not steps:
        known = [e.episode for b in trainer.episodes(run_id) for e in b.episodes]
        if not known:
            raise NotRecordedError(f"run {run_id} has recorded no episodes; it cannot be replayed")
        there = f"the run has recorded episodes {min(known)} to {max(known)}"
        raise NotRecordedError(f"episode {episode} is not recorded: {there}")
    return steps


def picture_of(step: ReplayStep) -> bytes:
    """The step's frame; drawn from the text grid in its info when none was recorded.

    A worker that sends no pictures gives `info["grid"] = {"rows": [...], "agent": [row, column]}`.
    """
    if step.frame:
        return step.frame
    grid = step.info.get("grid")
    if not isinstance(grid, dict):
        return b""
    match grid.get("rows"), grid.get("agent"):
        case [[_, *_] as rows, [int(row), int(column)]]:
            return encode_png(draw_grid(list(map(str, rows)), (row, column)))
        case [[_, *_] as rows, _]:
            return encode_png(draw_grid(list(map(str, rows)), None))
    return b""


def _stored_steps(reader: StoreReader, episode: int, agent_id: str | None) -> Iterator[pb.Step]:
    cursor = 0
    while page := reader.read(Kind.STEPS, cursor, PAGE, episode):
        cursor = page[-1].seq
        for step in cast(list[pb.Step], page):
            if agent_id is None or step.agent_id == agent_id:
                if step.frame_ref:
                    step.frame = reader.frame(step.frame_ref)
                yield step


def _what_there_is(reader: StoreReader, episode: int) -> str:
    first, last = reader.episode_range()
    if first is None:
        return f"episode {episode} is not recorded: the store holds no steps"
    return f"episode {episode} is not recorded: the store holds episodes {first} to {last}"


def _read(text: str) -> JsonValue:
    if not text:
        return None
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    return value
