"""How the parts of a configuration become one document, checked: what all builders share."""

from collections.abc import Sequence

from mosaic.config.model import Parameters, TrainRunConfig
from mosaic.config.validation import validate_train_run_config
from mosaic.config.wishes import Wishes, Worker

# As long as the model allows; the names that are made by builders are cut to it.
LONGEST_NAME = 200


def assembled(
    worker: Worker, fields: Parameters, wishes: Wishes, default_name: str = ""
) -> TrainRunConfig:
    """A new configuration from the worker's own fields and what is wished besides.

    Raises:
        InvalidConfigError: With every problem.
    """
    request: Parameters = {"type": worker.type, "config": fields}
    if worker.module:
        request["module"] = worker.module
    artifacts: Parameters = {
        "tensorboard": {"enabled": wishes.tensorboard},
        "wandb": {"enabled": wishes.wandb},
    }
    if wishes.keep_checkpoints is not None:
        artifacts["keep_checkpoints"] = wishes.keep_checkpoints
    document: Parameters = {
        "run_name": wishes.name or default_name,
        "environment": dict(wishes.environment),
        "resources": {
            "cpus": {"requested": wishes.cpus},
            # A run that asks for a GPU cannot do without: on the CPU it would take days.
            "gpus": {"requested": wishes.gpus, "mandatory": wishes.gpus},
            "memory_mb": wishes.memory_mb,
        },
        "limits": {"max_wallclock_minutes": wishes.max_minutes},
        "artifacts": artifacts,
        "metadata": {"worker": request, "tags": list(wishes.tags)},
    }
    if wishes.site is not None:
        document["site"] = wishes.site
    return validate_train_run_config(document)


def changed(
    before: TrainRunConfig,
    fields: Parameters,
    extras: Parameters,
    *,
    name: str = "",
    tags: Sequence[str] | None = None,
    keep: str | None = None,
    site: str | None = None,
) -> TrainRunConfig:
    """A copy with some of the worker's fields and extras replaced; None leaves a field alone."""
    worker = before.worker
    given = {key: value for key, value in fields.items() if value is not None}
    if extras:
        given["extras"] = {**worker.extras.model_dump(exclude_unset=True), **extras}
    document = before.document()
    request = {
        **before.metadata.worker.model_dump(exclude_unset=True),
        "config": {**worker.model_dump(exclude_unset=True), **given},
    }
    kept = before.metadata.tags if tags is None else tags
    document["metadata"] = {"worker": request, "tags": list(kept)}
    if name:
        document["run_name"] = name
    if keep is not None:
        artifacts = before.artifacts.model_dump(exclude_unset=True)
        document["artifacts"] = {**artifacts, "keep_checkpoints": keep}
    if site is not None:
        document["site"] = site
    return validate_train_run_config(document)


def parameters_of(config: TrainRunConfig) -> Parameters:
    """The algorithm's own arguments."""
    return dict(config.worker.extras.algo_params)
