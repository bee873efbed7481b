"""What came of an export or an import."""

from dataclasses import dataclass
from typing import Annotated

from mosaic.records.fields import Record
from mosaic.records.run import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut(Record):
    """A file that is not in the archive."""

    path: Annotated[str, "Relative to the run directory."]
    why: Annotated[str, "The reason."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRun(Record):
    """A run in an archive."""

    run_id: Annotated[str, "The run."]
    run_name: Annotated[str, "Name for people."]
    files: Annotated[int, "Number of files."]
    bytes: Annotated[int, "Size of the files before compression."]
    left_out: Annotated[tuple[LeftOut, ...], "Files that are not in the archive."]
    redacted: Annotated[tuple[str, ...], "Files from which something like a secret was removed."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult(Record):
    """An archive that was written."""

    file: Annotated[str, "Path of the archive."]
    size: Annotated[int, "Bytes."]
    sha256: Annotated[str, "Checksum of the archive."]
    runs: Annotated[tuple[ExportedRun, ...], "What is in it."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun(Record):
    """A run that came from an archive."""

    run: Annotated[RunRecord, "The run in this home."]
    original_id: Annotated[str, "Its id in the archive."]
    created: Annotated[bool, "False if the home had this very run already."]
    files: Annotated[int, "Number of files."]
    bytes: Annotated[int, "Size of the files."]
