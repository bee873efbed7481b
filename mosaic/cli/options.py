"""Options and arguments that several commands share."""

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """`--json`: machine-readable output."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(
        command
    )


def run_argument(command: Command) -> Command:
    """RUN: an id, a unique prefix, or `last`."""
    return click.argument("run", metavar="RUN", shell_complete=complete_runs)(command)


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
