"""Typed records of what the daemon knows: the same on both sides of the wire.

The daemon fills them, the SDK returns them, `--json` prints them and the window shows them. Only
`mosaic.records.wire` knows how they look as messages.
"""

from mosaic.records.run import (
    Capabilities,
    CheckpointRecord,
    Outcome,
    Progress,
    RunRecord,
    State,
)

__all__ = [
    "Capabilities",
    "CheckpointRecord",
    "Outcome",
    "Progress",
    "RunRecord",
    "State",
]
