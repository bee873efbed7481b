"""`TrainRunConfig`: what a client submits. Its JSON Schema is published with the documentation."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

from mosaic.config import keeping, sites

Mode = Literal[
    "train", "resume_training", "policy_eval", "interactive", "script", "verify", "take_over"
]
VideoMode = Literal["single", "grid", "off"]
Parameters = dict[str, JsonValue]
Keep = Annotated[
    int | str,
    AfterValidator(keeping.check),
    Field(description="checkpoints to keep: last:K, every:N, best; a number is last:K"),
]

Site = Annotated[
    str,
    AfterValidator(sites.check),
    Field(description=f"where it runs: {sites.KNOWN}; left out: the setting"),
]


class _Strict(BaseModel):
    # Built at the first use: validators of every model would be part of each daemon's start.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


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
    """When the daemon ends a run on its own."""

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
    keep_checkpoints: Keep = keeping.DEFAULT


class CurriculumStage(_Strict):
    """One environment of a curriculum and when to leave it."""

    env_id: str
    steps: Annotated[int | None, Field(ge=1)] = None
    episodes: Annotated[int | None, Field(ge=1)] = None
    episode_return: float | None = None
    condition: str | None = None


class TrainingPhase(_Strict):
    """One training of a script that is built from its phases; see `mosaic.config.phases`."""

    # Names are written into the script's header, between commas.
    name: Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[^,\x00-\x1f\x7f]+$")]
    algo: Annotated[str, Field(min_length=1)]
    env_id: Annotated[str, Field(min_length=1)]
    steps: Annotated[int, Field(ge=1, description="steps of this phase alone")]
    begins: Annotated[
        Literal["fresh", "continued", "warm"],
        Field(description="fresh; continued from the phase before; warm: with its policy"),
    ] = "fresh"
    parameters: Parameters = Field(default_factory=dict)


class SavedState(_Strict):
    """A full checkpoint as its run recorded it when it was written."""

    path: Annotated[str, Field(description="relative to the run directory")]
    step: Annotated[int, Field(ge=0)]
    sha256: str


class VerifyRequest(_Strict):
    """Which piece of which run is trained again, and what it must lead to."""

    run_id: str
    run_dir: str
    mode: Annotated[Mode, Field(description="mode of the run that is verified")]
    start: SavedState
    end: SavedState


class Extras(BaseModel):
    """Settings that every worker understands.

    This is the only list of them: a name that is missing here is a setting of the worker's own
    (a flag of the algorithm, for instance), and the worker judges it.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, defer_build=True)

    mode: Mode = "train"
    cuda: bool = False
    tensorboard_dir: str = "tensorboard"
    tensorboard_enabled: bool = True
    track_wandb: bool = False
    wandb_project_name: str | None = None
    wandb_entity: str | None = None
    wandb_run_name: str | None = None
    wandb_api_key: str | None = None
    wandb_email: str | None = None
    wandb_use_vpn_proxy: bool = False
    wandb_http_proxy: str | None = None
    wandb_https_proxy: str | None = None
    algo_params: Parameters = Field(default_factory=dict)
    curriculum_schedule: list[CurriculumStage] | str | None = None
    checkpoint_path: str | None = None
    policy_path: str | None = None
    script_path: str | None = None
    script_phases: Annotated[list[TrainingPhase] | None, Field(min_length=1)] = None
    fastlane_video_mode: VideoMode = "single"
    fastlane_slot: Annotated[int, Field(ge=0)] = 0
    fastlane_grid_limit: Annotated[int, Field(ge=1, le=64)] = 4
    capture_video: bool = False
    keep_checkpoints: Keep | None = None
    eval_episodes: Annotated[int, Field(ge=1)] = 10
    eval_max_steps: Annotated[int | None, Field(ge=0)] = None
    eval_sample: bool = False
    eval_each_seed: bool = False
    eval_policy_seed: Annotated[int | None, Field(ge=0)] = None
    gamma: Annotated[float | None, Field(ge=0, le=1)] = None
    repeat: bool = False
    requirements: list[str] = Field(default_factory=lambda: ["base"])
    notes: str = ""
    minimal_telemetry: bool = False
    verify: VerifyRequest | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_name_for_the_gpu(cls, given: object) -> object:
        """Read `use_cuda`, CleanRL's older name, as `cuda`; only `cuda` is stored."""
        if not isinstance(given, Mapping) or "use_cuda" not in given:
            return given
        fields = dict(given)
        older = fields.pop("use_cuda")
        # Where the two disagree, the one that asks for the GPU wins.
        if fields.get("cuda") is not True:
            fields["cuda"] = older
        return fields

    @property
    def own(self) -> Parameters:
        """The settings that are the worker's own: every name that is not listed above."""
        return dict(self.model_extra or {})


class WorkerRunConfig(_Strict):
    """The worker's own fields, also accepted alone as the flat shape of a config."""

    run_id: str = "${RUN_ID}"
    algo: str = ""
    env_id: str = ""
    # The largest seed that NumPy's generators of the old kind take.
    seed: Annotated[int, Field(ge=0, le=2**32 - 1, description="random seed")] = 1
    total_timesteps: Annotated[
        int | None, Field(ge=1, description="environment steps to train for")
    ] = None
    worker_id: str | None = None
    agent_id: str | None = None
    extras: Extras = Extras()

    @property
    def parameters(self) -> Parameters:
        """Arguments of the algorithm: `algo_params`, and every extra that is the worker's own."""
        given = {**self.extras.algo_params, **self.extras.own}
        return {name.replace("-", "_"): value for name, value in given.items()}


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
    """A run as submitted.

    It is built once (`mosaic.config.build`), checked once (`mosaic.config.validation`) and
    stored as it was checked. `document` is the only way from the model to JSON.
    """

    run_name: Annotated[str, Field(max_length=200, description="a name for people")] = ""
    resources: ResourceRequest = ResourceRequest()
    limits: Limits = Limits()
    site: Site | None = None
    environment: dict[str, str] = Field(
        default_factory=dict, description="extra environment variables of the worker"
    )
    artifacts: Artifacts
    metadata: Metadata

    @property
    def worker(self) -> WorkerRunConfig:
        """The worker's own fields."""
        return self.metadata.worker.config

    def document(self) -> dict[str, JsonValue]:
        """The configuration as JSON data, with what was given and nothing else.

        Defaults are left out on purpose: a worker may have other defaults than the model, and
        two runs that were asked for the same thing must have the same document.
        """
        # Python mode, not JSON mode: there pydantic would turn NaN into null without a word.
        return self.model_dump(exclude_unset=True)

    def worker_document(self, fields: Mapping[str, JsonValue], run_id: str) -> Parameters:
        """The worker's own fields as its process reads them.

        Args:
            fields: The worker's fields of the stored document, secrets by reference.
            run_id: The run's id, which replaces the placeholder.
        """
        extras = fields.get("extras")
        own = extras if isinstance(extras, dict) else {}
        implied: Parameters = {
            "tensorboard_enabled": self.artifacts.tensorboard.enabled,
            "track_wandb": self.artifacts.wandb.enabled,
            "keep_checkpoints": self.artifacts.keep_checkpoints,
        }
        if self.resources.gpus.requested:
            implied["cuda"] = True
        # What the worker's own part says wins over what the rest of the configuration implies.
        return {"seed": self.worker.seed, **fields, "run_id": run_id, "extras": {**implied, **own}}


def config_schema() -> dict[str, JsonValue]:
    """The published JSON Schema."""
    schema = TrainRunConfig.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return schema
