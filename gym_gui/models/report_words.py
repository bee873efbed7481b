"""What a report of the selected runs is about, in the words of `mosaic report`."""

from collections.abc import Iterable, Sequence

from mosaic.experiments.summary import experiment_of
from mosaic.records import RunRecord


def report_words(selected: Sequence[RunRecord], known: Iterable[RunRecord]) -> tuple[str, ...]:
    """The experiment, if the selected runs are all of its runs; otherwise the runs one by one.

    The evaluations of an experiment belong to its report.
    """
    marks = {experiment_of(run.tags) for run in selected}
    if len(marks) != 1 or None in marks:
        return tuple(run.run_id for run in selected)
    [mark] = marks
    assert mark is not None
    kind, name = mark
    members = [run for run in known if (found := experiment_of(run.tags)) and found[1] == name]
    own = {run.run_id for run in members if experiment_of(run.tags) == mark}
    if own != {run.run_id for run in selected}:
        return tuple(run.run_id for run in selected)
    others = {found[0] for run in members if (found := experiment_of(run.tags))} - {kind}
    return (f"{kind}={name}", *(f"{other}={name}" for other in sorted(others)))


def proposed_file(words: Sequence[str]) -> str:
    """What the page could be called."""
    if len(words) > 1 and "=" not in words[0]:
        return f"report-{len(words)}-runs.html"
    return f"report-{words[0].rpartition('=')[2]}.html"
