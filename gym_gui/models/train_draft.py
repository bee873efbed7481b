"""What a train form holds, and the configs it stands for."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Self

from mosaic.config import build, keeping
from mosaic.config.model import Parameters, TrainRunConfig
from mosaic.config.secrets import is_secret

_EXTRA_TEXTS = (
    "wandb_project_name",
    "wandb_entity",
    "wandb_run_name",
    "wandb_api_key",
    "wandb_email",
    "wandb_http_proxy",
    "wandb_https_proxy",
)


@dataclass
class TrainDraft:
    """The content of a train form; can be stored, restored, and turned into configs."""

    worker: str = "cleanrl"
    module: str = ""
    algo: str = "ppo"
    env_id: str = "CartPole-v1"
    run_name: str = ""
    seed: int = 1
    seeds: int = 1
    total_timesteps: int | None = None
    params: Parameters = field(default_factory=dict)
    vary: str = ""
    more_algos: list[str] = field(default_factory=list)
    more_envs: list[str] = field(default_factory=list)
    cpus: int = 1
    gpu: bool = False
    wall_minutes: float | None = None
    site: str = ""
    tensorboard: bool = True
    keep_checkpoints: str = keeping.DEFAULT
    capture_video: bool = False
    fastlane_video_mode: str = "single"
    fastlane_grid_limit: int = 4
    fastlane_slot: int = 0
    minimal_telemetry: bool = False
    worker_id: str = ""
    agent_id: str = ""
    track_wandb: bool = False
    wandb_use_vpn_proxy: bool = False
    wandb: dict[str, str] = field(default_factory=dict)
    requirements: list[str] = field(default_factory=lambda: ["base"])
    notes: str = ""
    tags: list[str] = field(default_factory=list)
    # A preset's name, stages, or nothing for ordinary training.
    curriculum_schedule: str | list[Parameters] = ""
    other_extras: Parameters = field(default_factory=dict)

    @property
    def several(self) -> bool:
        """Whether there is more than one configuration: an experiment."""
        return bool(self.vary or self.more_algos or self.more_envs)

    # ------------------------------------------------------------ configs

    def configs(self) -> list[TrainRunConfig]:
        """One configuration a seed.

        Raises:
            InvalidConfigError: With every problem.
        """
        return [self.config(self.seed + offset) for offset in range(max(1, self.seeds))]

    def config(self, seed: int) -> TrainRunConfig:
        """The configuration of one seed.

        Raises:
            InvalidConfigError: With every problem.
        """
        return build.train(
            build.Worker(self.worker, self.module),
            self.algo,
            env_id=self.env_id,
            seed=seed,
            total_timesteps=self.total_timesteps,
            parameters=self.params,
            extras=self._extras(),
            ids={"worker_id": self.worker_id, "agent_id": self.agent_id},
            wishes=build.Wishes(
                name=self.name_of(seed),
                tags=self.tags,
                cpus=self.cpus,
                gpus=int(self.gpu),
                max_minutes=self.wall_minutes,
                site=self.site or None,
                tensorboard=self.tensorboard,
                wandb=self.track_wandb,
                keep_checkpoints=self.keep_checkpoints,
            ),
        )

    def name_of(self, seed: int) -> str:
        """The run's name; with the seed where there are several, which would look alike."""
        if not self.run_name:
            return f"{self.algo} {self.env_id} s{seed}" if self.seeds > 1 else ""
        return f"{self.run_name}-s{seed}" if self.seeds > 1 else self.run_name

    def _extras(self) -> Parameters:
        extras: Parameters = {
            **self.other_extras,
            "requirements": list(self.requirements),
            "fastlane_video_mode": self.fastlane_video_mode,
        }
        if self.fastlane_video_mode == "grid":
            extras["fastlane_grid_limit"] = self.fastlane_grid_limit
        elif self.fastlane_video_mode == "single" and self.fastlane_slot:
            extras["fastlane_slot"] = self.fastlane_slot
        if self.minimal_telemetry:
            extras["minimal_telemetry"] = True
        if self.capture_video:
            extras["capture_video"] = True
        if self.track_wandb:
            extras["track_wandb"] = True
            extras.update({key: text for key, text in self.wandb.items() if text})
            if self.wandb_use_vpn_proxy:
                extras["wandb_use_vpn_proxy"] = True
        if self.notes:
            extras["notes"] = self.notes
        if isinstance(self.curriculum_schedule, str):
            if self.curriculum_schedule:
                extras["curriculum_schedule"] = self.curriculum_schedule
        else:
            extras["curriculum_schedule"] = [dict(stage) for stage in self.curriculum_schedule]
        return extras

    # ------------------------------------------------------------ there and back

    @classmethod
    def from_config(cls, config: TrainRunConfig) -> Self:
        """The draft behind a configuration; secrets stay behind."""
        request, worker, resources = config.metadata.worker, config.worker, config.resources
        extras = worker.extras.model_dump(exclude_unset=True)
        draft = cls(
            worker=request.type,
            module=request.module or "",
            algo=worker.algo,
            env_id=worker.env_id,
            run_name=config.run_name,
            seed=worker.seed,
            total_timesteps=worker.total_timesteps,
            params=extras.pop("algo_params", {}),
            cpus=resources.cpus.requested,
            gpu=resources.gpus.requested > 0,
            wall_minutes=config.limits.max_wallclock_minutes,
            site=config.site or "",
            tensorboard=config.artifacts.tensorboard.enabled,
            keep_checkpoints=str(config.artifacts.keep_checkpoints),
            tags=list(config.metadata.tags),
            worker_id=worker.worker_id or "",
            agent_id=worker.agent_id or "",
        )
        # The form has one switch for the GPU: the one that reserves it.
        extras.pop("cuda", None)
        draft.wandb = {
            key: str(value)
            for key in _EXTRA_TEXTS
            if (value := extras.pop(key, None)) and not is_secret(key, value)
        }
        known = {item.name for item in fields(cls)}
        for key in list(extras):
            if key in known and extras[key] is not None:
                setattr(draft, key, extras.pop(key))
        # What the form has no field for is carried along; a clone would lose it otherwise.
        draft.other_extras = {
            key: value for key, value in extras.items() if value is not None and key != "mode"
        }
        return draft

    def to_json(self) -> dict[str, object]:
        """For storing a half-filled form: everything but secrets."""
        document: dict[str, object] = asdict(self)
        document["wandb"] = {k: v for k, v in self.wandb.items() if not is_secret(k, v)}
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Self:
        """A stored form.

        Raises:
            TypeError: It is no stored form.
        """
        draft = cls()
        for item in fields(cls):
            if item.name in document:
                setattr(draft, item.name, document[item.name])
        return draft
