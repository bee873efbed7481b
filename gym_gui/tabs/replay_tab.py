"""Recorded episodes and captured videos of a run, played again."""

from functools import partial
from pathlib import Path
from typing import Any

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QListWidget, QListWidgetItem, QSplitter, QWidget

from gym_gui.background.recordings import (
    EpisodeEntry,
    Picture,
    list_episodes,
    read_episode,
    read_video,
)
from gym_gui.models.manifest import read_manifest
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.player import Player

_EPISODE_RATE = 15.0


class ReplayTab(RunTab):
    """What was recorded, frame by frame."""

    title = "Replay"
    icon = "film"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._listed: tuple[list[EpisodeEntry], list[Path]] = ([], [])
        self.list = QListWidget()
        self.list.setAccessibleName("Recordings")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.currentItemChanged.connect(lambda item, _old: self._on_item(item))
        self.player = Player(services.themes)
        side = QWidget()
        head = row(label("Recordings", "section"), 1, button("Look again", self.look))
        side.setLayout(column(head, self.list, spacing=6))
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(side)
        stage = QWidget()
        stage.setLayout(column(self.player, margin=0))
        stage.layout().setContentsMargins(10, 0, 0, 0)
        split.addWidget(stage)
        split.setStretchFactor(1, 1)
        split.setSizes([290, 600])
        self.setLayout(column(split, margin=10))

    def on_open(self) -> None:
        self.look()

    def on_close(self) -> None:
        self.player.stop()

    def on_other_run(self) -> None:
        self.list.clear()
        self.player.clear("Choose something to replay.")

    def look(self) -> None:
        """Look for recordings."""
        if self.run is None:
            return
        run_id, folder = self.run_id, Path(self.run["run_dir"])
        self.services.link.calls.run(
            lambda: self._collect(run_id, folder),
            lambda found: self._fill(*found) if run_id == self.run_id else None,
            lambda error: self.player.clear(f"The recordings could not be listed: {error}"),
        )

    def _collect(self, run_id: str, folder: Path) -> tuple[list[EpisodeEntry], list[Path]]:
        client = self.services.link.new_client()
        try:
            episodes = list_episodes(client, run_id)
        finally:
            self.services.link.release(client)
        return episodes, list(read_manifest(folder).videos)

    def _fill(self, episodes: list[EpisodeEntry], videos: list[Path]) -> None:
        if self.list.count() and self._listed == (episodes, videos):
            return
        self._listed = (episodes, videos)
        self.list.clear()
        several = len({entry.agent_id for entry in episodes}) > 1
        for entry in episodes:
            who = f" · {entry.agent_id}" if several and entry.agent_id else ""
            result = f"return {entry.total_reward:g} · {entry.length} steps"
            self._add("film", f"Episode {entry.episode} · {result}{who}", entry)
        for video in videos:
            self._add("camera", video.name, video)
        if not self.list.count():
            self.player.clear(
                "Nothing recorded. Telemetry-lane runs record their episodes; "
                "other runs capture videos when asked to in the form."
            )
        elif not self.list.currentItem():
            self.list.setCurrentRow(0)

    def _add(self, icon: str, text: str, data: Any) -> None:
        item = QListWidgetItem(self.services.themes.icon(icon, "muted"), text)
        item.setData(Qt.ItemDataRole.UserRole, data)
        item.setToolTip(text)
        self.list.addItem(item)

    def _on_item(self, item: QListWidgetItem | None) -> None:
        if item is None:
            return
        chosen = item.data(Qt.ItemDataRole.UserRole)
        self.player.clear("Loading …")
        work = partial(self._load, self.run_id, chosen)
        self.services.link.calls.run(
            work,
            lambda loaded: self.player.load(*loaded) if self.list.currentItem() is item else None,
            lambda error: self.player.clear(str(error)),
        )

    def _load(self, run_id: str, chosen: EpisodeEntry | Path) -> tuple[list[Picture], float]:
        if isinstance(chosen, Path):
            return read_video(chosen)
        client = self.services.link.new_client()
        try:
            return read_episode(client, run_id, chosen.episode), _EPISODE_RATE
        finally:
            self.services.link.release(client)
