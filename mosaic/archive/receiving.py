"""An archive is unpacked behind the fence; the daemon feeds it and says where runs go."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mosaic.archive.manifest import ArchivedRun, Manifest
from mosaic.archive.reader import ArchiveReader
from mosaic.archive.unpack import check_size, read_manifest, unpack
from mosaic.errors import ArchiveError, FenceError
from mosaic.system import fenced

if TYPE_CHECKING:
    from mosaic.config.json_types import JsonValue

# Time is counted for each piece that is fed, so that a large archive or a slow client is no
# offence: a message of 4 MiB can swell to 4 GB, which takes seconds to inflate and to write. A
# manifest lists up to 100,000 files, and is taken apart in memory.
_LIMITS = fenced.Limits(cpu_s=60, wall_s=300.0, memory_mb=2048, answer_mb=128)


@dataclass(frozen=True)
class Announced:
    """A run that an archive holds, before its files come."""

    run_id: str
    files: int
    size: int


def receive(
    chunks: Iterator[bytes],
    archive_size: int,
    free: int,
    place_of: Callable[[Announced], Path | None],
    compare: Callable[[ArchivedRun], None],
) -> None:
    """Check an archive and write its runs.

    Args:
        chunks: The archive.
        archive_size: Its size, 0 where it is not known.
        free: How many bytes its content may take here.
        place_of: The new folder of a run; None for one that is here already.
        compare: Refuses a run that is here already and differs.

    Raises:
        ArchiveError: It is damaged, hostile or does not fit.
        OSError: The disk refuses, or no process could be started.
    """

    def reply(question: "JsonValue") -> bytes:
        if not isinstance(question, dict):
            return next(chunks, b"")
        if "run" in question:
            compare(ArchivedRun.model_validate(question["run"]))
            return b""
        facts = question["run_id"], question["files"], question["size"]
        place = place_of(Announced(*cast("tuple[str, int, int]", facts)))
        return json.dumps(None if place is None else str(place)).encode()

    size: JsonValue = {"archive_size": archive_size, "free": free}
    try:
        refusal = fenced.call(f"{__name__}:take_apart", size, _LIMITS, reply)
    except FenceError as error:
        raise ArchiveError(f"the archive cannot be read: {error}") from None
    if isinstance(refusal, dict):
        number, text = refusal["errno"], str(refusal["text"])
        raise OSError(number, text) if number else ArchiveError(text)


def take_apart(size: "JsonValue", ask: fenced.Ask) -> "JsonValue":
    """Behind the fence: nothing, or what is wrong with the archive."""
    assert isinstance(size, dict)
    try:
        reader = ArchiveReader(_chunks(ask))
        manifest = read_manifest(reader)
        check_size(manifest, cast("int", size["archive_size"]), cast("int", size["free"]))
        unpack(reader, manifest, _places(manifest, ask))
    except ArchiveError as error:
        return {"errno": 0, "text": str(error)}
    except OSError as error:
        return {"errno": error.errno or 0, "text": error.strerror or str(error)}
    return None


def _places(manifest: Manifest, ask: fenced.Ask) -> dict[str, Path]:
    """Where each run goes; before the first file is written every run has been judged."""
    places = {}
    for run in manifest.runs:
        place = json.loads(ask({"run_id": run.run_id, "files": len(run.files), "size": run.size}))
        if place is None:
            ask({"run": run.model_dump()})
        else:
            places[run.run_id] = Path(place)
    return places


def _chunks(ask: fenced.Ask) -> Iterator[bytes]:
    while chunk := ask(None):
        yield chunk
