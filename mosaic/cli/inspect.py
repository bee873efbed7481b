"""`mosaic config`, `metrics`, `tag`, `open`, `tensorboard`: what a run was asked for and left."""

import csv
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mosaic.cli import output
from mosaic.cli.options import json_option, run_argument, runs_argument, unique_runs
from mosaic.client import TrainerClient
from mosaic.errors import InvalidArgumentError, MosaicError, RunFileError
from mosaic.records import RunRecord

if TYPE_CHECKING:
    from mosaic.client.curves import Curve


@click.command()
@run_argument
def config(run: str) -> int:
    """Print the configuration of a run as JSON; secrets are named, not shown.

    It can be changed and submitted again: mosaic config RUN > job.json; mosaic submit job.json
    """
    with TrainerClient.connect() as trainer:
        output.print_json(trainer.config(trainer.get(run).run_id))
    return 0


@click.command()
@run_argument
@click.option("--tag", "tags", multiple=True, help="Only this curve (repeatable).")
@click.option("--csv", "as_csv", is_flag=True, help="Print every point: tag, step, value, time.")
@click.option(
    "--points", type=click.IntRange(2), help="Thin each curve to this many points; peaks are kept."
)
@json_option
def metrics(run: str, tags: Sequence[str], as_csv: bool, points: int | None, as_json: bool) -> int:
    """Print the curves of a run: a summary of each, or every point with --csv."""
    with TrainerClient.connect() as trainer:
        record = trainer.get(run)
        curves = list(trainer.curves(record.run_id, *tags, max_points=points or 0).values())
    if as_json:
        facts = [
            {"tag": c.tag, "steps": c.steps.tolist(), "values": c.values.tolist()} for c in curves
        ]
        output.print_json({"run_id": record.run_id, "curves": facts})
    elif as_csv:
        rows = csv.writer(sys.stdout)
        rows.writerow(("tag", "step", "value", "wall_time"))
        for curve in curves:
            columns = (curve.steps.tolist(), curve.values.tolist(), curve.wall_times.tolist())
            rows.writerows((curve.tag, *point) for point in zip(*columns, strict=True))
    elif not curves:
        output.say(f"run {record.run_id} has no curves yet")
    else:
        output.print_table(
            ("CURVE", "POINTS", "STEP", "LAST", "LOWEST", "HIGHEST"), [_summary(c) for c in curves]
        )
    return 0


def _summary(curve: "Curve") -> list[output.Cell]:
    numbers = (curve.values[-1], curve.values.min(), curve.values.max())
    shown = [f"{value:,.4g}" for value in numbers]
    return [curve.tag, f"{len(curve):,}", f"{curve.steps[-1]:,}", *shown]


@click.command()
@runs_argument
@click.option("--add", multiple=True, help="Tag to add (repeatable).")
@click.option("--remove", multiple=True, help="Tag to remove (repeatable).")
@click.option("--name", help="New name (one run only).")
@click.option("--notes", help="New notes.")
@json_option
def tag(
    runs: Sequence[str],
    add: Sequence[str],
    remove: Sequence[str],
    name: str | None,
    notes: str | None,
    as_json: bool,
) -> int:
    """Change the tags, the name or the notes of runs; without options, show the tags."""
    with TrainerClient.connect() as trainer:
        records = unique_runs(trainer, runs)
        if name is not None and len(records) > 1:
            raise InvalidArgumentError("--name is for one run; several would have the same name")
        if add or remove or name is not None or notes is not None:
            records = [
                trainer.update(
                    record.run_id,
                    run_name=name,
                    notes=notes,
                    tags=_changed_tags(record.tags, add, remove),
                )
                for record in records
            ]
    if as_json:
        output.print_json(records)
        return 0
    for record in records:
        output.say(f"{record.run_id} {record.run_name}: {', '.join(record.tags) or 'no tags'}")
    return 0


def _changed_tags(before: Sequence[str], add: Sequence[str], remove: Sequence[str]) -> list[str]:
    return [tag for tag in dict.fromkeys([*before, *add]) if tag not in remove]


@click.command("open")
@run_argument
@click.option("--path", "only_path", is_flag=True, help="Only print the folder.")
def open_(run: str, only_path: bool) -> int:
    """Open the folder of a run in the file manager, or print it where there is none."""
    with TrainerClient.connect() as trainer:
        record = trainer.get(run)
    folder = _readable(record)
    output.say(str(folder))
    # Without a screen a file manager could only fail.
    if not only_path and output.on_terminal() and os.environ.get("DISPLAY"):
        click.launch(str(folder))
    return 0


@click.command()
@runs_argument
@click.option("--port", type=click.IntRange(0, 65535), default=6006, show_default=True)
@click.option("--dry-run", is_flag=True, help="Print the command without starting it.")
def tensorboard(runs: Sequence[str], port: int, dry_run: bool) -> int:
    """Show runs side by side in TensorBoard, until Ctrl-C."""
    if importlib.util.find_spec("tensorboard") is None:
        raise MosaicError("TensorBoard is not installed; run: pip install tensorboard")
    with TrainerClient.connect() as trainer:
        records = unique_runs(trainer, runs)
    folders = [
        # A comma or a colon would be read as the next folder.
        f"{_label(record)}:{_events_of(_readable(record))}"
        for record in records
    ]
    command = [sys.executable, "-P", "-m", "tensorboard.main", "--logdir_spec", ",".join(folders)]
    command += ["--port", str(port), "--load_fast", "false"]
    if dry_run:
        output.say(" ".join(command))
        return 0
    try:
        return subprocess.call(command)
    except KeyboardInterrupt:
        return 0


def _label(record: RunRecord) -> str:
    name = record.run_name or record.algo
    plain = "".join(letter if letter not in ",:" else "-" for letter in name)
    return f"{plain} {output.short_id(record.run_id)}"


def _events_of(run_dir: Path) -> Path:
    """Where the event files are; a script's phases have others of their own beside it."""
    usual = run_dir / "tensorboard"
    return usual if usual.is_dir() else run_dir


def _readable(record: RunRecord) -> Path:
    folder = Path(record.run_dir)
    if not folder.is_dir():
        raise RunFileError(
            f"{folder} is not on this machine; read its files with: mosaic show {record.run_id}"
        )
    return folder
