"""`mosaic watch`: runs live, or one run to its end."""

import click

from mosaic.cli import output
from mosaic.cli.follow import describe, follow
from mosaic.cli.options import complete_runs
from mosaic.client import TrainerClient


@click.command()
@click.argument("run", required=False, metavar="[RUN]", shell_complete=complete_runs)
@click.option("--json", "as_json", is_flag=True, help="Print each change as a line of JSON.")
def watch(run: str | None, as_json: bool) -> int:
    """Follow RUN to its end, or every change of every run."""
    with TrainerClient.connect() as trainer:
        if run and not as_json:
            return follow(trainer, trainer.get(run)["run_id"])
        wanted = trainer.get(run)["run_id"] if run else None
        try:
            _every_change(trainer, wanted, as_json)
        except KeyboardInterrupt:
            return 130
    return 0


def _every_change(trainer: TrainerClient, wanted: str | None, as_json: bool) -> None:
    import json

    live = False
    for change in trainer.watch():
        record = change.get("run")
        concerns = wanted is None or (record and record["run_id"] == wanted)
        if as_json and concerns:
            print(json.dumps(change), flush=True)
        elif record and concerns and (live or record["state"] != "TERM"):
            output.console().print(
                f"{record['run_id']} {output.state_cell(record)} {record['run_name']} "
                f"{describe(record)}",
                soft_wrap=True,
            )
        live = live or change["kind"] == "snapshot_end"
        if wanted and record and record["run_id"] == wanted and record["state"] == "TERM":
            return
