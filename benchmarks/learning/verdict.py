"""Whether a record reaches what others published, and whether it is still about this code.

Published figures come from the settings, not from the record: a figure that its page has corrected
since then must not live on in old records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.learning.fingerprint import fingerprint
from benchmarks.learning.settings import SETTINGS, Published
from benchmarks.learning.timed_settings import ON_CPU, ON_GPU

# Student's t for an interval of 95 %, by the number of seeds less one.
_T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}
_T |= {10: 2.23, 11: 2.20, 12: 2.18, 13: 2.16, 14: 2.14, 15: 2.13}

# An interval is narrow when it is at most this share of the published figure, to either side.
_NARROW = 0.05

Record = Mapping[str, Any]


def published_figure(record: Record) -> Published | None:
    """What others reached with the algorithm in this environment, if they published it."""
    for settings in (SETTINGS, ON_GPU, ON_CPU):
        setting = settings.get(record["algorithm"])
        here = setting is not None and setting.env_id == record["env_id"]
        if here and setting.published is not None:
            return setting.published
    return None


def verdict(record: Record, published: Published) -> str:
    """`met` when our mean over seeds reaches the published one, or its 95 % interval does.

    A wide interval reaches anything: it is `undecided`, and asks for more seeds.
    """
    budget = published.steps
    if budget is not None and budget > record["total_timesteps"]:
        return f"not comparable, {record['total_timesteps'] / budget:.0%} of its steps"
    key = "evaluation_return" if published.of == "evaluation" else "training_return"
    reached = [run[key] for run in record["runs"]]
    if np.mean(reached) >= published.mean:
        return "met"
    if len(reached) < 2:
        return "not met, one seed"
    half = _T[len(reached) - 1] * np.std(reached, ddof=1) / np.sqrt(len(reached))
    if np.mean(reached) + half < published.mean:
        return "not met"
    if half > _NARROW * abs(published.mean):
        return f"undecided, the interval is ± {half:.0f}"
    return "met"


def is_current(record: Record) -> bool:
    """Whether the code that learning goes through is what the record was made with."""
    return bool(record.get("code") == fingerprint(record["algorithm"]))
