"""The runs that wait: what may start is started, and each of the others says why it waits."""

import asyncio
import logging
from collections.abc import Callable
from itertools import groupby

from mosaic.errors import EngineSilentError, MosaicError
from mosaic.system import processes
from mosaic.system.shortage import shortage
from mosaic.trainer.core.scheduler import Claim, plan
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.core.stimuli import LaunchFailed, SlotsGranted, Stimulus
from mosaic.trainer.loop.housekeeping import DiskWatch
from mosaic.trainer.loop.live import LiveRuns
from mosaic.trainer.loop.patience import LaunchPatience
from mosaic.trainer.sites.choice import Sites

_DRAINING = "the daemon is draining: it starts nothing new"

log = logging.getLogger(__name__)


class RunQueue:
    """Looks at the waiting runs when something has changed, not in every turn.

    Args:
        live: The runs that have not ended.
        sites: Where they may run.
        disk: Holds everything back while there is no space.
        patience: Holds a site back while nothing can be started there.
        preflight: Says why a run cannot be started at all; empty if it can.
        apply: Lets a stimulus happen to a run.
        epoch: How many times a daemon has started on this home; not known before its recovery.

    Attributes:
        draining: Start nothing new.
        wake: Set when the loop should look at once.
    """

    def __init__(
        self,
        live: LiveRuns,
        sites: Sites,
        disk: DiskWatch,
        patience: LaunchPatience,
        preflight: Callable[[Run], str],
        apply: Callable[[str, Stimulus], object],
        epoch: Callable[[], int],
    ) -> None:
        self._live = live
        self._sites = sites
        self._disk = disk
        self._patience = patience
        self._preflight = preflight
        self._apply = apply
        self._epoch = epoch
        # The first look is for the runs that an earlier daemon has left waiting.
        self._changed = True
        self.draining = False
        self.wake = asyncio.Event()

    def changed(self) -> None:
        """Look again in this turn: a run, the disk or a device is not as it was."""
        self._changed = True

    def look_soon(self) -> None:
        """Look again now, instead of with the next turn."""
        self._changed = True
        self.wake.set()

    def look(self) -> None:
        """Start what may start."""
        # Asked first and always: a wait that has ended is noticed once.
        if not self._patience.take_due() and not self._changed:
            return
        self._changed = False
        waiting = [run for run in self._live.runs() if run.queued]
        hold = _DRAINING if self.draining else self._disk.notice
        for site, runs in groupby(sorted(waiting, key=_site_of), key=_site_of):
            self._look_at(list(runs), hold or self._patience.hold(site))

    def _look_at(self, waiting: list[Run], hold: str) -> None:
        """Start what may start at one site."""
        try:
            machine = self._sites.of(waiting[0]).capacity(self._live.runs())
        except EngineSilentError as error:
            for run in waiting:
                self._set_wait_reason(run.run_id, hold or str(error))
            return
        if machine is None:
            for run in waiting:
                self._hand_over(run, hold)
            return
        claims = [Claim(run.run_id, run.request, run.priority, run.run_id) for run in waiting]
        outcome = plan(claims, machine, hold)
        for run_id, reason in outcome.waits.items():
            self._set_wait_reason(run_id, reason)
        for run_id, slots in outcome.grants.items():
            self._set_wait_reason(run_id, "")
            self._grant(run_id, slots)

    def _hand_over(self, run: Run, hold: str) -> None:
        """Let the engine of a run's site queue it: it has no slots of ours."""
        self._set_wait_reason(run.run_id, hold)
        if not hold:
            self._grant(run.run_id, (run.site,))

    def _grant(self, run_id: str, slots: tuple[str, ...]) -> None:
        run = self._live.get(run_id)
        if run is None:
            return
        try:
            problem = self._preflight(run) if run.state is State.INIT else ""
            granted = SlotsGranted(slots, self._epoch(), processes.boot_id())
            self._apply(run_id, LaunchFailed(problem) if problem else granted)
        except (OSError, MosaicError) as error:
            # A full disk takes no event, and without descriptors not even `/proc` can be read.
            # The run has not left the queue yet, so there is nothing to undo.
            lacking = shortage(error) or shortage(error.__cause__)
            log.error("run %s was not started: %s", run_id, error)
            if lacking:
                self._set_wait_reason(run_id, self._patience.short_of(lacking))

    def _set_wait_reason(self, run_id: str, reason: str) -> None:
        watch = self._live.watch(run_id)
        if watch is not None and watch.wait_reason != reason:
            watch.wait_reason = reason
            watch.vitals_dirty = True


def _site_of(run: Run) -> str:
    return run.site
