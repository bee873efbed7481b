"""Curves of runs from their very beginning: a run that continues another begins with its curve."""

from collections.abc import Mapping

from gym_gui.background.metric_feed import FeedPool
from gym_gui.models.run_store import RunStore
from gym_gui.models.series import Series, joined
from mosaic.records import RunRecord

# A chain of continued runs is a handful long; each is a stream of the daemon.
_MOST_BEFORE = 8


class JoinedFeeds:
    """The feeds of some runs, and of those that they continue."""

    def __init__(self, feeds: FeedPool, store: RunStore) -> None:
        self._feeds, self._store = feeds, store
        self._taken: dict[str, tuple[tuple[str, int], ...]] = {}

    def take(self, run_id: str) -> None:
        """Follow a run; give it back with `give_back`."""
        before = continued(self._store, run_id)
        self._taken[run_id] = before
        for each in (run_id, *(one for one, _ in before)):
            self._feeds.take(each)

    def give_back(self, run_id: str) -> None:
        """Follow it no longer."""
        for each in (run_id, *(one for one, _ in self._taken.pop(run_id, ()))):
            self._feeds.give_back(each)

    def shows(self, run_id: str, grown: str) -> bool:
        """Whether a run's curves change when another one's grow."""
        return grown == run_id or any(grown == one for one, _ in self._taken.get(run_id, ()))

    def continues(self, run_id: str) -> bool:
        """Whether a run has curves before its own."""
        return bool(self._taken.get(run_id))

    def curves(self, run_id: str, *, whole: bool = True) -> Mapping[str, Series]:
        """What is known of a run's curves, with those that it continues if they are wanted."""
        own = self._feeds.curves(run_id)
        before = self._taken.get(run_id, ()) if whole else ()
        if not before:
            return own
        parts = [(self._feeds.curves(one), until) for one, until in reversed(before)]
        return {
            tag: joined([(part[tag], until) for part, until in parts if tag in part], series)
            for tag, series in own.items()
        }


def continued(store: RunStore, run_id: str) -> tuple[tuple[str, int], ...]:
    """The runs that a run continues, the nearest first, each with the step it was left at."""
    found: list[tuple[str, int]] = []
    run: RunRecord | None = store.get(run_id)
    while run is not None and run.mode == "resume_training" and len(found) < _MOST_BEFORE:
        if not run.parent_run_id or run.parent_step is None:
            break
        if any(one == run.parent_run_id for one, _ in found):
            break
        run_id, until = run.parent_run_id, run.parent_step
        run = store.get(run_id)
        if run is not None:
            found.append((run_id, until))
    return tuple(found)
