"""Options and arguments that several commands share."""

import contextlib
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import click
from click.shell_completion import CompletionItem

from mosaic.config.sites import KNOWN

if TYPE_CHECKING:
    from mosaic.client import TrainerClient
    from mosaic.records import RunRecord

Command = TypeVar("Command", bound=Callable[..., object])


# Where a command keeps the algorithm that was typed, before click has read all words.
ALGORITHM = "mosaic.algorithm"


class Steps(click.ParamType[float]):
    """A number of environment steps: a whole number of at least 1, also written as 1e6."""

    name = "number"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read what was typed; a value that is none is refused."""
        try:
            number = float(str(value))
            whole = number.is_integer() and number >= 1
        except (ValueError, OverflowError):
            whole = False
        if not whole:
            self.fail(f"{value!r} is no number of steps; give at least 1, such as 1e6", param, ctx)
        return number


STEPS = Steps()


def connected(start: bool) -> "TrainerClient":
    """A connection to the daemon; one is started if that was asked for, or is wished now."""
    from mosaic.client import TrainerClient
    from mosaic.errors import DaemonNotRunningError

    try:
        return TrainerClient.connect(start=start)
    except DaemonNotRunningError as error:
        # Read only now: with a daemon, the setting makes no difference.
        from mosaic.config.paths import Home
        from mosaic.config.settings import load_settings
        from mosaic.connect.elsewhere import named_elsewhere

        # The settings of this home say nothing about another machine's daemon.
        if not named_elsewhere() and load_settings(Home.locate()).auto_start:
            return TrainerClient.connect(start=True)
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise DaemonNotRunningError(f"{error}, or use --start") from None
    if not click.confirm("no daemon is running; start one?", default=True, err=True):
        raise click.Abort
    return TrainerClient.connect(start=True)


def json_option(command: Command) -> Command:
    """`--json`: machine-readable output."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(
        command
    )


def site_option(command: Command) -> Command:
    """`--site`: where the runs are executed."""
    text = f"Where to run: {KNOWN}.  [default: setting]"
    return click.option("--site", metavar="SITE", help=text)(command)


def run_argument(command: Command) -> Command:
    """RUN: an id, a unique prefix, or `last`."""
    return click.argument("run", metavar="RUN", shell_complete=complete_runs)(command)


def runs_argument(command: Command) -> Command:
    """RUN...: one or several runs."""
    return click.argument(
        "runs", nargs=-1, required=True, metavar="RUN...", shell_complete=complete_runs
    )(command)


def unique_runs(trainer: "TrainerClient", runs: Iterable[str]) -> "list[RunRecord]":
    """The records of several runs, each once, in the order in which they were named."""
    found = [trainer.get(run) for run in runs]
    return list({record.run_id: record for record in found}.values())


def complete_runs(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The newest runs whose id begins with what was typed."""
    from mosaic.client import TrainerClient
    from mosaic.errors import MosaicError

    try:
        with TrainerClient.connect() as trainer:
            records, _, _ = trainer.list_runs(page_size=50)
    except MosaicError:
        # A completion must never print an error into the line that is being typed.
        return []
    items = [CompletionItem(record.run_id, help=record.run_name) for record in records]
    items.append(CompletionItem("last", help="the newest run"))
    return [item for item in items if item.value.lower().startswith(incomplete.lower())]


def complete_algorithms(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Algorithms and workers whose name begins with what was typed."""
    from mosaic.errors import HookError
    from mosaic.workers import hooks
    from mosaic.workers.discovery import discover

    names: list[str] = []
    for worker in discover().values():
        if worker.capabilities is None:
            continue
        # A completion must never print an error into the line that is being typed.
        with contextlib.suppress(HookError):
            names += hooks.algorithms(worker.capabilities)
        names.append(worker.worker_type)
    return [name for name in names if name.startswith(incomplete)]


def _typed_algorithm(context: click.Context) -> str:
    """The algorithm in front of an option whose value is still missing."""
    return str(context.params.get("algo") or context.meta.get(ALGORITHM, ""))


def complete_environments(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """The environments that the algorithm's worker lists."""
    from mosaic.errors import MosaicError
    from mosaic.workers import hooks
    from mosaic.workers.algorithms import find_algorithm

    try:
        worker = find_algorithm(_typed_algorithm(context)).worker
        names = [item["id"] for item in hooks.environments(worker)]
    except MosaicError:
        return []
    return [name for name in names if name.lower().startswith(incomplete.lower())]


def complete_curricula(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """The presets of curricula that the algorithm has."""
    from mosaic.errors import MosaicError
    from mosaic.workers.algorithms import find_algorithm

    try:
        facts = find_algorithm(_typed_algorithm(context)).facts or {}
    except MosaicError:
        return []
    return [name for name in facts.get("curricula", {}) if name.startswith(incomplete)]
