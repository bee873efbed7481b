"""Typed records of what the daemon knows: the same on both sides of the wire.

The daemon fills them, the SDK returns them, `--json` prints them and the window shows them. Only
`mosaic.records.wire` knows how they look as messages. `mosaic.records.daemon` is not imported
here: it needs the worker contract, and the state machine that imports this package does not.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mosaic.records.archive import ExportedRun, ExportResult, ImportedRun
    from mosaic.records.changes import (
        ChangesMissed,
        RunChange,
        RunEvent,
        RunRemoved,
        RunUpdated,
        SnapshotEnd,
    )
    from mosaic.records.run import (
        AlarmRecord,
        Capabilities,
        CheckpointRecord,
        Outcome,
        Progress,
        RunRecord,
        State,
    )
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

__all__ = [
    "AlarmRecord",
    "Capabilities",
    "ChangesMissed",
    "CheckpointRecord",
    "EpisodeBatch",
    "EpisodeRecord",
    "ExportResult",
    "ExportedRun",
    "FrameRecord",
    "ImportedRun",
    "LogChunk",
    "MetricBatch",
    "Outcome",
    "Progress",
    "RunChange",
    "RunEvent",
    "RunRecord",
    "RunRemoved",
    "RunUpdated",
    "SequenceGap",
    "SnapshotEnd",
    "State",
    "StepBatch",
    "StepRecord",
]

# Every command, worker and daemon imports this package for a name or two. Building all of its
# classes costs 15 ms, so a module is loaded when the first of its names is asked for.
_MODULES = {
    "archive": ("ExportResult", "ExportedRun", "ImportedRun"),
    "changes": (
        "ChangesMissed",
        "RunChange",
        "RunEvent",
        "RunRemoved",
        "RunUpdated",
        "SnapshotEnd",
    ),
    "run": (
        "AlarmRecord",
        "Capabilities",
        "CheckpointRecord",
        "Outcome",
        "Progress",
        "RunRecord",
        "State",
    ),
    "streams": (
        "EpisodeBatch",
        "EpisodeRecord",
        "FrameRecord",
        "LogChunk",
        "MetricBatch",
        "SequenceGap",
        "StepBatch",
        "StepRecord",
    ),
}
_HOME_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    # Kept here, so that the next use does not come through this function.
    globals()[name] = value
    return value
