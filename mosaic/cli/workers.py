"""`mosaic workers` and `mosaic check-worker`."""

from dataclasses import asdict

import click

from mosaic.cli import output
from mosaic.cli.options import json_option
from mosaic.config.suggest import did_you_mean
from mosaic.errors import InvalidConfigError, Problem
from mosaic.workers import hooks
from mosaic.workers.discovery import DiscoveredWorker, discover


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

    Checks handshake, order of events, pause, cancel and exit codes.
    """
    from mosaic.workers.check import check_worker as check

    results = []
    for result in check(name):
        results.append(asdict(result))
        if not as_json:
            passed = output.Styled("ok  ", "green")
            mark = passed if result.passed else output.Styled("FAIL", "bold red")
            output.say(mark, f"{result.rule}: {result.detail}")
    if as_json:
        output.print_json(results)
    failed = [result for result in results if not result["passed"]]
    return 1 if failed or not results else 0
