"""`TrainRunConfig`: what a client submits. Its JSON Schema drives forms, CLI and validation."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MODES = ("train", "resume_training", "policy_eval", "interactive", "script")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class GpuRequest(_Strict):
    """How many GPUs a run wants and how many it cannot do without."""

    requested: Annotated[int, Field(ge=0, le=64, description="GPUs to reserve")] = 0
    mandatory: Annotated[int, Field(ge=0, le=64, description="GPUs it cannot start without")] = 0


class CpuRequest(_Strict):
    """How many CPU slots a run takes."""

    requested: Annotated[int, Field(ge=1, le=1024, description="CPU slots to reserve")] = 1


class ResourceRequest(_Strict):
    """What the scheduler must set aside before the run starts."""

    gpus: GpuRequest = GpuRequest()
    cpus: CpuRequest = CpuRequest()
    memory_mb: Annotated[
        int | None, Field(ge=1, description="memory to reserve, in MB; null: no reservation")
    ] = None


class Limits(_Strict):
    """When the daemon ends a run by itself."""

    max_wallclock_minutes: Annotated[
        float | None, Field(gt=0, description="wall-clock limit in minutes; null: none")
    ] = None


class Toggle(_Strict):
    """One kind of artifact, on or off."""

    enabled: bool = False


class Artifacts(_Strict):
    """What the run should leave behind besides its logs."""

    tensorboard: Toggle = Toggle(enabled=True)
    wandb: Toggle = Toggle()
    keep_checkpoints: Annotated[int, Field(ge=1, le=1000, description="checkpoints to keep")] = 3


class CurriculumStage(_Strict):
    """One environment of a curriculum and when to leave it."""

    env_id: str
    steps: Annotated[int | None, Field(ge=1)] = None
    episodes: Annotated[int | None, Field(ge=1)] = None
    episode_return: float | None = None
    condition: str | None = None


class Extras(BaseModel):
    """Settings every worker understands; any other key is handed to the worker to judge."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    mode: Literal["train", "resume_training", "policy_eval", "interactive", "script"] = "train"
    cuda: bool = False
    use_cuda: bool = False
    tensorboard_dir: str = "tensorboard"
    track_wandb: bool = False
    wandb_project_name: str | None = None
    wandb_entity: str | None = None
    wandb_run_name: str | None = None
    wandb_api_key: str | None = None
    wandb_email: str | None = None
    wandb_use_vpn_proxy: bool = False
    wandb_http_proxy: str | None = None
    wandb_https_proxy: str | None = None
    algo_params: dict[str, Any] = Field(default_factory=dict)
    curriculum_schedule: list[CurriculumStage] | str | None = None
    checkpoint_path: str | None = None
    policy_path: str | None = None
    fastlane_video_mode: Literal["single", "grid", "off"] = "single"
    fastlane_slot: Annotated[int, Field(ge=0)] = 0
    fastlane_grid_limit: Annotated[int, Field(ge=1, le=64)] = 4
    capture_video: bool = False
    eval_episodes: Annotated[int, Field(ge=1)] = 10
    gamma: Annotated[float | None, Field(ge=0, le=1)] = None
    repeat: bool = False
    requirements: list[str] = Field(default_factory=lambda: ["base"])
    notes: str = ""
    minimal_telemetry: bool = False


class WorkerRunConfig(_Strict):
    """The worker's own fields, also accepted alone as the flat shape of a config."""

    run_id: str = "${RUN_ID}"
    algo: str = ""
    env_id: str = ""
    seed: Annotated[int, Field(ge=0, le=2**32 - 1, description="random seed")] = 1
    total_timesteps: Annotated[
        int | None, Field(ge=1, description="environment steps to train for")
    ] = None
    worker_id: str | None = None
    agent_id: str | None = None
    extras: Extras = Extras()


class WorkerRequest(_Strict):
    """Which worker runs it, and with what."""

    type: str
    module: str | None = None
    config: WorkerRunConfig


class Metadata(_Strict):
    """Who does the learning, and how people find the run again."""

    worker: WorkerRequest
    tags: list[str] = Field(default_factory=list)


class TrainRunConfig(_Strict):
    """A run as submitted."""

    run_name: Annotated[str, Field(max_length=200, description="a name for people")] = ""
    resources: ResourceRequest = ResourceRequest()
    limits: Limits = Limits()
    environment: dict[str, str] = Field(
        default_factory=dict, description="extra environment variables of the worker"
    )
    artifacts: Artifacts
    metadata: Metadata

    @property
    def worker(self) -> WorkerRunConfig:
        """The worker's own fields."""
        return self.metadata.worker.config


def config_schema() -> dict[str, Any]:
    """The published JSON Schema."""
    schema = TrainRunConfig.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return schema
