"""`mosaic export` and `mosaic import`: runs as one file that another home can trust."""

from pathlib import Path

import click

from mosaic.cli import output
from mosaic.cli.options import json_option, runs_argument, unique_runs
from mosaic.client import TrainerClient
from mosaic.client.archives import SUFFIX
from mosaic.errors import ArchiveError
from mosaic.records import ExportedRun, ImportedRun


@click.command()
@runs_argument
@click.option(
    "--output", "-o", "target", type=click.Path(path_type=Path),
    help=f"File to write (default: RUN{SUFFIX}); with --onnx a folder.",
)  # fmt: skip
@click.option("--checkpoints/--no-checkpoints", default=True, help="Include checkpoints.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--onnx", is_flag=True, help="Export the newest policy as an ONNX graph instead.")
@click.option("--html", is_flag=True, help="Export it as a page that plays it in a browser.")
@click.option(
    "--minari", metavar="ID", help="Export episodes as a Minari data set instead: cartpole/me-v0."
)
@click.option(
    "--episodes",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="With --minari: how many a trained policy plays.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="With --minari: seed of the first of them.",
)
@json_option
def export(
    runs: tuple[str, ...],
    target: Path | None,
    checkpoints: bool,
    force: bool,
    onnx: bool,
    html: bool,
    minari: str | None,
    episodes: int,
    seed: int,
    as_json: bool,
) -> int:
    """Export finished runs to one archive, or what one run has learned or recorded.

    The archive has a checksum for every file. Secrets are removed.
    """
    if asked := onnx + html + bool(minari):
        if asked > 1 or len(runs) > 1:
            raise click.UsageError("--onnx, --html and --minari export one run, each by itself")
        if html:
            return _export_page(runs[0], target, force, as_json)
        return _export_one(runs[0], target, minari, episodes, seed, as_json)
    with TrainerClient.connect() as trainer:
        ids = [record.run_id for record in unique_runs(trainer, runs)]
        path = target or Path(_name(ids))
        done = trainer.export_runs(ids, path.absolute(), checkpoints=checkpoints, overwrite=force)
    if as_json:
        output.print_json(done)
        return 0
    for run in done.runs:
        _describe(run)
    output.say(f"{path} ({_size(done.size)}); import it in another home: mosaic import {path}")
    return 0


def _export_page(run: str, target: Path | None, force: bool, as_json: bool) -> int:
    from mosaic.client.leaving import export_page

    with TrainerClient.connect() as trainer:
        record = trainer.get(run)
        done = export_page(trainer, record, target or Path(f"{record.run_id}.html"), force)
    if as_json:
        output.print_json(done)
    else:
        output.say(f"{done['path']}: open it in a browser; it plays {done['env_id']}")
    return 0


def _export_one(
    run: str, target: Path | None, minari: str | None, episodes: int, seed: int, as_json: bool
) -> int:
    """A policy or episodes of a run, in a form that other programs read."""
    from mosaic.client.leaving import export_minari, export_onnx

    with TrainerClient.connect() as trainer:
        record = trainer.get(run)
        if minari:
            done = export_minari(trainer, record, minari, episodes, seed)
        else:
            done = export_onnx(trainer, record, target or Path(f"{record.run_id}.onnx"))
    if as_json:
        output.print_json(done)
    elif minari:
        output.say(
            f"{done['id']}: {done['episodes']} episodes, {done['steps']} steps, mean return "
            f"{done['mean_return']:.4g}; learn from it: "
            f"mosaic train bc --env-id {record.env_id} --dataset {done['id']}"
        )
    else:
        output.say(
            f"{done['path']}: {done['input']} to {done['outputs']}; gives the policy's actions "
            f"for {done['checked_observations']} observations of played episodes"
        )
    return 0


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--as-new", is_flag=True, help="Import under new run ids.")
@json_option
def import_(file: Path, as_new: bool, as_json: bool) -> int:
    """Import runs from an archive made by `mosaic export`.

    The archive is checked first; if anything is wrong, nothing is imported.
    """
    with TrainerClient.connect() as trainer:
        try:
            runs = trainer.import_runs(file, as_new=as_new)
        except ArchiveError as error:
            said = str(error) if file.name in str(error) else f"{file.name}: {error}"
            raise ArchiveError(said) from None
    if as_json:
        output.print_json({"runs": [_imported_facts(item) for item in runs]})
        return 0
    for item in runs:
        run_id = item.run.run_id
        if not item.created:
            print(f"{run_id} is already in this home, identical; nothing to do")
            continue
        origin = f", a copy of {item.original_id}" if run_id != item.original_id else ""
        print(f"{run_id} imported: {item.files} files, {_size(item.bytes)}{origin}")
    return 0


def _imported_facts(item: ImportedRun) -> dict[str, object]:
    facts = {name: value for name, value in item.to_dict().items() if name != "run"}
    return {"run_id": item.run.run_id, **facts}


def _name(ids: list[str]) -> str:
    more = f"-and-{len(ids) - 1}-more" if len(ids) > 1 else ""
    return f"{ids[0]}{more}{SUFFIX}"


def _describe(run: ExportedRun) -> None:
    output.say(f"{run.run_id} {run.run_name}: {run.files} files, {_size(run.bytes)}")
    for item in run.left_out:
        output.say(f"  left out: {item.path} ({item.why})")
    for name in run.redacted:
        output.say(f"  something that looks like a secret was removed from {name}")


def _size(count: int) -> str:
    return f"{count / 2**20:,.1f} MB" if count >= 2**20 else f"{count / 2**10:,.1f} kB"
