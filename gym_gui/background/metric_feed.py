"""A run's curves, followed while it runs."""

import time
from collections.abc import Callable, Iterator

from qtpy.QtCore import QObject, QTimer, Signal

from gym_gui.background.daemon_link import DaemonLink
from gym_gui.background.streams import Stream, StreamKeeper
from gym_gui.models.run_store import RunStore
from gym_gui.models.series import Series
from mosaic.client import TrainerClient
from mosaic.records import MetricBatch

# More than a chart draws at once: the rest is there for zooming in.
_MAX_POINTS = 16_000
# Long enough to look at another tab or run and come back.
_REST_S = 20.0
# Each is a stream that the daemon keeps open.
_MOST_RESTING = 4


class MetricFeed(QObject):
    """The curves of one run by tag.

    Signals:
        grown: The tags that have new points.
        finished: Everything the run has written so far is here; the text is a problem or empty.
    """

    grown = Signal(set)
    finished = Signal(str)

    def __init__(self, link: DaemonLink, keeper: StreamKeeper, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id
        self.curves: dict[str, Series] = {}

        def follow(client: TrainerClient) -> Iterator[MetricBatch]:
            return client.metrics(run_id, follow=True, max_points=_MAX_POINTS)

        self._stream = keeper.keep(Stream(link, follow))
        self._stream.items.connect(self._take)
        self._stream.ended.connect(self.finished)

    def stop(self) -> None:
        """Follow no longer."""
        self._stream.stop()

    def _take(self, batches: list[MetricBatch]) -> None:
        for batch in batches:
            series = self.curves.setdefault(batch.tag, Series())
            series.extend(batch.steps, batch.values, batch.wall_times)
            series.total_points = batch.total_points
        self.grown.emit({batch.tag for batch in batches})


class FeedPool(QObject):
    """Curves shared by everyone who shows the same run.

    A feed without users rests for a while, so that the next tab of a run, or the run before, shows
    its curves at once.

    Signals:
        grown: A run id and the tags that have new points.
    """

    grown = Signal(str, set)

    def __init__(
        self, link_of: Callable[[str], DaemonLink], keeper: StreamKeeper, store: RunStore
    ) -> None:
        super().__init__()
        self._link_of, self._keeper, self._store = link_of, keeper, store
        self._feeds: dict[str, MetricFeed] = {}
        self._users: dict[str, int] = {}
        self._resting: dict[str, float] = {}
        self._sweeper = QTimer(self)
        self._sweeper.setInterval(1000)
        self._sweeper.timeout.connect(self._sweep)

    def take(self, run_id: str) -> MetricFeed:
        """Start or share the feed of a run; give it back with `give_back`."""
        self._users[run_id] = self._users.get(run_id, 0) + 1
        self._resting.pop(run_id, None)
        if run_id not in self._feeds:
            self._feeds[run_id] = self._make(run_id)
        return self._feeds[run_id]

    def give_back(self, run_id: str) -> None:
        """One user less; after the last one the feed rests, then stops."""
        self._users[run_id] = self._users.get(run_id, 0) - 1
        if self._users[run_id] <= 0:
            self._users.pop(run_id)
            self._resting[run_id] = time.monotonic()
            while len(self._resting) > _MOST_RESTING:
                self._drop(next(iter(self._resting)))
            self._sweeper.start()

    def forget_resting(self) -> None:
        """Drop feeds without users."""
        for run_id in list(self._resting):
            self._drop(run_id)
        self._sweeper.stop()

    def reconnect(self, link: DaemonLink) -> None:
        """A daemon is back: read the feeds of its runs again."""
        self.forget_resting()
        for run_id in [one for one in self._feeds if self._link_of(one) is link]:
            self._feeds.pop(run_id).stop()
            self._feeds[run_id] = self._make(run_id)

    def curves(self, run_id: str) -> dict[str, Series]:
        """What is known of a run's curves."""
        feed = self._feeds.get(run_id)
        return feed.curves if feed else {}

    def _drop(self, run_id: str) -> None:
        self._resting.pop(run_id, None)
        feed = self._feeds.pop(run_id, None)
        if feed is not None:
            feed.stop()

    def _sweep(self) -> None:
        now = time.monotonic()
        for run_id, since in list(self._resting.items()):
            if now - since > _REST_S or self._store.get(run_id) is None:
                self._drop(run_id)
        if not self._resting:
            self._sweeper.stop()

    def _make(self, run_id: str) -> MetricFeed:
        feed = MetricFeed(self._link_of(run_id), self._keeper, run_id)
        feed.grown.connect(lambda tags, name=run_id: self.grown.emit(name, tags))
        return feed
