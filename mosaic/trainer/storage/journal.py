"""Recording what happened: event log first, then the row, then everyone who watches."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mosaic.errors import StorageError
from mosaic.trainer import failpoints
from mosaic.trainer.core.events import RunEvent
from mosaic.trainer.core.folding import evolve
from mosaic.trainer.core.states import Event, Run
from mosaic.trainer.storage import history
from mosaic.trainer.storage.broadcast import Broadcaster
from mosaic.trainer.storage.registry import Registry, Vitals

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Change:
    """What watchers hear about: a row that is new or changed, or an id that is gone."""

    run_id: str
    run: Run | None
    vitals: Vitals


class Journal:
    """The only writer of rows."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.changes: Broadcaster[Change] = Broadcaster()

    def record(
        self,
        run: Run,
        run_dir: Path,
        happened: Sequence[RunEvent],
        vitals: Vitals,
    ) -> Run:
        """Append events, fold them into the row, store and publish it.

        Raises:
            StorageError: The disk refuses; nothing was recorded.
        """
        wall, mono, changed = time.time(), time.monotonic(), run
        events = []
        for seq, what in enumerate(happened, start=run.version + 1):
            events.append(Event(seq, wall, mono, what))
            # Folded before it is written: what the state machine forbids must not reach the log,
            # from which no daemon could read the run again.
            changed = evolve(changed, events[-1])
        try:
            history.append(run_dir, events)
        except FileNotFoundError:
            log.warning(
                "the directory of run %s is gone; the registry still has its events", run.run_id
            )
        except OSError as error:
            raise StorageError(f"cannot write to {run_dir}: {error.strerror}") from error
        failpoints.point("after_append")
        # The log first: the registry is only an index of it and is brought up to date from it
        # after a crash, never the other way round.
        self.publish(changed, vitals)
        return changed

    def publish(self, run: Run, vitals: Vitals) -> None:
        """Store a row and tell the watchers."""
        sequence = self._registry.put(run, vitals)
        self.changes.publish(sequence, Change(run.run_id, run, vitals))

    def publish_vitals(self, run: Run, vitals: Vitals, persist: bool) -> None:
        """Tell the watchers about new vital signs; they are no event."""
        if persist:
            self._registry.put_vitals(run.run_id, vitals)
        self.changes.publish(self._registry.sequence, Change(run.run_id, run, vitals))

    def remove(self, run_id: str) -> None:
        """Forget a run for good."""
        sequence = self._registry.remove(run_id)
        self.changes.publish(sequence, Change(run_id, None, Vitals()))
