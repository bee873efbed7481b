"""Records as protobuf messages and back, derived from the records' own fields.

A field is read and written by its name. How it is converted follows from the two declarations:
what `trainer.proto` calls `optional` or `repeated` and what the record may hold `None` for.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from types import NoneType
from typing import Any, get_args, get_type_hints

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

Reader = Callable[[Any], Any]
Writer = Callable[[Any], Any]


def _values_of(record: type) -> Callable[[Any], dict[str, Any]]:
    """Reads all fields of a record from an object that has the same names."""
    names = tuple(item.name for item in fields(record))
    return lambda source: {name: getattr(source, name) for name in names}


@lru_cache(maxsize=256)
def _capabilities(text: str) -> Capabilities:
    # Thousands of runs share a few documents, and parsing one costs more than the rest of a record.
    return Capabilities(json.loads(text or "{}"))


_STATES = {str(state): state for state in State}
_OUTCOMES = {"": None, **{str(outcome): outcome for outcome in Outcome}}
_progress_values = _values_of(Progress)
_checkpoint_values = _values_of(CheckpointRecord)
_alarm_values = _values_of(AlarmRecord)

# Fields whose type on the wire differs from the record's: how to read and how to write them.
_OWN_WAYS: dict[str, tuple[Reader, Writer]] = {
    "state": (lambda run: _STATES[run.state], str),
    "outcome": (lambda run: _OUTCOMES[run.outcome], str),
    "progress": (
        lambda run: Progress(**_progress_values(run.progress)),
        lambda value: pb.Progress(**_progress_values(value)),
    ),
    "metrics": (lambda run: dict(run.metrics), lambda value: value),
    "checkpoints": (
        lambda run: tuple(CheckpointRecord(**_checkpoint_values(item)) for item in run.checkpoints),
        lambda value: [pb.Checkpoint(**_checkpoint_values(item)) for item in value],
    ),
    "alarms": (
        lambda run: tuple(_alarm(item) for item in run.alarms),
        lambda value: [pb.Alarm(**_alarm_values(item)) for item in value],
    ),
    "capabilities": (
        lambda run: _capabilities(run.capabilities_json),
        lambda value: json.dumps(value),
    ),
}


def _alarm(message: pb.Alarm) -> AlarmRecord:
    values = _alarm_values(message)
    if not message.HasField("checkpoint_step"):
        values["checkpoint_step"] = None
    return AlarmRecord(**values)


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
    return RunRecord(**{name: read(message) for name, read in _READERS})


def write_run(values: Mapping[str, Any]) -> pb.Run:
    """The message that `read_run` makes a record of.

    It takes the values and no record: only clients need one, and the daemon sends thousands.
    """
    written: dict[str, Any] = {}
    for name, wire_name, write in _WRITERS:
        value = values[name]
        # None stays unset, so that `optional` fields arrive as None and not as 0.
        if value is not None:
            written[wire_name] = write(value) if write else value
    return pb.Run(**written)
