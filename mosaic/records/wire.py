"""Records as protobuf messages and back, derived from the records' own fields.

A field is read and written by its name. How it is converted follows from the two declarations:
what `trainer.proto` calls `optional` or `repeated` and what the record may hold `None` for.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import lru_cache
from operator import attrgetter
from types import NoneType
from typing import TypeVar, get_args, get_type_hints

from mosaic.records.run import (
    AlarmRecord,
    Capabilities,
    CheckpointRecord,
    Outcome,
    Progress,
    RunRecord,
    State,
)
from mosaic.wire import trainer_pb2 as pb

T = TypeVar("T")
Reader = Callable[[pb.Run], object]
Writer = Callable[[object], object]
# Their fields are named by the classes themselves, which no type checker can follow.
_make_record: Callable[..., RunRecord] = RunRecord
_make_message: Callable[..., pb.Run] = pb.Run


def _copier(make: Callable[..., T], record: type) -> Callable[[object], T]:
    """Fills all fields of a record from an object that has the same names.

    Args:
        make: The record itself, or its message.
        record: The class that names the fields.
    """
    names = tuple(item.name for item in fields(record))
    return lambda source: make(**{name: getattr(source, name) for name in names})


def _each(write: Writer) -> Writer:
    def write_all(items: object) -> list[object]:
        assert isinstance(items, tuple)
        return [write(item) for item in items]

    return write_all


@lru_cache(maxsize=256)
def _capabilities(text: str) -> Capabilities:
    # Thousands of runs share a few documents, and parsing one costs more than the rest of a record.
    return Capabilities(json.loads(text or "{}"))


_STATES = {str(state): state for state in State}
_OUTCOMES = {"": None, **{str(outcome): outcome for outcome in Outcome}}
_progress = _copier(Progress, Progress)
_checkpoint = _copier(CheckpointRecord, CheckpointRecord)
_raised = _copier(AlarmRecord, AlarmRecord)

# Fields whose type on the wire differs from the record's: how to read and how to write them.
_OWN_WAYS: dict[str, tuple[Reader, Writer]] = {
    "state": (lambda run: _STATES[run.state], str),
    "outcome": (lambda run: _OUTCOMES[run.outcome], str),
    "progress": (
        lambda run: _progress(run.progress),
        _copier(pb.Progress, Progress),
    ),
    "metrics": (lambda run: dict(run.metrics), lambda value: value),
    "checkpoints": (
        lambda run: tuple(_checkpoint(item) for item in run.checkpoints),
        _each(_copier(pb.Checkpoint, CheckpointRecord)),
    ),
    "alarms": (
        lambda run: tuple(_alarm(item) for item in run.alarms),
        _each(_copier(pb.Alarm, AlarmRecord)),
    ),
    "capabilities": (
        lambda run: _capabilities(run.capabilities_json),
        json.dumps,
    ),
}


def _alarm(message: pb.Alarm) -> AlarmRecord:
    alarm = _raised(message)
    return alarm if message.HasField("checkpoint_step") else replace(alarm, checkpoint_step=None)


_OTHER_NAMES = {"capabilities": "capabilities_json"}


def _reader(name: str, nullable: bool) -> Reader:
    if name in _OWN_WAYS:
        return _OWN_WAYS[name][0]
    wire, read = pb.Run.DESCRIPTOR.fields_by_name[name], attrgetter(name)
    if wire.has_presence:
        return lambda run: read(run) if run.HasField(name) else None
    if wire.is_repeated:
        return lambda run: tuple(read(run))
    # proto3 sends an unset text or number as empty; the record says null.
    return (lambda run: read(run) or None) if nullable else read


# Worked out once, at import: a list of runs converts thousands of records.
_TYPES = get_type_hints(RunRecord)
_READERS = tuple(
    (item.name, _reader(item.name, NoneType in get_args(_TYPES[item.name])))
    for item in fields(RunRecord)
)
_WRITERS = tuple(
    (item.name, _OTHER_NAMES.get(item.name, item.name), _OWN_WAYS.get(item.name, (None, None))[1])
    for item in fields(RunRecord)
)


def read_run(message: pb.Run) -> RunRecord:
    """The record in a message."""
    return _make_record(**{name: read(message) for name, read in _READERS})


def write_run(values: Mapping[str, object]) -> pb.Run:
    """The message that `read_run` makes a record of.

    It takes the values and no record: only clients need one, and the daemon sends thousands.
    """
    written: dict[str, object] = {}
    for name, wire_name, write in _WRITERS:
        value = values[name]
        # None stays unset, so that `optional` fields arrive as None and not as 0.
        if value is not None:
            written[wire_name] = write(value) if write else value
    return _make_message(**written)
