"""Checkpoints and policies as JSON: whole, checksummed, the last few kept, never a pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypedDict, cast

from mosaic.config.keeping import KeepPolicy
from mosaic.runs.pins import finish_removals, remove_unless_pinned
from mosaic.system import atomic
from spade_bdi_rl_worker.errors import CheckpointError

FORMAT = "spade-bdi-checkpoint"
VERSION = 1
FOLDER = "checkpoints"
POLICY_FILE = f"{FOLDER}/policy.json"

Kind = Literal["full", "policy"]


class LearnerState(TypedDict):
    """What the learner itself keeps; each learner adds its own fields."""

    table: list[list[float]]
    episode: int
    steps: int
    # The state of NumPy's generator, as it gives it.
    random: dict[str, object]


class Policy(TypedDict):
    """What `policy_eval` needs."""

    worker: str
    env_id: str
    actions: int
    table: list[list[float]]
    numbering: dict[str, int]
    env_kwargs: dict[str, object]
    seed: int


def write(run_dir: Path, name: str, kind: Kind, content: Mapping[str, object]) -> tuple[str, str]:
    """Write a document with its checksum inside; returns its relative path and file checksum."""
    folder = run_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    # As text inside the document: its checksum is of bytes, not of what a parser makes of them.
    body = json.dumps(content, sort_keys=True)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "sha256": hashlib.sha256(body.encode()).hexdigest(),
        "content": body,
    }
    data = json.dumps(document).encode()
    atomic.write_bytes(folder / name, data)
    return f"{FOLDER}/{name}", hashlib.sha256(data).hexdigest()


def read_policy(path: Path) -> Policy:
    """A policy written by `write`; raises what `read` raises."""
    return cast(Policy, read(path, "policy"))


def read(path: Path, kind: Kind) -> dict[str, object]:
    """A document written by `write`.

    Raises:
        CheckpointError: It is missing, damaged, of another kind, or from a newer worker.
    """
    try:
        document = json.loads(path.read_bytes())
        body = document["content"]
        if document["format"] != FORMAT:
            raise KeyError("format")
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} is not a checkpoint of this worker", "give the path of one of its .json files"
        ) from error
    # Before the checksum: a newer format may compute it differently.
    if document["version"] > VERSION:
        raise CheckpointError(
            f"{path} was written by a newer worker (version {document['version']})"
        )
    if hashlib.sha256(body.encode()).hexdigest() != document["sha256"]:
        raise CheckpointError(f"{path} is damaged: its checksum does not match")
    if document["kind"] != kind:
        raise CheckpointError(f"{path} is a {document['kind']}, a {kind} is needed here")
    content: dict[str, object] = json.loads(body)
    return content


def find_full(given: str, run_dir: Path) -> Path:
    """The checkpoint to resume from: a file, the newest of a folder, or the run's own newest."""
    path = Path(given) if given else run_dir / FOLDER
    return newest(path) if path.is_dir() else path


def find_policy(given: str) -> Path:
    """The policy to evaluate: a file, or the one in a folder of checkpoints."""
    path = Path(given)
    return path / POLICY_FILE.rpartition("/")[2] if path.is_dir() else path


def newest(folder: Path) -> Path:
    """The newest full checkpoint in a folder that is whole.

    Raises:
        CheckpointError: There is none.
    """
    # Names carry the episode with leading zeros: the order of names is the order of time.
    for path in sorted(folder.glob("full-*.json"), reverse=True):
        try:
            read(path, "full")
        except CheckpointError:
            continue
        return path
    raise CheckpointError(f"there is no usable checkpoint in {folder}", "give checkpoint_path")


def prune(run_dir: Path, keep: KeepPolicy, scores: Mapping[int, float]) -> None:
    """Remove the full checkpoints that are not to be kept.

    Args:
        run_dir: The run.
        keep: Which ones stay; it counts episodes here.
        scores: The return of each episode's checkpoint, as far as it is known.
    """
    saved = {
        int(path.stem.removeprefix("full-")): path
        for path in (run_dir / FOLDER).glob("full-*.json")
        if path.stem.removeprefix("full-").isdecimal()
    }
    kept = keep.kept({episode: scores.get(episode) for episode in saved})
    finish_removals(run_dir / FOLDER)
    for episode, path in saved.items():
        if episode not in kept:
            remove_unless_pinned([path])


def check_fits(content: Mapping[str, object], path: Path, **expected: object) -> None:
    """Refuse a checkpoint of another environment, table or mode.

    Raises:
        CheckpointError: Naming each difference.
    """
    differences = [
        f"{name} is {content.get(name)!r} there and {value!r} here"
        for name, value in expected.items()
        if content.get(name) != value
    ]
    if differences:
        raise CheckpointError(f"{path} does not fit this run: {'; '.join(differences)}")
