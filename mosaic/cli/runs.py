"""`mosaic runs`, `show`: which runs there are, and what is known of one."""

from collections.abc import Iterator

import click

from mosaic.cli import output
from mosaic.cli.options import json_option, run_argument
from mosaic.client import TrainerClient
from mosaic.errors import MosaicError
from mosaic.records import Outcome, RunRecord, State

# A worker may say more than a person reads; all of it is in the event log.
_MOST_NOTES = 5
_COLUMNS = ("RUN", "NAME", "ALGO", "ENV", "STATE", "PROGRESS", "RETURN", "SPS", "ETA", "AGE", "WHY")
# Plain words for states, as the list shows them, beside their codes.
_WORDS = {
    "queued": ("INIT",),
    "starting": ("HSHK", "RDY"),
    "running": ("EXEC",),
    "paused": ("PAUSE",),
    "failing": ("FAULT",),
    "finished": ("TERM",),
}


@click.command()
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([*_WORDS, *State], case_sensitive=False),
    help="Show only runs in this state (repeatable).",
)
@click.option(
    "--outcome",
    "outcomes",
    multiple=True,
    type=click.Choice([*Outcome], case_sensitive=False),
    help="Show only runs with this outcome (repeatable).",
)
@click.option("--algo", default="", help="Show only runs of this algorithm.")
@click.option("--env-id", default="", help="Show only runs in this environment.")
@click.option("--worker", default="", help="Show only runs of this worker.")
@click.option(
    "--text", default="", help="Search in name, id, parent, algorithm, environment, tags, notes."
)
@click.option(
    "--sort",
    default="-created_at",
    show_default=True,
    help="Column to sort by; a leading - reverses.",
)
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1, 500), help="Runs per page."
)
@click.option("--page", default="", help="Show the page with this token.")
@click.option("--deleted", is_flag=True, help="List the trash instead.")
@json_option
def runs(
    states: tuple[str, ...],
    outcomes: tuple[str, ...],
    algo: str,
    env_id: str,
    worker: str,
    text: str,
    sort: str,
    limit: int,
    page: str,
    deleted: bool,
    as_json: bool,
) -> int:
    """List runs, newest first."""
    with TrainerClient.connect() as trainer:
        records, token, total = trainer.list_runs(
            page_size=limit,
            page_token=page,
            states=[code for state in states for code in _WORDS.get(state, (state,))],
            outcomes=outcomes,
            algo=algo,
            env_id=env_id,
            worker=worker,
            text=text,
            sort=sort,
            deleted=deleted,
        )
    if as_json:
        output.print_json({"runs": records, "total": total, "next_page": token})
        return 0
    if not records:
        chosen = bool(states or outcomes or algo or env_id or worker or text or page)
        output.say(_nothing(deleted, chosen))
        return 0
    output.print_table(*_table(records))
    if token and output.on_terminal():
        print(f"{len(records)} of {total} runs; the next page: mosaic runs --page {token}")
    return 0


def _nothing(deleted: bool, chosen: bool) -> str:
    """Why a list is empty: nothing matches, or there is nothing at all."""
    if chosen:
        return "no run matches; all of them: mosaic runs" + (" --deleted" if deleted else "")
    return "the trash is empty" if deleted else "no runs yet; start one: mosaic train ppo"


def _table(records: list[RunRecord]) -> tuple[tuple[str, ...], list[list[output.Cell]]]:
    """The columns and rows; where a run is, is said only if one is elsewhere."""
    columns, rows = _COLUMNS, [_row(record) for record in records]
    if all(record.site == "local" for record in records):
        return columns, rows
    sites: list[output.Cell] = [record.site for record in records]
    with_site = [[*row[:-1], site, row[-1]] for row, site in zip(rows, sites, strict=True)]
    return (*columns[:-1], "SITE", columns[-1]), with_site


