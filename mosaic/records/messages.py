"""Replies and streams of the daemon as records. A run itself is mapped in `wire`."""

import json
from collections.abc import Callable
from typing import TypedDict, TypeVar

from google.protobuf.message import Message

from mosaic.records.archive import ImportedRun
from mosaic.records.changes import (
    ChangesMissed,
    RunChange,
    RunEvent,
    RunRemoved,
    RunUpdated,
    SnapshotEnd,
)
from mosaic.records.daemon import Health, Resources, Slot, WorkerInfo
from mosaic.records.fields import Record, fields_of
from mosaic.records.streams import (
    EpisodeBatch,
    EpisodeRecord,
    FrameRecord,
    LogChunk,
    MetricBatch,
    SequenceGap,
    StepBatch,
    StepRecord,
)
from mosaic.records.wire import read_run
from mosaic.wire import trainer_pb2 as pb
from mosaic.workers.capabilities import WorkerCapabilities

R = TypeVar("R", bound=Record)


class _Place(TypedDict):
    generation: str
    sequence: int


def _copier(record: type[R], *besides: str) -> Callable[..., R]:
    """Fills a record from a message whose fields have the same names.

    Args:
        record: The class.
        besides: Fields that the caller passes.
    """
    # Outside `copy`: the names are the same for every message of a stream.
    names = tuple(item.name for item in fields_of(record) if item.name not in besides)

    def copy(message: Message, **given: object) -> R:
        return record(**{name: getattr(message, name) for name in names}, **given)

    return copy


read_health = _copier(Health)
read_log_chunk = _copier(LogChunk)
read_frame = _copier(FrameRecord)
_slot = _copier(Slot)
_resources = _copier(Resources, "slots")
_worker = _copier(WorkerInfo, "capabilities")
_event = _copier(RunEvent, "data")
_imported = _copier(ImportedRun, "run")
_step = _copier(StepRecord)
_episode = _copier(EpisodeRecord)


def read_resources(message: pb.Resources) -> Resources:
    """The machine."""
    return _resources(message, slots=tuple(map(_slot, message.slots)))


def read_worker(message: pb.Worker) -> WorkerInfo:
    """A worker."""
    document = message.capabilities_json
    known = WorkerCapabilities.from_json(document) if document else None
    return _worker(message, capabilities=known)


def read_event(message: pb.RunEvent) -> RunEvent:
    """A line of a run's event log."""
    return _event(message, data=json.loads(message.data_json))


def read_imported(message: pb.ImportedRun) -> ImportedRun:
    """A run from an archive."""
    return _imported(message, run=read_run(message.run))


def read_change(message: pb.RunChange) -> RunChange:
    """A message of WatchRuns."""
    place = _Place(generation=message.generation, sequence=message.sequence)
    match message.WhichOneof("change"):
        case "run":
            return RunUpdated(run=read_run(message.run), **place)
        case "removed":
            return RunRemoved(run_id=message.removed, **place)
        case "gap":
            # `from` is a keyword of Python, so the field has no attribute syntax.
            since: int = getattr(message.gap, "from")
            return ChangesMissed(since=since, until=message.gap.to, **place)
        case _:
            return SnapshotEnd(**place)


def read_metrics(message: pb.MetricBatch) -> MetricBatch:
    """Points of a curve."""
    return MetricBatch(
        tag=message.tag,
        steps=tuple(message.steps),
        values=tuple(message.values),
        wall_times=tuple(message.wall_times),
        total_points=message.total_points,
    )


def read_steps(message: pb.StepBatch) -> StepBatch:
    """Some steps."""
    return StepBatch(
        run_id=message.run_id, steps=tuple(map(_step, message.steps)), gap=_gap(message)
    )


def read_episodes(message: pb.EpisodeBatch) -> EpisodeBatch:
    """Some episodes."""
    return EpisodeBatch(
        run_id=message.run_id, episodes=tuple(map(_episode, message.episodes)), gap=_gap(message)
    )


def _gap(message: pb.StepBatch | pb.EpisodeBatch) -> SequenceGap | None:
    if not message.HasField("gap"):
        return None
    return SequenceGap(first=getattr(message.gap, "from"), last=message.gap.to)
