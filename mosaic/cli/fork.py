"""`mosaic fork` and `lineage`: continue from an earlier checkpoint, see what came of it."""

from collections.abc import Sequence

import click

from mosaic.cli import output
from mosaic.cli.building import own_flags
from mosaic.cli.options import STEPS, json_option, run_argument
from mosaic.cli.train import answer
from mosaic.client import TrainerClient
from mosaic.client.forking import algorithm_of, full_names
from mosaic.client.forking import fork as submit_fork
from mosaic.config.flags import flag_of
from mosaic.config.model import Parameters
from mosaic.records import RunRecord


@click.command()
@run_argument
@click.option(
    "--at",
    "step",
    type=STEPS,
    required=True,
    help="Step of a kept checkpoint; a wrong one is answered with those there are.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Argument of the algorithm to change, such as lr=1e-4 (repeatable).",
)
@click.option(
    "--total-timesteps", type=STEPS, help="Steps in all, counted from the first run's beginning."
)
@click.option("--name", default="", help="Name of the fork (default: the run's, with the step).")
@click.option("--notes", default="", help="Notes.")
@click.option("--keep", help="Checkpoints that the fork keeps (default: as the run).")
@click.option("--priority", type=int, default=0, show_default=True, help="Higher starts first.")
@click.option("--detach", is_flag=True, help="Print the id of the fork and return.")
@json_option
def fork(
    run: str,
    step: float,
    changes: Sequence[str],
    total_timesteps: float | None,
    name: str,
    notes: str,
    keep: str | None,
    priority: int,
    detach: bool,
    as_json: bool,
) -> int:
    """Continue RUN from one of its kept checkpoints, as a new run.

    Without --set the fork trains to the same weights as RUN, to the last bit.
    """
    with TrainerClient.connect() as trainer:
        base = trainer.get(run)
        record = submit_fork(
            trainer,
            base,
            int(step),
            _changed(base, changes),
            name=name,
            notes=notes,
            keep=keep,
            total_timesteps=None if total_timesteps is None else int(total_timesteps),
            priority=priority,
        )
        return answer(trainer, [record], detach, as_json)


def _changed(base: RunRecord, changes: Sequence[str]) -> Parameters:
    """What `--set` says, with the types that the algorithm declares."""
    if not changes:
        return {}
    given: dict[str, str] = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--set takes NAME=VALUE, such as lr=1e-4, not {change!r}")
        given[name] = value
    algorithm = algorithm_of(base)
    words = [f"{flag_of(name)}={value}" for name, value in full_names(algorithm, given).items()]
    return own_flags(words, algorithm, base.algo or base.worker)


@click.command()
@run_argument
@json_option
def lineage(run: str, as_json: bool) -> int:
    """Show the runs that RUN comes from and those that were made from it, as a tree."""
    from mosaic.client.lineage import lineage as tree_of

    with TrainerClient.connect() as trainer:
        asked = trainer.get(run).run_id
        tree = tree_of(trainer, asked)
    if as_json:
        output.print_json(tree.to_dict())
        return 0
    for depth, branch in tree.walk():
        record = branch.record
        parts = (
            output.short_id(record.run_id) if output.on_terminal() else record.run_id,
            record.run_name,
            branch.relation,
            " ".join(branch.changed),
            output.state_word(record) if record.live else str(record.outcome),
            output.score(record.metrics.get("episodic_return")),
        )
        mark = "  <" if record.run_id == asked else ""
        line = "  ".join(part for part in parts if part and part != "-")
        output.say(f"{'  ' * depth}{'└ ' if depth else ''}{line}{mark}")
    return 0
