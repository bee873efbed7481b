"""A run's files as the SDK returns them."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mosaic.config.json_types import JsonValue
from mosaic.errors import RunFileError
from mosaic.wire import trainer_pb2 as pb

# Small enough for any client's memory; a larger file is read in parts or downloaded.
MOST_BYTES = 64 * 2**20


@dataclass(frozen=True)
class RunFile:
    """An entry of a run directory.

    Attributes:
        path: Relative to the run directory, with `/`.
        kind: `file`, `folder`, `link` or `other`; only files can be read.
        size: In bytes.
        modified_at: Seconds since the epoch.
    """

    path: str
    kind: str
    size: int
    modified_at: float

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class FileContent:
    """Some bytes of a run's file.

    Attributes:
        data: The bytes.
        offset: Where in the file they begin.
        size: How large the file was when it was opened.
        modified_at: Seconds since the epoch.
    """

    data: bytes
    offset: int
    size: int
    modified_at: float

    @property
    def end(self) -> int:
        """The offset to continue from, for a file that grows."""
        return self.offset + len(self.data)

    def text(self) -> str:
        """The bytes as text; what is not UTF-8 is replaced."""
        return self.data.decode(errors="replace")

    def document(self) -> dict[str, JsonValue]:
        """The JSON object in the file; empty when it holds none."""
        try:
            document = json.loads(self.data)
        except (ValueError, RecursionError):  # the second: nested too deeply
            return {}
        return document if isinstance(document, dict) else {}


def page(reply: pb.ListRunFilesReply) -> list[RunFile]:
    """The entries of one reply."""
    return [RunFile(item.path, item.kind, item.size, item.modified_at) for item in reply.files]


def collect(path: str, chunks: Iterable[pb.FileChunk], limit: int) -> FileContent:
    """The chunks of a file in one piece.

    Raises:
        RunFileError: There are more than `limit` bytes.
    """
    parts: list[bytes] = []
    first: pb.FileChunk | None = None
    for chunk in chunks:
        if first is None:
            first = chunk
            # Known from the first chunk, so a huge file is refused before it fills the memory.
            left = chunk.size - chunk.offset
            if left > limit:
                raise RunFileError(
                    f"{path!r} has {left:,} bytes to read, more than the {limit:,} allowed; "
                    "read it in parts (offset, limit) or download it"
                )
        parts.append(chunk.data)
    if first is None:
        raise RunFileError(f"the daemon sent nothing of {path!r}")
    return FileContent(b"".join(parts), first.offset, first.size, first.modified_at)


def append(target: Path, chunks: Iterator[pb.FileChunk]) -> int:
    """Write chunks where they belong and cut off what is beyond them; the size afterwards."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        end = 0
        for chunk in chunks:
            file.seek(chunk.offset)
            file.write(chunk.data)
            end = chunk.offset + len(chunk.data)
        # The file may have been rewritten shorter; its old end would look like new content.
        file.truncate(end)
    return end
