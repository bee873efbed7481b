"""`mosaic pause`, `resume`, `checkpoint`, `cancel`, `delete`, `restore`: what is done with runs."""

from collections.abc import Callable

import click

from mosaic.cli import output
from mosaic.cli.options import json_option, run_argument, runs_argument, unique_runs
from mosaic.client import TrainerClient
from mosaic.errors import InvalidTransitionError, MosaicError, RunNotFoundError
from mosaic.records import CheckpointRecord, RunRecord

# A run that saves a large model before it pauses or ends may take minutes.
_LONGEST_WAIT_S = 600.0

_timeout_option = click.option(
    "--timeout",
    default=120.0,
    show_default=True,
    type=click.FloatRange(min=0.1),
    help="Seconds to wait for the worker.",
)


@click.command()
@run_argument
@click.option("--release", is_flag=True, help="Free its slots while it is paused.")
@click.option("--wait/--no-wait", default=True, help="Wait until the run is paused.")
@_timeout_option
@json_option
def pause(run: str, release: bool, wait: bool, timeout: float, as_json: bool) -> int:
    """Pause a run at its next safe point."""
    with TrainerClient.connect() as trainer:
        record = trainer.pause(run, release)
        if wait:
            run_id = record.run_id
            too_late = (
                f"run {run_id} has not paused within {timeout:g} s; it still will, at its next "
                "safe point. A worker that was started before the token of the home was changed "
                f"cannot hear it: mosaic cancel {run_id}, then continue it with --resume"
            )
            record = _until(trainer, run_id, lambda now: not now.is_running, timeout, too_late)
    return _print_state(record, as_json)


@click.command()
@run_argument
@click.option("--wait/--no-wait", default=True, help="Wait until the run continues.")
@json_option
def resume(run: str, wait: bool, as_json: bool) -> int:
    """Resume a paused run.

    To continue a run that has ended, use: mosaic train ALGO --resume RUN
    """
    with TrainerClient.connect() as trainer:
        record = trainer.resume(run)
        if wait:
            run_id = record.run_id
            # Its slots may be taken by now: do not block for hours until other runs have ended.
            record = _until(trainer, run_id, lambda now: not now.is_paused or bool(now.wait_reason))
    return _print_state(record, as_json)


@click.command()
@run_argument
@_timeout_option
@json_option
def checkpoint(run: str, timeout: float, as_json: bool) -> int:
    """Save a checkpoint of a running run now; print its file and step.

    The run keeps running. To continue from the file later: mosaic train ALGO --resume RUN
    """
    from mosaic.client.saving import save_now

    with TrainerClient.connect() as trainer:
        record = save_now(trainer, run, timeout)
        saved = _newest_checkpoint(record)
    if as_json:
        output.print_json({"run_id": record.run_id, **saved.to_dict()})
    else:
        output.say(f"{record.run_id} {saved.path} at step {saved.step:,}")
    return 0


def _newest_checkpoint(record: RunRecord) -> CheckpointRecord:
    """The newest one a run can continue from, or else the newest policy."""
    saved = record.newest_checkpoint("full") or record.newest_checkpoint()
    if saved is None:
        raise MosaicError(f"run {record.run_id} says that it saved, but names no file")
    return saved


@click.command()
@runs_argument
@click.option("--grace", type=click.FloatRange(min=0), help="Seconds between SIGTERM and SIGKILL.")
@click.option("--wait/--no-wait", default=True, help="Wait until all its processes have ended.")
@json_option
def cancel(runs: tuple[str, ...], grace: float | None, wait: bool, as_json: bool) -> int:
    """Cancel runs.

    A run gets SIGTERM and some time to save its state, then SIGKILL.
    """
    with TrainerClient.connect() as trainer:
        # All are found before one is cancelled: a mistyped id must not leave half of it done.
        chosen = unique_runs(trainer, runs)
        ended = {record.run_id for record in chosen if record.ended}
        records = [trainer.cancel(record.run_id, grace) for record in chosen]
        if wait:
            records = [_until(trainer, record.run_id, lambda now: now.ended) for record in records]
    if as_json:
        output.print_json(records[0] if len(records) == 1 else records)
        return 0
    for record in records:
        if record.run_id in ended:
            output.say(f"{record.run_id} had ended before ({record.outcome})")
        else:
            _print_state(record, as_json)
    return 0


@click.command()
@runs_argument
@click.option("--purge", is_flag=True, help="Delete permanently instead.")
def delete(runs: tuple[str, ...], purge: bool) -> int:
    """Move finished runs to the trash.

    They can be restored for seven days (setting: trash_days).
    """
    with TrainerClient.connect() as trainer:
        for record in unique_runs(trainer, runs):
            trainer.delete(record.run_id, purge)
            undo = "" if purge else f"; undo: mosaic restore {record.run_id}"
            print(f"{record.run_id} deleted{undo}")
    return 0


@click.command()
@run_argument
@json_option
def restore(run: str, as_json: bool) -> int:
    """Restore a run from the trash; `last` is the newest one there."""
    with TrainerClient.connect() as trainer:
        if run.lower() == "last":
            newest = trainer.list_runs(page_size=1, deleted=True).runs
            if not newest:
                raise RunNotFoundError("the trash is empty")
            run = newest[0].run_id
        else:
            # Restoring is harmless to repeat for the daemon; who names a run here expects a change.
            run = trainer.get(run).run_id
            # Runs that continue it are found by its id too.
            listed = trainer.list_runs(page_size=500, text=run).runs
            if any(record.run_id == run for record in listed):
                raise InvalidTransitionError(f"run {run} is not in the trash; see: mosaic runs")
        return _print_state(trainer.restore(run), as_json)


def _until(
    trainer: TrainerClient,
    run_id: str,
    reached: Callable[[RunRecord], bool],
    limit_s: float = _LONGEST_WAIT_S,
    too_late: str = "",
) -> RunRecord:
    """Follow a run until something is true of it, or it has ended.

    Args:
        trainer: The daemon's client.
        run_id: The run.
        reached: What is waited for.
        limit_s: For how long.
        too_late: What to say after that, where there is more to say than how the run is.

    Raises:
        MosaicError: Neither within `limit_s`.
    """
    try:
        for record in trainer.follow(run_id, timeout_s=limit_s):
            if reached(record):
                break
    except TimeoutError as error:
        raise MosaicError(too_late or str(error)) from None
    return record


def _print_state(record: RunRecord, as_json: bool) -> int:
    if as_json:
        output.print_json(record)
    else:
        words = f"{record.state} ({record.outcome})" if record.outcome else record.state
        output.say(f"{record.run_id} {words}")
    return 0
