"""What a report of the selected runs is about, in the words of `mosaic report`."""

from collections.abc import Iterable, Sequence

from mosaic.experiments.summary import experiment_of
from mosaic.records import RunRecord

Mark = tuple[str, str]


def report_words(selected: Sequence[RunRecord], known: Iterable[RunRecord]) -> tuple[str, ...]:
    """The experiment, if the selected runs are all of its runs; otherwise the runs one by one.

    The evaluations of an experiment belong to its report, and so do the experiments that were made
    of a sweep's best trials.
    """
    ids = tuple(run.run_id for run in selected)
    marks = {experiment_of(run.tags) for run in selected}
    if len(marks) != 1 or None in marks:
        return ids
    [mark] = marks
    assert mark is not None
    members: dict[Mark, set[str]] = {}
    for run in known:
        found = experiment_of(run.tags)
        if found is not None:
            members.setdefault(found, set()).add(run.run_id)
    # The study of a sweep is whole, whichever of its runs are selected.
    if mark[0] != "sweep" and members[mark] != set(ids):
        return ids
    related = [other for other in _related(mark) if other in members]
    return tuple(f"{kind}={name}" for kind, name in (mark, *related))


def _related(mark: Mark) -> list[Mark]:
    kind, name = mark
    if kind == "sweep":
        return [("experiment", f"best-{name}"), ("experiment", f"confirm-{name}")]
    other = "evaluation" if kind == "experiment" else "experiment"
    return [(other, name)]


def proposed_file(words: Sequence[str]) -> str:
    """What the page could be called."""
    if len(words) > 1 and "=" not in words[0]:
        return f"report-{len(words)}-runs.html"
    return f"report-{words[0].rpartition('=')[2]}.html"
