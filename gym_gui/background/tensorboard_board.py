"""Several runs side by side for one TensorBoard, with what each was asked for."""

import json
from collections.abc import Sequence

from gym_gui.background.private_tensorboard import HPARAMS
from gym_gui.background.run_cache import RunCache
from gym_gui.background.run_reading import read_artifacts
from gym_gui.models.artifacts import Artifacts
from mosaic.client import TrainerClient
from mosaic.config.flat import flat_settings
from mosaic.presenting.run_status import title_of
from mosaic.records import RunRecord


def gather_board(
    client: TrainerClient, cache: RunCache, runs: Sequence[RunRecord]
) -> tuple[Artifacts, str]:
    """Copy the event files of runs into one folder; what there is, and the folder."""
    events: list[str] = []
    found: dict[str, tuple[str, Sequence[str]]] = {}
    for run in runs:
        artifacts = read_artifacts(client, run.run_id)
        if artifacts.events:
            found[folder_name(run)] = run.run_id, artifacts.events
            events += artifacts.events
    if not found:
        return Artifacts(), ""
    # The same runs have the same folder, so that only what is new is fetched.
    board = "board-" + "-".join(sorted(run.run_id[-6:] for run in runs))
    folder = cache.gather(client, board, found)
    for run in runs:
        if folder_name(run) in found:
            asked = flat_settings(client.config(run.run_id))
            settings = {**asked, "algo": run.algo, "env_id": run.env_id, "seed": run.seed}
            plain = {name: value for name, value in settings.items() if _is_plain(value)}
            (folder / folder_name(run) / HPARAMS).write_text(json.dumps(plain))
    return Artifacts(events=tuple(events)), str(folder)


def folder_name(run: RunRecord) -> str:
    """What TensorBoard calls a run: its title and seed; the end of its id tells equals apart."""
    letters = (one if one.isalnum() or one in "-_." else "-" for one in title_of(run))
    return f"{''.join(letters)[:80]}-seed{run.seed}-{run.run_id[-4:]}"


def _is_plain(value: object) -> bool:
    return isinstance(value, bool | int | float | str)
