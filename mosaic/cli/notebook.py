"""`mosaic notebook`: a Jupyter notebook with a run loaded."""

from pathlib import Path

import click

from mosaic.cli import output
from mosaic.cli.options import run_argument
from mosaic.client import TrainerClient
from mosaic.errors import InvalidArgumentError


@click.command()
@run_argument
@click.option(
    "--output", "-o", "target", type=click.Path(path_type=Path, dir_okay=False),
    help="File to write (default: RUN.ipynb).",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def notebook(run: str, target: Path | None, force: bool) -> int:
    """Write a Jupyter notebook with RUN loaded through the SDK."""
    from mosaic.client.notebook import notebook as make
    from mosaic.client.notebook import to_text

    with TrainerClient.connect() as trainer:
        record = trainer.get(run)
        home = str(trainer.home.root) if trainer.elsewhere is None else None
        text = to_text(make(record, home))
    path = target or Path(f"{record.run_id}.ipynb")
    if path.exists() and not force:
        raise InvalidArgumentError(f"{path} exists; use --force, or -o for another name")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgumentError(f"cannot write {path}: {error.strerror}") from None
    output.say(f"{path}; open it with: jupyter lab {path}")
    return 0
