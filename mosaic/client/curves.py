"""Curves of runs as NumPy arrays, and as a pandas table where pandas is installed."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mosaic.config.suggest import allowed_names, did_you_mean
from mosaic.errors import InvalidArgumentError, MosaicError
from mosaic.records import MetricBatch

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Curve:
    """One scalar of a run over its steps.

    Attributes:
        tag: Its name, such as `charts/episodic_return`.
        steps: Environment steps.
        values: The values at these steps.
        wall_times: When they were written, in seconds since the epoch.
    """

    tag: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    wall_times: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)


def collect(
    batches: Iterable[MetricBatch], tags: Sequence[str] = (), run_id: str = ""
) -> dict[str, Curve]:
    """Batches of the daemon put together to whole curves.

    Raises:
        InvalidArgumentError: A tag that was asked for is not there.
    """
    found: dict[str, list[MetricBatch]] = {}
    for batch in batches:
        found.setdefault(batch.tag, []).append(batch)
    for tag in tags:
        if tag not in found:
            raise InvalidArgumentError(
                f"run {run_id} has no curve {tag!r}{did_you_mean(tag, found)} "
                f"(it has: {allowed_names(found) or 'none yet'})"
            )
    return {tag: _joined(tag, found[tag]) for tag in sorted(found) if not tags or tag in tags}


def _joined(tag: str, batches: Sequence[MetricBatch]) -> Curve:
    return Curve(
        tag,
        np.array([step for batch in batches for step in batch.steps], np.int64),
        np.array([value for batch in batches for value in batch.values], np.float64),
        np.array([at for batch in batches for at in batch.wall_times], np.float64),
    )


def table(curves: Mapping[str, Mapping[str, Curve]]) -> "pd.DataFrame":
    """Curves of several runs as one long table: run, tag, step, value, wall_time.

    Args:
        curves: What `TrainerClient.curves` returns, by run.

    Raises:
        MosaicError: pandas is not installed.
    """
    pd = import_pandas()
    parts = [
        pd.DataFrame(
            {
                "run": run,
                "tag": curve.tag,
                "step": curve.steps,
                "value": curve.values,
                "wall_time": curve.wall_times,
            }
        )
        for run, found in curves.items()
        for curve in found.values()
    ]
    columns = ["run", "tag", "step", "value", "wall_time"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def import_pandas() -> ModuleType:
    """pandas, which only those who want tables have to install.

    Raises:
        MosaicError: It is not installed.
    """
    # Here and not above: it takes longer to import than most commands take to run.
    try:
        return importlib.import_module("pandas")
    except ImportError:
        raise MosaicError("tables need pandas: pip install pandas==2.3.3") from None
