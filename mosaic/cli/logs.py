"""`mosaic logs`."""

import sys

import click

from mosaic.cli import output
from mosaic.cli.options import run_argument
from mosaic.client import TrainerClient


@click.command()
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the run ends.")
@click.option(
    "--grep", default="", help="Show only lines that match this regular expression (RE2)."
)
@click.option("-n", "--tail", type=click.IntRange(1), help="Show only the last N lines.")
@click.option("--stream", type=click.Choice(["stdout", "stderr"]), help="Show only this stream.")
@click.option(
    "--lifecycle", is_flag=True, help="Include the lines in which the worker reports to the daemon."
)
def logs(
    run: str, follow: bool, grep: str, tail: int | None, stream: str | None, lifecycle: bool
) -> int:
    """Print the output of a run.

    What the run wrote to stderr is printed to stderr.
    """
    with TrainerClient.connect() as trainer:
        chunks = trainer.logs(
            run,
            follow=follow,
            grep=grep,
            tail_lines=tail or 0,
            stream=stream or "",
            lifecycle=lifecycle,
        )
        for chunk in chunks:
            target = sys.stderr if chunk.stream == "stderr" and not stream else sys.stdout
            if target.isatty():
                output.say(chunk.text, end="", to=target)
            else:
                # Into a file or a program the log goes as it was written.
                print(chunk.text, end="", file=target, flush=True)
    return 0
