"""Every run in order, and every experiment, kept up to date: a visit sorts nothing."""

import threading
from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest

from mosaic.experiments.summary import ExperimentRecord, experiment_of, one
from mosaic.presenting.run_filter import Predicate
from mosaic.records import RunRecord

Experiment = tuple[str, str]


@dataclass(frozen=True)
class Page:
    """A page of runs.

    Attributes:
        runs: Newest first.
        number: Which page, from 1.
        pages: How many there are.
        total: Runs on all of them.
    """

    runs: list[RunRecord]
    number: int
    pages: int
    total: int


class Listing:
    """The runs by id. `runs` may be read, and every method called, from any thread."""

    def __init__(self) -> None:
        self.runs: dict[str, RunRecord] = {}
        self._lock = threading.Lock()
        # Ids sort by the time of submission, so most of them are added at the end.
        self._order: list[str] = []
        self._members: dict[Experiment, set[str]] = {}
        # The oldest run of each: experiments are listed by when they began.
        self._first: dict[Experiment, str] = {}
        self._summaries: dict[Experiment, ExperimentRecord] = {}

    def put(self, run: RunRecord) -> None:
        """Add a run, or change it."""
        with self._lock:
            before = self.runs.get(run.run_id)
            self.runs[run.run_id] = run
            if before is None:
                insort(self._order, run.run_id)
            else:
                # It may have got other tags, and with them another experiment.
                self._leave(before)
            mark = experiment_of(run.tags)
            if mark is not None:
                self._members.setdefault(mark, set()).add(run.run_id)
                self._first[mark] = min(self._first.get(mark, run.run_id), run.run_id)
                self._summaries.pop(mark, None)

    def drop(self, run_id: str) -> bool:
        """Remove a run; False if it was not there."""
        with self._lock:
            before = self.runs.pop(run_id, None)
            if before is None:
                return False
            del self._order[bisect_left(self._order, run_id)]
            self._leave(before)
            return True

    def page(self, fits: Predicate | None, number: int, size: int) -> Page:
        """A page of the runs that fit, newest first; the last one if there are not so many.

        With a condition every run is looked at. Call it from a thread of its own.
        """
        with self._lock:
            found = list(self._order) if fits is None else self._fitting(fits)
            pages = max(1, -(-len(found) // size))
            number = min(max(1, number), pages)
            end = len(found) - (number - 1) * size
            chosen = found[max(0, end - size) : end]
            runs = [self.runs[run_id] for run_id in reversed(chosen)]
            return Page(runs, number, pages, len(found))

    def experiments(self, most: int) -> list[ExperimentRecord]:
        """The newest experiments; only those that have changed are summed up again."""
        with self._lock:
            newest = nlargest(most, self._first, key=self._first.__getitem__)
            return [self._summary(mark) for mark in newest]

    def _fitting(self, fits: Predicate) -> list[str]:
        return [run_id for run_id in self._order if fits(self.runs[run_id])]

    def _summary(self, mark: Experiment) -> ExperimentRecord:
        known = self._summaries.get(mark)
        if known is None:
            known = one(*mark, self._records(self._members[mark]))
            self._summaries[mark] = known
        return known

    def _records(self, run_ids: Iterable[str]) -> list[RunRecord]:
        return [self.runs[run_id] for run_id in run_ids]

    def _leave(self, run: RunRecord) -> None:
        mark = experiment_of(run.tags)
        if mark is None:
            return
        self._summaries.pop(mark, None)
        members = self._members[mark]
        members.discard(run.run_id)
        if not members:
            del self._members[mark], self._first[mark]
        elif self._first[mark] == run.run_id:
            self._first[mark] = min(members)
