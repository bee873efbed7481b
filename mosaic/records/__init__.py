"""Typed records of what the daemon knows: the same on both sides of the wire.

The daemon fills them, the SDK returns them, `--json` prints them and the window shows them. Only
`mosaic.records.wire` knows how they look as messages. `mosaic.records.daemon` is not imported
here: it needs the worker contract, and the state machine that imports this package does not.
"""

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
