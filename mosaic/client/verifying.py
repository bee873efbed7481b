"""Verifying: train pieces of a run again and compare, to the last bit."""

import random
from itertools import pairwise
from typing import NamedTuple, cast

from mosaic.client.forking import kept_checkpoints
from mosaic.client.sdk import TrainerClient
from mosaic.config import build
from mosaic.config.model import Parameters, TrainRunConfig
from mosaic.errors import InvalidArgumentError, RunFileError
from mosaic.records import CheckpointRecord, RunRecord
from mosaic.runs import certificate
from mosaic.runs.certificate import Certificate

TAG = "verify"
_TRAINING = ("train", "resume_training")


class Piece(NamedTuple):
    """A stretch of training between two kept checkpoints."""

    start: CheckpointRecord
    end: CheckpointRecord


def pieces(trainer: TrainerClient, base: RunRecord) -> list[Piece]:
    """Every piece of a run that can be trained again.

    Raises:
        InvalidArgumentError: There is none; the text says how to keep more checkpoints.
    """
    if base.live:
        raise InvalidArgumentError(
            f"run {base.run_id} has not ended; wait for it, or cancel it: mosaic watch"
        )
    if base.mode not in _TRAINING:
        raise InvalidArgumentError(
            f"run {base.run_id} does not train (its mode is {base.mode!r}); "
            "give a run of `mosaic train`"
        )
    kept = kept_checkpoints(trainer, base.run_id)
    found = [Piece(start, end) for start, end in pairwise(kept) if start.step < end.step]
    if not found:
        count = "only one checkpoint" if kept else "no checkpoint"
        raise InvalidArgumentError(
            f"run {base.run_id} keeps {count} to continue from, and a piece is what was trained "
            f"between two; to keep more, train with --keep, such as --keep every:{_interval(base)}"
        )
    return found


def choose(found: list[Piece], count: int) -> list[Piece]:
    """So many of the pieces at random, in their order; all of them where there are no more."""
    # Which piece is checked must not be foreseeable, so no seed decides it.
    chosen = random.SystemRandom().sample(found, min(count, len(found)))
    return sorted(chosen, key=lambda piece: piece.start.step)


def verify(trainer: TrainerClient, base: RunRecord, piece: Piece) -> RunRecord:
    """Submit a run that trains a piece again and writes its certificate.

    Raises:
        InvalidConfigError: The worker cannot verify, or the run's configuration makes no sense.
    """
    before = build.read_config(trainer.config(base.run_id))
    return trainer.submit(
        _config(before, base, piece), parent_run_id=base.run_id, parent_step=piece.start.step
    )


def read_certificate(trainer: TrainerClient, run_id: str) -> Certificate | None:
    """The certificate that a verifying run has written; None where it has come to none."""
    try:
        document = trainer.read_file(run_id, certificate.FILE).document()
    except RunFileError:
        return None
    return cast(Certificate, document) if document.get("verdict") else None


def _config(before: TrainRunConfig, base: RunRecord, piece: Piece) -> TrainRunConfig:
    """The run's own configuration, for one piece and with nothing beside the training."""
    document = before.document()
    worker = before.metadata.worker
    extras: Parameters = {
        **worker.config.extras.model_dump(exclude_unset=True),
        "mode": "verify",
        "checkpoint_path": f"{base.run_dir}/{piece.start.path}",
        "track_wandb": False,
        "capture_video": False,
        "fastlane_video_mode": "off",
        "verify": {
            "run_id": base.run_id,
            "run_dir": base.run_dir,
            "mode": base.mode,
            "start": _saved(piece.start),
            "end": _saved(piece.end),
        },
    }
    extras.pop("wandb_api_key", None)
    config = {**worker.config.model_dump(exclude_unset=True), "extras": extras}
    # The run's own tags would make it one more run of its experiment.
    document["metadata"] = {
        "worker": {**worker.model_dump(exclude_unset=True), "config": config},
        "tags": [TAG],
    }
    document["artifacts"] = {"wandb": {"enabled": False}, "tensorboard": {"enabled": False}}
    name = f"verify {base.run_name or base.algo} {piece.start.step}–{piece.end.step}"
    document["run_name"] = name[: build.LONGEST_NAME]
    return build.read_config(document)


def _saved(checkpoint: CheckpointRecord) -> Parameters:
    return {"path": checkpoint.path, "step": checkpoint.step, "sha256": checkpoint.sha256}


def _interval(base: RunRecord) -> int:
    """An interval that would give this run about ten checkpoints."""
    return max(1, (base.progress.total or base.progress.step or 100_000) // 10)
