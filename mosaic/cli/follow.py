"""Following runs: progress bars on a terminal, plain lines in a pipe, last numbers at the end."""

import time

from mosaic.cli import output
from mosaic.cli.main import EXIT_FAILED, EXIT_INTERRUPTED
from mosaic.client import TrainerClient
from mosaic.records import RunRecord

# For logs of batch jobs: often enough to see that it moves, seldom enough to read afterwards.
_PLAIN_S = 2.0


def follow(trainer: TrainerClient, *run_ids: str, as_json: bool = False) -> int:
    """Show runs until all have ended; the exit status. Ctrl-C stops following, not the runs."""
    try:
        if as_json:
            records = {record.run_id: record for record in trainer.follow(*run_ids)}
        elif output.on_terminal():
            records = _bars(trainer, run_ids)
        else:
            records = _lines(trainer, run_ids)
    except KeyboardInterrupt:
        watch = f"mosaic watch {run_ids[0]}" if len(run_ids) == 1 else "mosaic watch"
        print(f"\nstopped following; {_subject(run_ids)}: {watch}")
        return EXIT_INTERRUPTED
    # In the order in which they were submitted, not in which they ended.
    ended = [records[run_id] for run_id in run_ids if run_id in records]
    if as_json:
        output.print_json(ended[0] if len(run_ids) == 1 else ended)
    else:
        for record in ended:
            _print_end(trainer, record)
        _print_next(ended)
    return 0 if all(record.completed for record in ended) else EXIT_FAILED


def _subject(run_ids: tuple[str, ...]) -> str:
    return "the run continues" if len(run_ids) == 1 else f"the {len(run_ids)} runs continue"


def _bars(trainer: TrainerClient, run_ids: tuple[str, ...]) -> dict[str, RunRecord]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", style="bold", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[detail]}", markup=False),
        TimeElapsedColumn(),
    )
    records: dict[str, RunRecord] = {}
    with Progress(*columns, console=output.console()) as progress:
        tasks = {run_id: progress.add_task(run_id, total=None, detail="") for run_id in run_ids}
        for record in trainer.follow(*run_ids):
            records[record.run_id] = record
            made = record.progress
            seed = f" seed {record.seed}" if len(run_ids) > 1 else ""
            progress.update(
                tasks[record.run_id],
                description=output.visible(
                    f"{record.algo or record.worker} {record.env_id}{seed}".strip()
                ),
                total=made.total or None,
                completed=made.step,
                detail=output.visible(describe(record)),
            )
    return records


def _lines(trainer: TrainerClient, run_ids: tuple[str, ...]) -> dict[str, RunRecord]:
    records: dict[str, RunRecord] = {}
    shown: dict[str, tuple[str, float]] = {}
    for record in trainer.follow(*run_ids):
        records[record.run_id] = record
        line = describe(record)
        state, at = shown.get(record.run_id, ("", 0.0))
        # A line that says nothing new is noise in the log of a batch job.
        news = record.state != state or time.monotonic() - at > _PLAIN_S
        if news and not record.ended:
            output.say(f"{record.run_id} {output.state_word(record)} {line}".rstrip())
            shown[record.run_id] = (record.state, time.monotonic())
    return records


def describe(record: RunRecord) -> str:
    """One line on a run's progress: step, return, SPS, ETA."""
    if record.wait_reason:
        return f"{record.state}: {record.wait_reason}"
    made = record.progress
    if not made.step:
        return ""
    parts = [f"step {made.step:,}/{made.total:,}", *_numbers(record)]
    if made.eta_s and not record.ended:
        parts.append(f"ETA {output.duration(made.eta_s)}")
    if record.is_paused:
        parts.append("paused")
    return " · ".join(parts)


def _numbers(record: RunRecord) -> list[str]:
    parts, metrics = [], record.metrics
    if "episodic_return" in metrics:
        parts.append(f"return {output.score(metrics['episodic_return'])}")
    if metrics.get("sps"):
        parts.append(f"{metrics['sps']:,.0f} SPS")
    return parts


def _print_end(trainer: TrainerClient, record: RunRecord) -> None:
    reason = f": {record.reason}" if record.reason else ""
    lasted = (record.finished_at or 0) - (record.started_at or record.finished_at or 0)
    took = f" after {output.duration(lasted)}" if lasted >= 1 else ""
    output.say(f"{record.run_id} {record.outcome}{took}{reason}")
    # The bar is gone by now, and with it the numbers people waited for.
    last = describe(record)
    if last:
        output.say(f"  {last}")
    if record.outcome in ("failed", "lost", "damaged"):
        text = "".join(
            chunk.text for chunk in trainer.logs(record.run_id, stream="stderr", tail_lines=12)
        )
        if text:
            print("--- last lines of stderr ---")
            output.say(text, end="")
        print(f"full output: mosaic logs {record.run_id}")


def _print_next(records: list[RunRecord]) -> None:
    """What people do next, on a terminal: a log of a batch job needs no advice."""
    if not output.on_terminal() or not records or not records[-1].completed:
        return
    record, last = records[-1], output.short_id(records[-1].run_id)
    commands = [f"mosaic show {last}", f"mosaic metrics {last}"]
    if record.newest_checkpoint("policy") is not None and record.mode in ("", "train"):
        commands.append(f"mosaic eval {last}")
    if record.newest_checkpoint("full") is not None:
        more = 2 * record.progress.total or 1
        commands.append(
            f"mosaic train {record.algo or record.worker} --resume {last} --total-timesteps {more}"
        )
    print("next: " + "  |  ".join(commands))
