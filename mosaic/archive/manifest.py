"""`manifest.json`, the first entry of an archive: every file of every run, with its checksum."""

import json
import time
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from mosaic import __version__
from mosaic.errors import ArchiveError
from mosaic.runs.ids import is_run_id

FILE_NAME = "manifest.json"
FORMAT: Literal["mosaic-archive"] = "mosaic-archive"
SCHEMA_VERSION: Literal[1] = 1
MAX_FILES = 100_000
MAX_MANIFEST = 64 * 2**20
_MAX_PATH, _MAX_PART = 1024, 255
_MAX_RUNS = 1000


def safe_path(path: str) -> str:
    """Return a path that stays below its folder whatever the system makes of it.

    Raises:
        ValueError: It is absolute, climbs, or has something else in it that no run writes.
    """
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path!r} leads outside the run")
    if "\\" in path or any(ord(letter) < 32 or ord(letter) == 127 for letter in path):
        raise ValueError(f"{path!r} has characters that no file of a run has")
    try:
        longest = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError:
        raise ValueError(f"{path!r} is not UTF-8") from None
    if longest > _MAX_PART or len(path.encode()) > _MAX_PATH:
        raise ValueError(f"{path[:60]!r}… is too long for a file name")
    return path


def _run_id(text: str) -> str:
    if not is_run_id(text):
        raise ValueError(f"{text[:40]!r} is not a run id")
    return text


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class ArchivedFile(_Strict):
    """One file of a run; `mtime` in whole seconds."""

    path: Annotated[str, AfterValidator(safe_path)]
    size: Annotated[int, Field(ge=0, lt=2**60)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    mtime: Annotated[int, Field(ge=0, lt=2**33)]


class LeftOut(_Strict):
    """A file of the run that is not in the archive, and why."""

    path: str
    why: str


class ArchivedRun(_Strict):
    """One run.

    Attributes:
        run_id: Its id in the home it comes from.
        files: In the order in which the archive holds them.
        left_out: What stayed behind.
        redacted: Files out of which something that looked like a secret was taken.
    """

    run_id: Annotated[str, AfterValidator(_run_id)]
    run_name: str
    worker: str
    algo: str
    env_id: str
    outcome: str
    files: list[ArchivedFile]
    left_out: list[LeftOut] = []
    redacted: list[str] = []

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)


class Manifest(_Strict):
    """What an archive says about itself."""

    format: Literal["mosaic-archive"] = FORMAT
    schema_version: Literal[1] = SCHEMA_VERSION
    mosaic_version: str = __version__
    created_at: float
    runs: Annotated[list[ArchivedRun], Field(min_length=1, max_length=_MAX_RUNS)]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(run.size for run in self.runs)

    def to_bytes(self) -> bytes:
        """As the archive holds it."""
        return json.dumps(self.model_dump(), indent=1, ensure_ascii=False).encode() + b"\n"


def describe(runs: Sequence[ArchivedRun]) -> Manifest:
    """The manifest of an archive that is being written now."""
    return Manifest(created_at=time.time(), runs=list(runs))


def parse(content: bytes) -> Manifest:
    """Read a manifest with suspicion.

    Raises:
        ArchiveError: It is not one, is newer than this MOSAIC, or contradicts itself.
    """
    try:
        document: object = json.loads(content)
    except (ValueError, RecursionError):
        raise ArchiveError(f"{FILE_NAME} is not valid JSON") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ArchiveError("this is not a MOSAIC archive; `mosaic export RUN` writes one")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        by = document.get("mosaic_version")
        raise ArchiveError(
            f"the archive has schema {version!r} (written by MOSAIC {by!r}); this MOSAIC "
            f"{__version__} reads schema {SCHEMA_VERSION}: update MOSAIC and import it again"
        )
    try:
        manifest = Manifest.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = "/".join(map(str, first["loc"]))
        text = str(first["msg"]).removeprefix("Value error, ")
        raise ArchiveError(f"{FILE_NAME}, {place}: {text}") from None
    _check_names(manifest)
    return manifest


def _check_names(manifest: Manifest) -> None:
    """No run, no file twice, and no file where a folder must be."""
    ids = [run.run_id for run in manifest.runs]
    if len(set(ids)) < len(ids):
        raise ArchiveError("the archive holds the same run twice")
    count = sum(len(run.files) for run in manifest.runs)
    if count > MAX_FILES:
        raise ArchiveError(f"the archive lists {count:,} files; at most {MAX_FILES:,} are read")
    for run in manifest.runs:
        names = set[str]()
        folders = set[str]()
        for file in run.files:
            if file.path in names:
                raise ArchiveError(f"{file.path} is in the archive twice")
            names.add(file.path)
            parts = file.path.split("/")
            folders.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
        both = names & folders
        if both:
            raise ArchiveError(f"{min(both)} is both a file and a folder in the archive")
