"""`mosaic report`: what runs show, as one page to hand over."""

import shlex
from pathlib import Path

import click

from mosaic.cli import output
from mosaic.cli.options import complete_runs, json_option
from mosaic.client import TrainerClient
from mosaic.curves.names import RETURN, TAGS
from mosaic.errors import InvalidArgumentError
from mosaic.statistics.comparison import Question


@click.command()
@click.argument(
    "words", metavar="EXPERIMENT_OR_RUNS…", nargs=-1, required=True, shell_complete=complete_runs
)
@click.option(
    "-o", "--output", "page", type=click.Path(dir_okay=False, path_type=Path),
    help="The page to write (default: named after the experiment).",
)  # fmt: skip
@click.option("--pdf", is_flag=True, help="Also write a PDF of the same name.")
@click.option(
    "--files", "folder", type=click.Path(file_okay=False, path_type=Path),
    help="Also write figures, data, code and configurations into this folder.",
)  # fmt: skip
@click.option("--metric", default=TAGS[RETURN], show_default=True, help="Curve to compare.")
@click.option("--minimize", is_flag=True, help="Lower is better.")
@click.option("--title", default="", help="Title of the report.")
@click.option("--notes", default="", help="What you want to say about it.")
@json_option
def report(
    words: tuple[str, ...],
    page: Path | None,
    pdf: bool,
    folder: Path | None,
    metric: str,
    minimize: bool,
    title: str,
    notes: str,
    as_json: bool,
) -> int:
    """Write a report: figures with intervals, tables, videos, settings and provenance.

    The words name an experiment (with its evaluations), a sweep or runs. The page is one HTML file
    that opens from disk. Its numbers are those of `mosaic compare`, frozen.
    """
    from mosaic.reports.content import slug
    from mosaic.reports.gathering import gather
    from mosaic.reports.writing import write_report

    question = Question(metric=metric, higher_is_better=not minimize)
    target = page or Path(f"report-{slug('-'.join(words))}.html")
    if not target.parent.is_dir():
        raise InvalidArgumentError(f"there is no folder {target.parent}; make it first")
    with TrainerClient.connect() as trainer:
        typed = ["mosaic", "report", *words, "-o", target.name]
        typed += ["--metric", metric] if metric != TAGS[RETURN] else []
        typed += ["--minimize"] if minimize else []
        found = gather(
            trainer, words, question=question, title=title, notes=notes, command=shlex.join(typed)
        )
    written = write_report(found, target, pdf=pdf, folder=folder)
    made = {name: str(path) for name, path in vars(written).items() if path is not None}
    if as_json:
        output.print_json({**made, "runs": [run.run_id for run in found.runs]})
        return 0
    for path in made.values():
        output.say(path)
    for note in found.left_out:
        output.say(f"note: {note}")
    return 0
