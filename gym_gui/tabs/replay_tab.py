"""Recorded episodes and captured videos of a run, played again."""

from functools import partial

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QListWidget, QListWidgetItem, QSplitter, QWidget

from gym_gui.background.recordings import (
    EpisodeEntry,
    Picture,
    list_episodes,
    read_episode,
    read_video,
)
from gym_gui.background.run_reading import read_artifacts
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.player import Player
from gym_gui.widgets.qt_types import sure
from mosaic.client import TrainerClient
from mosaic.presenting.actor import TAKE_OVER

# An episode that was recorded, or the path of a video.
Recording = EpisodeEntry | str
Recordings = tuple[tuple[EpisodeEntry, ...], tuple[str, ...]]
# Steps have no rate of their own; most environments are made to be watched at about this.
_EPISODE_RATE = 15.0


class ReplayTab(RunTab):
    """What was recorded, frame by frame."""

    title = "Replay"
    icon = "film"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._listed: Recordings = ((), ())
        self._wanted: int | None = None
        self.list = QListWidget()
        self.list.setAccessibleName("Recordings")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.currentItemChanged.connect(lambda item, _old: self._on_item(item))
        self.player = Player(services.themes)
        side = QWidget()
        head = row(label("Recordings", "section"), 1, button("Refresh", self.look))
        side.setLayout(column(head, self.list, spacing=6))
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(side)
        stage = QWidget()
        stage.setLayout(column(self.player, margin=0))
        sure(stage.layout()).setContentsMargins(10, 0, 0, 0)
        split.addWidget(stage)
        split.setStretchFactor(1, 1)
        split.setSizes([290, 600])
        self.setLayout(column(split, margin=10))

    def on_open(self) -> None:
        self.look()

    def on_close(self) -> None:
        self.player.stop()

    def on_other_run(self) -> None:
        self._wanted = None
        self.list.clear()
        self.player.clear("Choose something to replay.")

    def look(self) -> None:
        """Look for recordings."""
        if self.run is None:
            return
        run_id = self.run_id

        def show(found: Recordings) -> None:
            if run_id == self.run_id:
                self._fill(found)

        self.link.ask(
            lambda client: _list_recordings(client, run_id),
            show,
            lambda error: self.player.clear(f"The recordings could not be listed: {error}"),
        )

    def open_episode(self, number: int) -> None:
        """Show one episode; when it is not listed yet, as soon as it is."""
        self._wanted = number
        self._choose_wanted()
        self.look()

    def _choose_wanted(self) -> None:
        for place in range(self.list.count()):
            data = sure(self.list.item(place)).data(Qt.ItemDataRole.UserRole)
            if isinstance(data, EpisodeEntry) and data.episode == self._wanted:
                self._wanted = None
                self.list.setCurrentRow(place)
                return

    def _fill(self, found: Recordings) -> None:
        if self.list.count() and self._listed == found:
            self._choose_wanted()
            return
        self._listed = found
        episodes, videos = found
        self.list.clear()
        several = len({entry.agent_id for entry in episodes}) > 1
        for entry in episodes:
            who = f" · {entry.agent_id}" if several and entry.agent_id else ""
            result = f"return {entry.total_reward:g} · {entry.length} steps"
            # Said only where a policy has played too: in a plain game every step is the person's.
            if entry.person_steps is not None and self.run and self.run.mode == TAKE_OVER:
                result += f", {entry.person_steps} by a person"
            self._add("film", f"Episode {entry.episode} · {result}{who}", entry)
        for video in videos:
            self._add("camera", video.rpartition("/")[2], video)
        if not self.list.count():
            self.player.clear(
                "Nothing recorded. Telemetry-lane runs record their episodes; "
                "other runs capture videos when asked to in the form."
            )
        elif self._wanted is None and not self.list.currentItem():
            self.list.setCurrentRow(0)
        self._choose_wanted()

    def _add(self, icon: str, text: str, data: Recording) -> None:
        item = QListWidgetItem(self.services.themes.icon(icon, "muted"), text)
        item.setData(Qt.ItemDataRole.UserRole, data)
        item.setToolTip(text)
        self.list.addItem(item)

    def _on_item(self, item: QListWidgetItem | None) -> None:
        if item is None:
            return
        chosen = item.data(Qt.ItemDataRole.UserRole)
        self.player.clear("Loading …")

        def show(loaded: tuple[list[Picture], float]) -> None:
            if self.list.currentItem() is item:
                self.player.load(*loaded)

        self.link.ask(
            partial(self._load, self.run_id, chosen),
            show,
            lambda error: self.player.clear(str(error)),
        )

    def _load(
        self, run_id: str, chosen: Recording, client: TrainerClient
    ) -> tuple[list[Picture], float]:
        if isinstance(chosen, EpisodeEntry):
            return read_episode(client, run_id, chosen.episode), _EPISODE_RATE
        return read_video(self.services.cache.fetch(client, run_id, chosen))


def _list_recordings(client: TrainerClient, run_id: str) -> Recordings:
    videos = read_artifacts(client, run_id).videos
    return tuple(list_episodes(client, run_id)), videos
