"""Who executes a run, and what people may ask for any run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Worker:
    """Who executes a run.

    Attributes:
        type: The worker's name.
        module: What `python -m` starts; the worker's own when empty.
        declares: Whether its algorithms declare their arguments. Parameters then belong under
            `algo_params`, else they are extras of the worker's own.
    """

    type: str
    module: str = ""
    declares: bool = True


@dataclass(frozen=True)
class Wishes:
    """What people may ask for any run, whatever it does.

    Attributes:
        name: For people; the daemon makes one up when it is empty.
        max_minutes: Wall-clock limit.
        keep_checkpoints: Which to keep; see `mosaic.config.keeping`.
        site: Where to run; the daemon's setting when it is None.
        environment: Extra environment variables of the worker.
    """

    name: str = ""
    tags: Sequence[str] = ()
    cpus: int = 1
    gpus: int = 0
    memory_mb: int | None = None
    max_minutes: float | None = None
    tensorboard: bool = True
    wandb: bool = False
    keep_checkpoints: int | str | None = None
    site: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
