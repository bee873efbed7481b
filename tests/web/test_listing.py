"""The list of runs is kept in order as runs change; a visit only takes its page."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from mosaic.experiments.summary import ExperimentRecord, one, summarise
from mosaic.presenting.run_filter import compile_filter
from mosaic.records import RunRecord
from mosaic.web import listing
from mosaic.web.listing import Listing


def _run(number: int, *tags: str, algo: str = "ppo") -> RunRecord:
    return RunRecord(run_id=f"01M{number:023}", algo=algo, tags=tags, created_at=float(number))


def _ids(numbers: range) -> list[str]:
    return [_run(number).run_id for number in numbers]


def test_pages_are_newest_first_whatever_order_runs_come_in() -> None:
    """250 runs in any order are three pages; a page beyond the last is the last."""
    runs = [_run(number) for number in range(250)]
    random.Random(1).shuffle(runs)
    kept = Listing()
    for run in runs:
        kept.put(run)
        kept.put(run)
    first, last = kept.page(None, 1, 100), kept.page(None, 99, 100)
    assert [run.run_id for run in first.runs] == _ids(range(249, 149, -1))
    assert [run.run_id for run in last.runs] == _ids(range(49, -1, -1))
    assert (last.number, last.pages, last.total) == (3, 3, 250)
    assert kept.drop(_run(249).run_id)
    assert not kept.drop(_run(249).run_id)
    assert kept.page(None, 1, 100).runs[0] == _run(248)


def test_search_is_the_windows_filter() -> None:
    """Words and fields mean the same in the browser and in the window."""
    kept = Listing()
    for number in range(10):
        kept.put(_run(number, algo="ppo" if number % 2 else "dqn"))
    found = kept.page(compile_filter("algo:dqn"), 1, 3)
    assert [run.run_id for run in found.runs] == [_run(number).run_id for number in (8, 6, 4)]
    assert (found.pages, found.total) == (2, 5)
    assert kept.page(compile_filter("nothing-like-it"), 1, 3).runs == []


def test_experiments_follow_their_runs() -> None:
    """What is kept equals what summing up all runs gives, after every kind of change."""
    kept = Listing()
    drawn = random.Random(2)
    names = ["experiment=a", "experiment=b", "sweep=c"]
    for number in range(120):
        kept.put(_run(number, *drawn.sample(names, drawn.randint(0, 1))))
    for _ in range(200):
        number = drawn.randrange(120)
        if drawn.random() < 0.3:
            kept.drop(_run(number).run_id)
        else:
            kept.put(_run(number, *drawn.sample(names, drawn.randint(0, 1))))
        assert kept.experiments(10) == summarise(kept.runs.values())


def test_a_visit_sums_up_only_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many experiments a visit after one change costs one summary."""
    kept = Listing()
    for number in range(100):
        kept.put(_run(number, f"experiment={number // 10}"))
    kept.experiments(10)
    summed: list[str] = []

    def counting(kind: str, name: str, runs: Sequence[RunRecord]) -> ExperimentRecord:
        summed.append(name)
        return one(kind, name, runs)

    monkeypatch.setattr(listing, "one", counting)
    kept.put(replace(_run(55, "experiment=5"), notes="changed"))
    kept.experiments(10)
    kept.experiments(10)
    assert summed == ["5"]
