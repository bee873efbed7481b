"""What is wrong with a run for the worker that is to do it, by what the worker declares. Pure.

A worker's own check comes before these rules. They are for workers that have none, so that what
is declared is also enforced, and for settings that a worker would silently ignore.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mosaic.config.flags import BAD_VALUE, UNKNOWN_FLAG
from mosaic.config.suggest import allowed_names, did_you_mean
from mosaic.errors import Problem
from mosaic.workers import parameters
from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.facts import AlgorithmFacts

if TYPE_CHECKING:
    from mosaic.config.model import TrainRunConfig

NO_SUCH_MODE, IGNORED_OPTION = "CFG123", "CFG124"
_CONFIG = "/metadata/worker/config"


def problems(
    worker: WorkerCapabilities, config: "TrainRunConfig", described: AlgorithmFacts | None
) -> Iterator[Problem]:
    """Every problem that follows from the descriptor and from `describe`."""
    mode = config.worker.extras.mode
    # Training is what a run does by default; a worker for games has it as its own kind of `play`.
    if mode != "train" and mode not in worker.modes:
        text = f"{worker.worker_type} has no mode {mode!r}; it has {allowed_names(worker.modes)}"
        yield Problem(f"{_CONFIG}/extras/mode", NO_SUCH_MODE, text)
    yield from _ignored(worker, config, described)
    if described is not None and mode in ("train", "resume_training"):
        yield from _parameters(worker, config, described)


def _ignored(
    worker: WorkerCapabilities, config: "TrainRunConfig", described: AlgorithmFacts | None
) -> Iterator[Problem]:
    """Settings that this worker does nothing with."""
    extras = config.worker.extras
    declared = {item["name"] for item in (described or {}).get("arguments", ())}
    asked = {
        "wandb": (extras.track_wandb or config.artifacts.wandb.enabled, "extras/track_wandb"),
        "video": (extras.capture_video, "extras/capture_video"),
        "curriculum": (bool(extras.curriculum_schedule), "extras/curriculum_schedule"),
        "stop_at": (
            config.worker.parameters.get("stop_at") is not None and "stop_at" not in declared,
            "extras/stop_at",
        ),
    }
    for option, (wanted, field) in asked.items():
        if wanted and option not in worker.options:
            text = f"{worker.worker_type} does nothing with {option!r}; leave it out"
            yield Problem(f"{_CONFIG}/{field}", IGNORED_OPTION, text)


def _parameters(
    worker: WorkerCapabilities, config: "TrainRunConfig", described: AlgorithmFacts
) -> Iterator[Problem]:
    declared = {item["name"]: item for item in described.get("arguments", ())}
    subject = config.worker.algo or worker.worker_type
    for name, value in config.worker.extras.algo_params.items():
        plain = name.replace("-", "_")
        where = f"{_CONFIG}/extras/algo_params/{name}"
        if plain in declared:
            sentence = parameters.misfit(declared[plain], value)
            if sentence:
                yield Problem(where, BAD_VALUE, sentence)
        elif plain not in worker.options and plain != "smoke":
            hint = did_you_mean(plain, declared)
            yield Problem(where, UNKNOWN_FLAG, f"{subject} has no argument {name!r}{hint}")
