"""A run's evaluations and the episodes inside them, through the daemon; never the GUI thread."""

from gym_gui.background.recordings import Picture, read_video
from gym_gui.background.run_cache import RunCache
from gym_gui.models.episodes import Inside, Judged, read_inside, read_judged, read_summary
from mosaic.client import TrainerClient
from mosaic.errors import RunFileError

FOLDER, SUMMARY = "evaluations", "eval_summary.json"
# One for each point of the curve; a screen could not show more of them apart.
_MOST = 500


def read_evaluations(client: TrainerClient, run_id: str) -> tuple[Judged, ...]:
    """What a run's policies were judged by, in the order of their steps."""
    found: list[Judged] = []
    for path in _names(client, run_id, FOLDER)[:_MOST]:
        if path.rpartition("/")[2].startswith("step-") and path.endswith(".json"):
            one = read_judged(client.read_file(run_id, path).document())
            if one is not None:
                found.append(one)
    found.sort(key=lambda one: one.step or 0)
    try:
        summary = client.read_file(run_id, SUMMARY).document()
    except RunFileError:
        return tuple(found)
    files = [path for path in _names(client, run_id, "videos") if path.endswith(".json")]
    own = read_summary(summary, files)
    return tuple(found if own is None else [*found, own])


def read_episode_inside(
    client: TrainerClient, cache: RunCache, run_id: str, path: str
) -> tuple[Inside, list[Picture]]:
    """One episode with its pictures; none where it was not filmed."""
    inside = read_inside(client.read_file(run_id, path).document())
    if not inside.video:
        return inside, []
    folder = path.rpartition("/")[0]
    pictures, _ = read_video(cache.fetch(client, run_id, f"{folder}/{inside.video}"))
    return inside, pictures


def _names(client: TrainerClient, run_id: str, folder: str) -> list[str]:
    try:
        files = client.files(run_id, folder)
    except RunFileError:
        return []
    return [file.path for file in files if file.kind == "file"]
