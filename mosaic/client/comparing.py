"""Comparing runs of a daemon: their curves and settings are read, then grouped over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mosaic.client.curves import collect, import_pandas
from mosaic.client.sdk import TrainerClient
from mosaic.config.flat import flat_settings, judged_settings
from mosaic.curves.members import members_asked, settings_alone
from mosaic.curves.names import EVALUATION_TAGS, RETURN, TAGS
from mosaic.errors import InvalidArgumentError, RunFileError, RunNotFoundError
from mosaic.records import Outcome, RunRecord
from mosaic.statistics.comparison import Question, Trained, compare
from mosaic.statistics.curves import Curve
from mosaic.statistics.results import Comparison

if TYPE_CHECKING:
    import pandas

# A run that was stopped by its time limit did what it was asked to do.
_DONE = frozenset({Outcome.COMPLETED, Outcome.TIME_LIMIT, Outcome.BUDGET})
RETURN_CURVE = TAGS[RETURN]


def compare_runs(
    trainer: TrainerClient, run_ids: Sequence[str], question: Question | None = None
) -> Comparison:
    """Group runs by configuration and say what their seeds show.

    Args:
        trainer: The daemon that has them.
        run_ids: Ids, unique prefixes, or `last`.
        question: What is compared and how; the final return if not given.

    Raises:
        InvalidArgumentError: No run has the metric.
    """
    asked = question or Question(RETURN_CURVE)
    return compare(read_runs(trainer, run_ids, asked.metric), asked)


def read_runs(trainer: TrainerClient, run_ids: Sequence[str], metric: str) -> list[Trained]:
    """What a comparison needs of each run; a run of several members is one entry for each.

    Raises:
        InvalidArgumentError: No run has the metric.
    """
    records = {record.run_id: record for record in map(trainer.get, run_ids)}
    runs = [run for record in records.values() for run in _members(trainer, record, metric)]
    if not any(len(run.curve[0]) for run in runs):
        raise InvalidArgumentError(_no_metric(trainer, runs, metric))
    return runs


def _members(trainer: TrainerClient, record: RunRecord, metric: str) -> list[Trained]:
    """The run, or each of its members where it trained several side by side."""
    whole = _trained(trainer, record, metric)
    tags = {member.tag(metric): member for member in members_asked(whole.settings, record.seed)}
    if not tags:
        return [whole]
    curves = _curves(trainer, record, list(tags))
    return [
        replace(
            whole,
            run_id=member.tag(record.run_id),
            seed=member.seed,
            # Apart from the others in its program, each is what a run of its own would be.
            settings=settings_alone(whole.settings, member),
            curve=curves[tag],
        )
        for tag, member in tags.items()
        if tag in curves
    ] or [whole]


def _trained(trainer: TrainerClient, record: RunRecord, metric: str) -> Trained:
    settings, seed = _asked(trainer, record)
    return Trained(
        run_id=record.run_id,
        name=record.run_name,
        algo=record.algo or record.worker,
        env_id=record.env_id,
        seed=seed,
        settings=settings,
        done=record.outcome in _DONE,
        state=str(record.outcome or record.state),
        step=record.progress.step,
        curve=_curve(trainer, record, metric),
    )


def _asked(trainer: TrainerClient, record: RunRecord) -> tuple[dict[str, object], int | None]:
    """What a run was asked to do, and the seed that it stands for.

    An evaluation stands for the training whose policy it plays: one training is one observation,
    however many episodes are played, and its seed is the training's.
    """
    try:
        settings = flat_settings(trainer.config(record.run_id))
        if record.mode != "policy_eval" or not record.parent_run_id:
            return settings, record.seed
        parent = trainer.get(record.parent_run_id)
        trained = flat_settings(trainer.config(parent.run_id))
        return judged_settings(trained, settings, record.seed), parent.seed
    except (RunFileError, RunNotFoundError, KeyError):
        # Without its configuration a run cannot be told to belong to others.
        return {"run": record.run_id}, record.seed


def _curve(trainer: TrainerClient, record: RunRecord, metric: str) -> Curve:
    if metric == RETURN_CURVE and record.mode == "policy_eval" and RETURN in record.metrics:
        # Of an evaluation the mean over its episodes is the result, not the last episode.
        step = float(record.progress.step)
        return np.array([step]), np.array([record.metrics[RETURN]])
    return _curves(trainer, record, [metric]).get(metric, (np.array([]), np.array([])))


def _curves(trainer: TrainerClient, record: RunRecord, tags: Sequence[str]) -> dict[str, Curve]:
    found: dict[str, Curve] = {}
    for tag, curve in collect(trainer.metrics(record.run_id, tags=tags)).items():
        # A value that is no number has no mean; the rest of the curve still counts.
        known = np.isfinite(curve.values)
        found[tag] = curve.steps[known].astype(float), curve.values[known]
    return found


def _no_metric(trainer: TrainerClient, runs: Sequence[Trained], metric: str) -> str:
    from mosaic.config.suggest import did_you_mean

    written = sorted(
        {batch.tag for run in runs for batch in trainer.metrics(run.run_id, max_points=2)}
    )
    if metric == RETURN_CURVE and EVALUATION_TAGS[RETURN] in written:
        written.remove(EVALUATION_TAGS[RETURN])
    listed = ", ".join(written) or "nothing yet"
    return f"no run has values of {metric}{did_you_mean(metric, written)}; they wrote {listed}"


def frame(comparison: Comparison) -> pandas.DataFrame:
    """One row for each configuration and environment."""
    rows = [
        {
            "group": cell.group,
            "env_id": cell.env_id,
            "seeds": len(cell.runs),
            "left_out": len(cell.left_out),
            "at_step": cell.at_step,
            "mean": cell.mean,
            "sd": cell.sd,
            "iqm": cell.iqm,
            "median": cell.median,
            "mean_low": cell.mean_interval and cell.mean_interval.low,
            "mean_high": cell.mean_interval and cell.mean_interval.high,
            "iqm_low": cell.iqm_interval and cell.iqm_interval.low,
            "iqm_high": cell.iqm_interval and cell.iqm_interval.high,
            "steps_to_target": cell.steps_to_target,
            "note": cell.note,
        }
        for cell in comparison.cells
    ]
    return import_pandas().DataFrame(rows)


def runs_frame(comparison: Comparison) -> pandas.DataFrame:
    """One row for each run that counts."""
    rows = [
        {"group": cell.group, "env_id": cell.env_id, **run.to_dict()}
        for cell in comparison.cells
        for run in cell.runs
    ]
    return import_pandas().DataFrame(rows)
