"""What a worker says about itself, so that nothing has to know its name."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

PROTOCOL_VERSION = 1


@dataclass(frozen=True)
class WorkerCapabilities:
    """The descriptor a worker's entry point returns.

    Attributes:
        worker_type: The name in configs and on the command line.
        module: What `python -m` starts; `PACKAGE.cli` of the entry point's package by default.
        display_name: The name people see.
        supported_paradigms: How its agents take turns: `sequential`, `simultaneous`.
        env_families: The families of environments it can run, such as `atari`; `gymnasium` is
            classic control, Box2D and toy text. Any when empty.
        action_spaces: The kinds of actions it can choose: `discrete`, `continuous`,
            `multi_discrete`. Any when empty. What `describe` says about an algorithm counts more.
        observation_spaces: The kinds of observations it can learn from: `vector`, `image`,
            `grid`, `discrete`. Any when empty. What `describe` says counts more.
        max_agents: The most agents that may act in one environment.
        requires_gpu: It cannot run without a GPU: each of its runs reserves one.
        estimated_memory_mb: What a run reserves that does not say how much memory it needs.
        requires_live_telemetry: It lives in the telemetry lane (per-step records).
        provides_fast_analytics: It lives in the analytics lane (TensorBoard and its kind).
        supports_pause: It obeys PAUSE and RESUME on the control stream.
        supports_checkpointing: It writes checkpoints a later run can continue from.
        restarts_after_kill: A worker that is killed is started again within its run, with the
            same command and `MOSAIC_RESTARTS` set: it continues from what it has written.
        own_variables: Environment variables by which its processes find each other. They are
            never inherited from the daemon, and no run may set them.
        warm_modules: Heavy modules a warm-start process may import for it.
        heavy_algorithms: Patterns of algorithms that need further modules, such as `*_jax`.
        heavy_modules: These modules. The first run of such an algorithm starts a warm process of
            its own kind, so that no one else waits for them or has them in memory.
        modes: What it can be asked to do: values of `extras.mode`, or `play` for a person's game.
        options: Which settings of every run it acts on: `wandb`, `video`, `curriculum`,
            `stop_at`. A run that sets another is refused, so that nothing is silently ignored.
        validator: `package.module:function` taking a TrainRunConfig, returning Problems.
        algorithms: `package.module:function` returning the names of its algorithms.
        algorithm_prefixes: Prefixes of names that only it can resolve, such as `upstream:`;
            any other `worker:algorithm` names a worker and one of its algorithms.
        describe: `package.module:function` taking an algorithm's name, returning its arguments
            and what it can act on, as plain data for forms and help.
        environments: `package.module:function` returning the environments it can run.
        dry_run: `package.module:function` taking a config, returning (fits, text).
        check_config: Two small flat configs as JSON with which `mosaic check-worker` runs it:
            `long` lasts until it is stopped, `short` ends on its own in seconds.
        extras: `package.module` that `mosaic extras` starts to list (`--list`), check (`--check`)
            and install (`--set A,B`, `--rebuild`) its optional packages.
        exporter: `package.module` that `mosaic export --onnx`, `--html` and `--minari` start: the
            first word is the form, the last line that it prints is JSON.
        install_hint: The command that installs it or what it lacks.
    """

    worker_type: str
    module: str = ""
    display_name: str = ""
    supported_paradigms: tuple[str, ...] = ("sequential",)
    env_families: tuple[str, ...] = ()
    action_spaces: tuple[str, ...] = ()
    observation_spaces: tuple[str, ...] = ()
    max_agents: int = 1
    supports_checkpointing: bool = False
    supports_pause: bool = False
    restarts_after_kill: bool = False
    requires_gpu: bool = False
    requires_live_telemetry: bool = False
    provides_fast_analytics: bool = False
    estimated_memory_mb: int = 256
    own_variables: tuple[str, ...] = ()
    warm_modules: tuple[str, ...] = ()
    heavy_algorithms: tuple[str, ...] = ()
    heavy_modules: tuple[str, ...] = ()
    modes: tuple[str, ...] = ("train",)
    options: tuple[str, ...] = ()
    validator: str = ""
    algorithms: str = ""
    algorithm_prefixes: tuple[str, ...] = ()
    describe: str = ""
    environments: str = ""
    dry_run: str = ""
    check_config: str = ""
    extras: str = ""
    exporter: str = ""
    install_hint: str = ""

    def to_json(self) -> str:
        """As sent over the wire."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "WorkerCapabilities":
        """From the wire; fields of a newer version are left out."""
        known = {item.name for item in fields(cls)}
        data: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in json.loads(text).items()
            if key in known
        }
        return cls(**data)