def _row(record: RunRecord) -> list[output.Cell]:
    progress, metrics = record.progress, record.metrics
    live = record.is_running or record.is_paused
    return [
        output.short_id(record.run_id) if output.on_terminal() else record.run_id,
        record.run_name,
        record.algo or record.worker,
        record.env_id,
        output.state_cell(record),
        f"{progress.fraction:.0%}",
        output.score(metrics.get("episodic_return")),
        output.number(metrics.get("sps"), 0),
        output.duration(progress.eta_s) if live else "-",
        output.age(record.created_at),
        record.wait_reason or (record.reason or "" if not record.completed else ""),
    ]


@click.command()
@run_argument
@click.option("--events", is_flag=True, help="Also list its events.")
@json_option
def show(run: str, events: bool, as_json: bool) -> int:
    """Show the details of a run."""
    with TrainerClient.connect() as trainer:
        record = trainer.get(run)
        history = trainer.events(record.run_id) if events else []
        notes = _notes(trainer, record.run_id) if not as_json else []
    if as_json:
        output.print_json({**record.to_dict(), "events": history} if events else record)
        return 0
    for label, text in _facts(record):
        if text:
            output.say(f"{label:<12} {text}")
    for line in _health(record):
        output.say(line)
    for text in notes:
        output.say(f"{'note':<12} {text}")
    for event in history:
        output.say(f"  {event.seq:>4} {output.clock(event.at)} {event.state:<6} {event.kind}")
    return 0


def _facts(record: RunRecord) -> list[tuple[str, str]]:
    progress = record.progress
    state = output.state_word(record)
    if record.outcome:
        state = f"{record.outcome} ({record.state})"
    newest = record.newest_checkpoint()
    numbers = "  ".join(f"{name} {value:,.4g}" for name, value in sorted(record.metrics.items()))
    return [
        ("run", record.run_id),
        ("name", record.run_name),
        ("what", " ".join(filter(None, (record.worker, record.algo, record.env_id)))),
        ("state", state),
        ("reason", record.reason or ""),
        ("waits", record.wait_reason or ""),
        ("progress", f"{progress.step:,} of {progress.total:,} ({progress.fraction:.0%})"),
        ("metrics", numbers),
        ("process", f"pid {record.pid}" if record.pid else ""),
        ("slots", ", ".join(record.slots)),
        ("site", _site(record)),
        ("created", output.clock(record.created_at)),
        ("started", output.clock(record.started_at)),
        ("finished", output.clock(record.finished_at)),
        ("checkpoint", f"{newest.path} at step {newest.step:,}" if newest else ""),
        ("parent", _parent(record)),
        ("tags", ", ".join(record.tags)),
        ("notes", record.notes),
        ("directory", record.run_dir),
    ]


def _site(record: RunRecord) -> str:
    """Where a run is; nothing for one that is here, as nearly all are."""
    if record.site == "local":
        return ""
    parts = [record.site, f"job {record.job}" if record.job else "", record.host]
    again = f"attempt {record.attempt}" if record.attempt > 1 else ""
    return ", ".join(filter(None, (*parts, again)))


def _notes(trainer: TrainerClient, run_id: str) -> list[str]:
    """What the worker told in sentences, such as that W&B is offline; the newest, each once."""
    try:
        history = trainer.events(run_id)
    except MosaicError:
        # The log of a damaged run may be unreadable; what is known otherwise is shown.
        return []
    texts = [event.data.get("text") for event in history if event.kind == "worker_note"]
    return list(dict.fromkeys(text for text in texts if isinstance(text, str)))[-_MOST_NOTES:]


def _health(record: RunRecord) -> Iterator[str]:
    """What health rules found: what, the evidence, what to try, the way back."""
    for alarm in record.alarms:
        yield f"{'health':<12} {alarm.rule} since step {alarm.step:,}: {alarm.evidence}"
        if alarm.advice:
            yield f"{'':<12} try: {alarm.advice}"
        if alarm.checkpoint_step is not None:
            short = output.short_id(record.run_id)
            yield f"{'':<12} from before it: mosaic fork {short} --at {alarm.checkpoint_step}"


def _parent(record: RunRecord) -> str:
    step = record.parent_step
    return record.parent_run_id + ("" if step is None else f" from step {step:,}")
