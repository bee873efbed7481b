"""`mosaic workers` and `mosaic check-worker`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mosaic.cli import output
from mosaic.cli.options import json_option
from mosaic.config.suggest import did_you_mean
from mosaic.errors import InvalidArgumentError, InvalidConfigError, Problem
from mosaic.workers import hooks
from mosaic.workers.discovery import DiscoveredWorker, discover

if TYPE_CHECKING:
    from mosaic.workers.check import CheckResult


@click.command()
@click.option("--algos", metavar="WORKER", help="Print the algorithms of a worker, one per line.")
@json_option
def workers(algos: str | None, as_json: bool) -> int:
    """List workers, installed or not."""
    found = discover()
    if algos:
        return _print_algorithms(algos, as_json)
    if as_json:
        output.print_json(
            [
                {
                    "type": worker.worker_type,
                    "display_name": worker.display_name,
                    "available": worker.capabilities is not None,
                    "problem": worker.problem or "; ".join(_failures(worker)),
                    "package": worker.package,
                    "capabilities": asdict(worker.capabilities) if worker.capabilities else None,
                }
                for worker in found.values()
            ]
        )
        return 0
    rows = []
    for worker in found.values():
        facts, failures = worker.capabilities, _failures(worker)
        lane = "telemetry" if facts and facts.requires_live_telemetry else "analytics"
        detail = f"{lane} lane, {facts.module}" if facts else worker.problem
        usable = "yes" if facts and not failures else "no"
        detail = "; ".join(failures) or detail
        rows.append([worker.worker_type, worker.display_name, usable, detail])
    output.print_table(("TYPE", "NAME", "AVAILABLE", "DETAIL"), rows)
    return 0


def _failures(worker: DiscoveredWorker) -> list[str]:
    """Which of its hooks do not load: nothing that needs them would work."""
    if worker.capabilities is None:
        return []
    return [str(error) for error in hooks.failures(worker.capabilities)]


def _print_algorithms(worker_type: str, as_json: bool) -> int:
    found = discover()
    worker = found.get(worker_type)
    if worker is None:
        message = f"there is no worker {worker_type!r}{did_you_mean(worker_type, found)}"
        raise InvalidConfigError([Problem("", "CFG105", message)])
    if worker.capabilities is None:
        raise InvalidConfigError([Problem("", "CFG105", f"{worker_type}: {worker.problem}")])
    names = hooks.algorithms(worker.capabilities)
    if as_json:
        output.print_json(names)
    else:
        print("\n".join(names))
    return 0


@click.command("check-worker")
@click.argument("name")
@json_option
def check_worker(name: str, as_json: bool) -> int:
    """Check that a worker follows the contract.

    Checks its hooks, handshake, order of events, pause, cancel, exit codes, what it prints and
    what it saves. Rules that could not be checked are listed as skipped.
    """
    from mosaic.workers.check import check_worker as check

    results = []
    for result in check(name):
        results.append(asdict(result))
        if not as_json:
            output.say(_mark(result), f"{result.rule}: {result.detail}")
    if as_json:
        output.print_json(results)
    failed = [result for result in results if not result["passed"]]
    return 1 if failed or not results else 0


def _mark(result: "CheckResult") -> output.Styled:
    if result.skipped:
        return output.Styled("skip", "yellow")
    return output.Styled("ok  ", "green") if result.passed else output.Styled("FAIL", "bold red")


@click.group("worker")
def worker() -> None:
    """Write a worker of your own."""


@worker.command("new")
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to put it (default: ./NAME).",
)
def new(name: str, folder: Path | None) -> int:
    """Write a package with a worker NAME that trains, resumes and evaluates.

    It passes `mosaic check-worker` as it is; put your own learning in its place.
    """
    from mosaic.workers import scaffold

    scaffold.check_name(name, discover())
    place = (folder or Path(name)).absolute()
    try:
        written = scaffold.write_package(name, place)
    except OSError as error:
        raise InvalidArgumentError(f"cannot write {place}: {error.strerror}") from None
    for path in written:
        output.say(f"  {path.relative_to(place)}")
    output.say(f"wrote {place}; next:\n  pip install -e {place}\n  mosaic check-worker {name}")
    return 0
