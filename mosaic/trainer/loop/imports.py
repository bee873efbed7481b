"""Judging a run that comes from another home before it becomes one of ours."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mosaic.archive.content import Cleaner
from mosaic.archive.manifest import ArchivedRun
from mosaic.config.json_types import JsonValue
from mosaic.config.secrets import extract, misplaced
from mosaic.errors import ArchiveError, HoldsSecretError, RunDamagedError
from mosaic.runs import eventlog, opening
from mosaic.runs.directory import RunDirectory
from mosaic.system import atomic
from mosaic.trainer.core.decisions import Now, decide
from mosaic.trainer.core.states import Event, Run, State
from mosaic.trainer.core.stimuli import ImportedAsCopy
from mosaic.trainer.loop.recovery import last_vitals
from mosaic.trainer.storage import history
from mosaic.trainer.storage.registry import Vitals


def load(place: Path, run_id: str) -> tuple[Run, Vitals]:
    """The row of an unpacked run.

    Raises:
        ArchiveError: Its event log is not that of a run that has ended, or is damaged.
    """
    try:
        log = opening.read_regular(place, eventlog.FILE_NAME, eventlog.LARGEST)
    except OSError:
        raise ArchiveError(f"run {run_id} has no event log that could be one") from None
    config = opening.read_document(RunDirectory(place).config)
    if config is None:
        raise ArchiveError(f"run {run_id} has no readable config.json")
    try:
        _check_no_credential(config, run_id)
        run = history.load(place, run_id)
    except RunDamagedError as error:
        raise ArchiveError(str(error)) from None
    except RecursionError:
        raise ArchiveError(f"config.json of run {run_id} is nested too deeply") from None
    # Reading stops at a line that is no event, as it should after a crash. In an archive that is
    # damage, so every line has to have counted.
    if run is None or run.version != log.count(b"\n"):
        raise ArchiveError(f"the event log of run {run_id} is damaged")
    if run.state is not State.TERM:
        raise ArchiveError(f"run {run_id} has not ended; only ended runs are imported")
    if run.deleted:
        raise ArchiveError(f"run {run_id} was in the trash of its home")
    # Its key was spent in another home. Here it must not answer a submission that it never was.
    atomic.write_json(RunDirectory(place).imported, {})
    return without_key(run), last_vitals(run, place)


def without_key(run: Run) -> Run:
    """A run from another home: nothing that is submitted here can mean it."""
    return replace(run, idempotency_key="")


def _check_no_credential(config: Mapping[str, JsonValue], run_id: str) -> None:
    """Refuse a configuration with a credential in it: here it would be no more than a text.

    An archive is compared with the run byte by byte when it is imported again, so that nothing
    can be taken out of it on the way in.
    """
    found: dict[str, str] = {}
    extract(config, found)
    places = [*found, *("/".join(map(str, path)) for path, _ in misplaced(dict(config)))]
    if places:
        raise ArchiveError(
            f"config.json of run {run_id} holds what looks like a credential "
            f"({', '.join(sorted(places)[:3])}); export the run again with this version of "
            "MOSAIC, which takes credentials out"
        )


def note_origin(place: Path, original: str) -> None:
    """Write down, as an event, which run an unpacked copy is a copy of.

    Raises:
        ArchiveError: The copy's log makes no sense.
    """
    try:
        run = history.load(place, original)
    except RunDamagedError as error:
        raise ArchiveError(str(error)) from None
    if run is None:
        return  # `load` refuses it with the reason
    now = Now(time.time(), time.monotonic())
    events = decide(run, ImportedAsCopy(original), now).events
    history.append(
        place,
        [Event(seq, now.wall, now.mono, what) for seq, what in enumerate(events, run.version + 1)],
    )


def differing(run_dir: Path, archived: ArchivedRun, cleaner: Cleaner) -> list[str]:
    """The files of an archived run that a run directory has not, or has otherwise."""
    return [
        file.path for file in archived.files if _digest(cleaner, run_dir / file.path) != file.sha256
    ]


def _digest(cleaner: Cleaner, path: Path) -> str:
    digest = hashlib.sha256()
    try:
        for piece in cleaner.pieces(path):
            digest.update(piece)
    except (OSError, HoldsSecretError):
        return ""
    return digest.hexdigest()
