"""What the window reads of a run's files, all of it through the daemon; never the GUI thread."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gym_gui.models.artifacts import (
    MANIFEST,
    WANDB_ADDRESS,
    Artifacts,
    Manifest,
    event_folders,
    find_artifacts,
)
from gym_gui.models.failure import Failure, explain
from gym_gui.models.wandb_local import WandbSummary, summarise
from mosaic.client import TrainerClient
from mosaic.client.files import RunFile
from mosaic.config.redaction import redact, redact_text
from mosaic.errors import RunFileError

# Enough for the last lines, however long they are; a log may have gigabytes.
_TAIL_BYTES = 24_000
# A bundle has to fit into a mail.
_BUNDLED_BYTES = 512 * 1024
_DOCUMENTS = ("config.json", "provenance.json", "supervisor.json", "exit.json", MANIFEST)
_TEXTS = ("events.jsonl", "logs/stdout.log", "logs/stderr.log")


def read_artifacts(client: TrainerClient, run_id: str) -> Artifacts:
    """What a run has left behind so far."""
    document, problem = _manifest(client, run_id)
    manifest = Manifest.from_document(document)
    if not manifest.wandb:
        # The manifest comes at the end; where W&B shows the run is known once it tracks it.
        manifest = replace(manifest, wandb=_document(client, run_id, WANDB_ADDRESS))
    files = list(client.files(run_id))
    folders = dict.fromkeys((*event_folders(manifest, files), "videos", "wandb"))
    for folder in folders:
        files += _files(client, run_id, folder)
    # A manifest may name a file that is in none of the usual folders.
    parents = {_parent(path) for path in (manifest.optuna, *manifest.videos)} - {"", *folders}
    for parent in parents:
        files += _files(client, run_id, parent)
    return find_artifacts(manifest, files, problem)


def read_failure(client: TrainerClient, run_id: str, good_run_id: str) -> Failure:
    """Why a run failed; every part may be missing.

    Args:
        client: A connection.
        run_id: The run.
        good_run_id: The last run that worked, to compare with; empty when there is none.
    """
    # Python's tracebacks go to standard error; a worker that is no Python may use the other.
    words = _tail(client, run_id, "logs/stderr.log") or _tail(client, run_id, "logs/stdout.log")
    good = _document(client, good_run_id, "provenance.json") if good_run_id else {}
    return explain(
        supervisor=_document(client, run_id, "supervisor.json"),
        exited=_document(client, run_id, "exit.json"),
        log=words,
        now=_document(client, run_id, "provenance.json"),
        then=good,
    )


def read_wandb(client: TrainerClient, run_id: str, run_dir: str) -> WandbSummary | None:
    """What W&B keeps of a run; None when there is nothing.

    Args:
        client: A connection.
        run_id: The run.
        run_dir: Its directory on the daemon's machine, for the command that sends it to W&B.
    """
    folder = read_artifacts(client, run_id).wandb
    if folder is None:
        return None
    return summarise(
        folder,
        summary=_document(client, run_id, f"{folder.path}/files/wandb-summary.json"),
        metadata=_document(client, run_id, f"{folder.path}/files/wandb-metadata.json"),
        config=_config(client, run_id),
        shown_at=f"{run_dir}/{folder.path}",
    )


def bundle_parts(client: TrainerClient, run_id: str) -> Iterator[tuple[str, str]]:
    """Names and texts of a support bundle, with everything secret taken out."""
    for name in _DOCUMENTS:
        text = _tail(client, run_id, name, _BUNDLED_BYTES)
        if text:
            yield name, _redacted(text)
    for name in _TEXTS:
        text = _tail(client, run_id, name, _BUNDLED_BYTES)
        if text:
            yield name, redact_text(text)


def _redacted(text: str) -> str:
    try:
        return json.dumps(redact(json.loads(text)), indent=1)
    except (ValueError, RecursionError):  # the second: nested too deeply
        return redact_text(text)


def _manifest(client: TrainerClient, run_id: str) -> tuple[Mapping[str, object], str]:
    try:
        text = client.read_file(run_id, MANIFEST).text()
    except RunFileError:
        return {}, ""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        return {}, f"{MANIFEST} cannot be read: {error}"
    if not isinstance(document, dict):
        return {}, f"{MANIFEST} is not a manifest"
    return document, ""


def _config(client: TrainerClient, run_id: str) -> Mapping[str, object]:
    try:
        return client.config(run_id)
    except RunFileError:
        return {}


def _files(client: TrainerClient, run_id: str, folder: str) -> list[RunFile]:
    try:
        return client.files(run_id, folder, recursive=True)
    except RunFileError:
        return []


def _document(client: TrainerClient, run_id: str, path: str) -> Mapping[str, object]:
    try:
        return client.read_file(run_id, path).document()
    except RunFileError:
        return {}


def _tail(client: TrainerClient, run_id: str, path: str, size: int = _TAIL_BYTES) -> str:
    try:
        return client.read_file(run_id, path, offset=-size).text()
    except RunFileError:
        return ""


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
