"""Verify: train a piece of an earlier run again, from one of its checkpoints to the next."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.modes import resume, train
from cleanrl_worker.modes.plan import Plan
from cleanrl_worker.resolution import resolve
from mosaic.config.json_types import JsonValue
from mosaic.workers import Problem

PROGRAM = "cleanrl_worker.programs.verify"
NO_PIECE = "CFG139"
# What a run does beside learning; a piece that is trained again has no use for it.
_BESIDE_LEARNING = frozenset({"track", "capture_video", "save_model", "upload_model", "hf_entity"})


def complete(config: CleanRLWorkerConfig, run_dir: Path | None) -> CleanRLWorkerConfig:
    """What the verified run's own mode would have filled in."""
    request = config.extras.verify
    if request is not None and request.mode == "resume_training":
        # Such a run took its settings from a checkpoint; those of its own have them too.
        return resume.complete(config, run_dir)
    return train.complete(config, run_dir)


def problems(
    config: CleanRLWorkerConfig, run_dir: Path | None, *, thorough: bool
) -> Iterator[Problem]:
    """Only what makes no sense at all: a changed checkpoint or setting is for the certificate."""
    if config.extras.verify is None:
        text = "'verify' is required: which piece to train again; use `mosaic verify RUN`"
        yield problem("extras/verify", NO_PIECE, text)
    elif config.algo.startswith("cleanrl:"):
        text = f"{config.algo} is an upstream script, which cannot resume, so no piece of it can"
        yield problem("algo", NO_PIECE, f"{text} be trained again; use the bundled one")


def plan(config: CleanRLWorkerConfig, run_dir: Path) -> Plan:
    """The run's own arguments, from the start of the piece to its end."""
    request = config.extras.verify
    assert request is not None, "refused by `problems`"
    ordinary = train.plan(config, run_dir)
    kept = {name: v for name, v in ordinary.values.items() if name not in _BESIDE_LEARNING}
    arguments: dict[str, JsonValue] = {
        **kept,
        "resume": str(Path(request.run_dir) / request.start.path),
        "stop_at": request.end.step,
        "checkpoint_interval_s": 0.0,
        "keep_checkpoints": "last:1",
    }
    values: dict[str, JsonValue] = {
        "algorithm": resolve(config.algo).name,
        "arguments": json.dumps(arguments),
        "request": request.model_dump_json(),
        "run_dir": str(run_dir),
        "run_id": config.run_id,
    }
    return dataclasses.replace(ordinary, target=PROGRAM, values=values)
