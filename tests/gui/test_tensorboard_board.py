"""Several runs in one TensorBoard, with what each was asked for."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata

from gym_gui.background.private_tensorboard import HPARAMS, write_hparams
from gym_gui.background.run_cache import RunCache
from gym_gui.background.tensorboard_board import folder_name, gather_board

if TYPE_CHECKING:
    from support.trainer import Trainer


def test_selected_runs_are_one_board_with_their_settings(
    shared_trainer: "Trainer", trained: list[str]
) -> None:
    """Each run has its curves under a name with its seed, and its settings for HParams."""
    cache = RunCache()
    client = shared_trainer.client
    runs = [client.get(run_id) for run_id in trained]
    try:
        artifacts, folder = gather_board(client, cache, runs)
        assert len(artifacts.events) == 2
        names = [folder_name(run) for run in runs]
        assert [f"seed{run.seed}" in name for run, name in zip(runs, names, strict=True)] == [
            True,
            True,
        ]
        assert sorted(path.name for path in Path(folder).iterdir()) == sorted(names)
        write_hparams(Path(folder))
        for run, name in zip(runs, names, strict=True):
            asked = json.loads((Path(folder) / name / HPARAMS).read_text())
            assert (asked["algo"], asked["seed"]) == ("ppo", run.seed)
            read = EventAccumulator(str(Path(folder) / name)).Reload()
            assert "charts/episodic_return" in read.Tags()["scalars"]
            content = read.PluginTagToContent(metadata.PLUGIN_NAME)
            started = metadata.parse_session_start_info_plugin_data(
                content[metadata.SESSION_START_INFO_TAG]
            )
            assert started.hparams["seed"].number_value == run.seed
    finally:
        cache.close()
