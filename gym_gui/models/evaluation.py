"""What the episodes of an evaluation say about the policy."""

import time
from collections.abc import Sequence

import numpy as np

from mosaic.experiments.summary import experiment_of
from mosaic.presenting import formatting
from mosaic.records import RunRecord
from mosaic.statistics.aggregates import Floats, deviation, iqm, mean
from mosaic.statistics.intervals import interval


def evaluation_name(runs: Sequence[RunRecord]) -> str:
    """What evaluations of several runs are called together: as their experiment, if it is one."""
    marks = {experiment_of(run.tags) for run in runs}
    mark = marks.pop() if len(marks) == 1 else None
    return mark[1] if mark is not None else time.strftime("%m%d-%H%M%S")


def evaluation_text(returns: Floats) -> str:
    """Mean, spread, IQM and interval over the episodes of one policy, in a sentence.

    The interval is over episodes and says how well this policy is known. Over seeds, it would say
    how well the algorithm is known; that takes several trainings.
    """
    known = returns[np.isfinite(returns)]
    if not len(known):
        return "No episode has ended"
    scores = [known]
    count = "1 episode" if len(known) == 1 else f"{len(known):,} episodes"
    text = f"{count}: mean return {formatting.number(mean(scores))}"
    if len(known) < 2:
        return text
    text += f" ± {formatting.number(deviation(scores))} SD, IQM {formatting.number(iqm(scores))}"
    ends = interval(mean, scores)
    if ends is None:
        return text
    low, high = formatting.number(ends.low), formatting.number(ends.high)
    return f"{text}, 95 % interval of the mean over episodes {low} to {high}"
