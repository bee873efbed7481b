"""What a run left behind: read from its `analytics.json` and the list of its files.

The manifest is written by a worker, so it is not trusted: what it names counts only when the
daemon lists it too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mosaic.client.files import RunFile

MANIFEST = "analytics.json"
WANDB_ADDRESS = "wandb/address.json"
_EVENTS = "events.out.tfevents."
_WANDB_RUNS = ("wandb/run-", "wandb/offline-run-")
# Where the event files of most runs are. A script's are there too, made of those of its phases.
_USUAL = "tensorboard"
# Folders that every run has, some with many files, and that never hold TensorBoard's.
_WITHOUT_EVENTS = frozenset({"checkpoints", "logs", "metrics", "telemetry", "videos", "wandb"})


@dataclass(frozen=True)
class WandbFolder:
    """A folder that W&B made for a run.

    Attributes:
        path: Relative to the run directory.
        files: The size of each of its files, by path relative to the run directory.
        url: The hosted page, as the manifest names it.
        facts: Project, entity and id, where the manifest names them.
    """

    path: str
    files: Mapping[str, int]
    url: str = ""
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def offline(self) -> bool:
        """Whether the run was tracked without a network."""
        return self.path.rpartition("/")[2].startswith("offline-")


@dataclass(frozen=True)
class Artifacts:
    """What a run left behind, as far as it is really there.

    Attributes:
        events: TensorBoard's event files.
        wandb: W&B's newest folder.
        optuna: The study's file; empty when there is none.
        videos: Captured videos.
        problem: Why the manifest could not be read.
    """

    events: tuple[str, ...] = ()
    wandb: WandbFolder | None = None
    optuna: str = ""
    videos: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class Manifest:
    """The parts of `analytics.json` that the window reads.

    Attributes:
        tensorboard: The folder of event files; empty when they may be anywhere in the run.
        optuna: The study's file.
        videos: Captured videos.
        wandb: What it says about W&B.
    """

    tensorboard: str = ""
    optuna: str = "optuna.db"
    videos: tuple[str, ...] = ()
    wandb: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> "Manifest":
        """The manifest in a document; whatever is not as it should be has its usual value."""
        artifacts = _object(document.get("artifacts"))
        videos = artifacts.get("videos")
        named = videos if isinstance(videos, list) else []
        # The second name of each is that of the design documents; other tools may write it.
        tensorboard = _object(artifacts.get("tensorboard")).get("dir")
        optuna = _object(artifacts.get("optuna")).get("db")
        run_id = _text(document.get("wandb_run_id"))
        wandb = _object(artifacts.get("wandb")) or ({"run_id": run_id} if run_id else {})
        folder = _text(tensorboard or document.get("tensorboard_dir"))
        return cls(
            # Phases of a script have a folder each; their manifest names the run itself.
            tensorboard="" if folder == "." else folder,
            optuna=_text(optuna or document.get("optuna_db_path")) or cls.optuna,
            videos=tuple(name for name in named if isinstance(name, str)),
            wandb=wandb,
        )


def event_folders(manifest: Manifest, top: Iterable[RunFile]) -> tuple[str, ...]:
    """The folders in which event files may be.

    The manifest comes at the end of a run. Until then any folder may be the one that its
    configuration, or an upstream script, has chosen, unless the usual one is there.

    Args:
        manifest: What the manifest says.
        top: What the run directory itself holds.
    """
    if manifest.tensorboard:
        return (manifest.tensorboard,)
    folders = [file.path for file in top if file.kind == "folder"]
    if _USUAL in folders:
        return (_USUAL,)
    return tuple(path for path in folders if path not in _WITHOUT_EVENTS)


def find_artifacts(manifest: Manifest, files: Iterable[RunFile], problem: str = "") -> Artifacts:
    """What is there now; the manifest comes at the end of a run, its folders before."""
    listed = list(files)
    sizes = {file.path: file.size for file in listed if file.kind == "file"}
    folders = {file.path for file in listed if file.kind == "folder"}
    below = f"{manifest.tensorboard.rstrip('/')}/" if manifest.tensorboard else ""
    captured = [path for path in sizes if path.startswith("videos/") and path.endswith(".mp4")]
    videos = dict.fromkeys((*manifest.videos, *sorted(captured)))
    return Artifacts(
        events=tuple(
            path
            for path in sorted(sizes)
            if path.startswith(below)
            and path.rpartition("/")[2].startswith(_EVENTS)
            # W&B keeps copies of its own.
            and path.partition("/")[0] not in _WITHOUT_EVENTS
        ),
        wandb=_wandb(manifest.wandb, sizes, folders),
        optuna=manifest.optuna if manifest.optuna in sizes else "",
        videos=tuple(path for path in videos if path in sizes),
        problem=problem,
    )


def _wandb(
    said: Mapping[str, object], sizes: Mapping[str, int], folders: Iterable[str]
) -> WandbFolder | None:
    runs = [path for path in folders if path.startswith(_WANDB_RUNS) and path.count("/") == 1]
    if not runs:
        return None
    named = _text(said.get("dir"))
    # Both kinds of folder carry their date after `run-`; the newest is the last.
    chosen = named if named in runs else max(runs, key=lambda path: path.split("run-")[-1])
    inside = {path: size for path, size in sizes.items() if path.startswith(chosen + "/")}
    names = ("project", "entity", "run_id")
    facts = tuple((name.replace("_", " "), str(said[name])) for name in names if said.get(name))
    return WandbFolder(chosen, inside, _text(said.get("url")), facts)


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
