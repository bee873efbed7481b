"""Following a run: a progress bar on a terminal, plain lines in a pipe."""

import time

from mosaic.cli import output
from mosaic.cli.main import EXIT_FAILED, EXIT_INTERRUPTED
from mosaic.client import TrainerClient
from mosaic.records import RunRecord

# For logs of batch jobs: often enough to see that it moves, seldom enough to read afterwards.
_PLAIN_S = 2.0


def follow(trainer: TrainerClient, run_id: str, as_json: bool = False) -> int:
    """Show a run until it ends; its exit status. Ctrl-C stops following, not the run."""
    try:
        if as_json:
            record = trainer.wait(run_id)
            output.print_json(record)
        elif output.on_terminal():
            record = _bar(trainer, run_id)
        else:
            record = _lines(trainer, run_id)
    except KeyboardInterrupt:
        print(f"\nstopped following; the run continues: mosaic watch {run_id}")
        return EXIT_INTERRUPTED
    if not as_json:
        _print_end(trainer, record)
    return 0 if record.completed else EXIT_FAILED


def _bar(trainer: TrainerClient, run_id: str) -> RunRecord:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", style="bold", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[detail]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=output.console()) as progress:
        task = progress.add_task(run_id, total=None, detail="")
        for record in trainer.follow(run_id):
            made = record.progress
            progress.update(
                task,
                description=output.visible(
                    f"{record.algo or record.worker} {record.env_id}".strip()
                ),
                total=made.total or None,
                completed=made.step,
                detail=output.visible(describe(record)),
            )
    return record


def _lines(trainer: TrainerClient, run_id: str) -> RunRecord:
    shown, shown_at = "", 0.0
    for record in trainer.follow(run_id):
        line = f"{record.run_id} {record.state} {describe(record)}".rstrip()
        if record.state != shown or time.monotonic() - shown_at > _PLAIN_S:
            output.say(line)
            shown, shown_at = record.state, time.monotonic()
    return record


def describe(record: RunRecord) -> str:
    """One line on a run's progress: step, return, SPS, ETA."""
    if record.wait_reason:
        return f"{record.state}: {record.wait_reason}"
    made, metrics = record.progress, record.metrics
    if not made.step:
        return {"INIT": "queued", "HSHK": "starting", "RDY": "starting"}.get(record.state, "")
    parts = [f"step {made.step:,}/{made.total:,}"]
    if "episodic_return" in metrics:
        parts.append(f"return {output.score(metrics['episodic_return'])}")
    if metrics.get("sps"):
        parts.append(f"{metrics['sps']:,.0f} SPS")
    if made.eta_s:
        parts.append(f"ETA {output.duration(made.eta_s)}")
    if record.is_paused:
        parts.append("paused")
    return " · ".join(parts)


def _print_end(trainer: TrainerClient, record: RunRecord) -> None:
    reason = f": {record.reason}" if record.reason else ""
    output.say(f"{record.run_id} {record.outcome}{reason}")
    if record.outcome in ("failed", "lost", "damaged"):
        last = "".join(
            chunk.text for chunk in trainer.logs(record.run_id, stream="stderr", tail_lines=12)
        )
        if last:
            print("--- last lines of stderr ---")
            output.say(last, end="")
        print(f"full output: mosaic logs {record.run_id}")
