"""The `mosaic` command: a group whose commands are loaded when they are called."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from mosaic import __version__
from mosaic.errors import (
    AmbiguousRunError,
    ArchiveError,
    BindRefusedError,
    DaemonNotRunningError,
    DaemonRunningError,
    InvalidArgumentError,
    InvalidConfigError,
    InvalidRunIdError,
    InvalidTransitionError,
    MosaicError,
    NotOurDaemonError,
    NotRecordedError,
    RunFileError,
    RunNotFoundError,
    SweepBusyError,
    UnreachableError,
    WorkerContractError,
)

EXIT_FAILED, EXIT_REFUSED, EXIT_NO_DAEMON, EXIT_INTERRUPTED = 1, 2, 3, 130

# A table instead of decorators: `mosaic status` must not import every other command's modules.
# Command name, its module under mosaic.cli, its function, and one line for --help.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "up": ("daemon", "up", "Start the trainer daemon."),
    "down": ("daemon", "down", "Stop the daemon; runs keep running by default."),
    "status": ("daemon", "status", "Show the daemon, its slots and the number of runs."),
    "invite": ("invite", "invite", "Let another user or machine use this daemon."),
    "train": ("train", "train", "Train an algorithm in an environment."),
    "submit": ("train", "submit", "Submit a JSON configuration."),
    "script": ("train", "script", "Run a shell script with several training phases."),
    "eval": ("evaluate", "evaluate", "Evaluate the newest policy of a run."),
    "sweep": ("sweep", "sweep", "Search for good hyperparameters."),
    "experiment": ("experiment", "experiment", "Run configurations × seeds as one experiment."),
    "compare": ("compare", "compare", "Compare configurations over their seeds."),
    "report": ("report", "report", "Write a report of runs as one page to hand over."),
    "runs": ("runs", "runs", "List runs."),
    "show": ("runs", "show", "Show the details of a run."),
    "config": ("inspect", "config", "Print the configuration of a run."),
    "metrics": ("inspect", "metrics", "Print the curves of a run."),
    "logs": ("logs", "logs", "Print the output of a run."),
    "watch": ("watch", "watch", "Follow runs live."),
    "pause": ("handling", "pause", "Pause a run at its next safe point."),
    "resume": ("handling", "resume", "Resume a paused run."),
    "checkpoint": ("handling", "checkpoint", "Save a checkpoint of a running run now."),
    "cancel": ("handling", "cancel", "Cancel runs."),
    "clone": ("train", "clone", "Submit a copy of a run."),
    "fork": ("fork", "fork", "Continue from an earlier checkpoint of a run."),
    "lineage": ("fork", "lineage", "Show what a run comes from and what was made from it."),
    "verify": ("verify", "verify", "Train pieces of a run again and compare every bit."),
    "tag": ("inspect", "tag", "Change the tags, the name or the notes of runs."),
    "open": ("inspect", "open_", "Open the folder of a run."),
    "tensorboard": ("inspect", "tensorboard", "Open runs in TensorBoard."),
    "delete": ("handling", "delete", "Move finished runs to the trash."),
    "restore": ("handling", "restore", "Restore a run from the trash."),
    "export": ("archive", "export", "Export finished runs to an archive."),
    "import": ("archive", "import_", "Import runs from an archive."),
    "notebook": ("notebook", "notebook", "Write a Jupyter notebook with a run loaded."),
    "play": ("play", "play", "Play an environment yourself and record it."),
    "arena": ("arena", "arena", "Compare agents of all kinds on the same seeds."),
    "llm": ("llm", "llm", "Let a language model play."),
    "replay": ("play", "replay", "Replay a recorded episode."),
    "workers": ("workers", "workers", "List workers and their algorithms."),
    "check-worker": ("workers", "check_worker", "Check that a worker follows the contract."),
    "worker": ("workers", "worker", "Write a worker of your own."),
    "extras": ("extras", "extras", "List and install optional packages."),
    "doctor": ("doctor", "doctor", "Check this installation for problems."),
    "gui": ("gui", "gui", "Open the workbench."),
    "web": ("web", "web", "Show runs in a browser."),
    "completion": ("completion", "completion", "Print the completion script for your shell."),
}
# Started by other machines over ssh, never typed: these are not in the list of commands.
_UNLISTED = {
    "reach": ("reach", "reach", "Say where this home's daemon is."),
    "agent": ("agent", "agent", "Start the agents of runs on this machine."),
}


class LazyGroup(click.Group):
    """Loads a command's module only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        found = COMMANDS.get(name) or _UNLISTED.get(name)
        if found is None:
            return None
        module, function, _ = found
        command: click.Command = getattr(importlib.import_module(f"mosaic.cli.{module}"), function)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and name not in {**COMMANDS, **_UNLISTED} and not name.startswith("-"):
            from mosaic.config.suggest import did_you_mean

            raise click.UsageError(f"there is no command {name!r}{did_you_mean(name, COMMANDS)}")
        if ctx.params.get("connect"):
            from mosaic.cli.connect import command_there

            there = command_there(ctx.params["connect"], name)
            if there is not None:
                return name, there, args[1:]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


def _connect_to(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Tell every client of this process, and the programs it starts, which daemon is meant."""
    from mosaic.connect.elsewhere import CONNECT_VARIABLE

    before = os.environ.get(CONNECT_VARIABLE)
    if value is None:
        return before or ""
    os.environ[CONNECT_VARIABLE] = value

    def restore() -> None:
        if before is None:
            os.environ.pop(CONNECT_VARIABLE, None)
        else:
            os.environ[CONNECT_VARIABLE] = before

    # A program that calls `main` again has not asked for this daemon again.
    context.call_on_close(restore)
    return value


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mosaic")
@click.option(
    "--connect",
    metavar="WHERE",
    callback=_connect_to,
    # Before the command is looked up: completion asks the daemon that was named.
    is_eager=True,
    help="Use the daemon of another machine: ssh://USER@HOST[:PORT][/HOME], or a file made by "
    "`mosaic invite`. MOSAIC_CONNECT does the same.",
)
def cli(connect: str) -> None:
    """MOSAIC: a workbench for reinforcement learning.

    \b
    Exit codes: 0 done, 1 the run failed, 2 refused, 3 no daemon,
    130 interrupted while following (the run keeps running).
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; errors become one message and a documented exit code."""
    try:
        result: object = cli.main(
            args=list(arguments) if arguments else None, standalone_mode=False
        )
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.UsageError as error:
        error.show()
        sys.exit(EXIT_REFUSED)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(EXIT_INTERRUPTED)
    except MosaicError as error:
        from mosaic.cli import output

        output.say(f"mosaic: {error}", to=sys.stderr)
        sys.exit(exit_code(error))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            # `mosaic runs | head` is not an error. Closed, because Python would report the pipe
            # once more when it flushes stdout at exit.
            sys.stderr.close()
            sys.exit(0)
        _unforeseen(error)
    except Exception as error:
        _unforeseen(error)
    sys.exit(result if isinstance(result, int) else 0)


def _unforeseen(error: Exception) -> NoReturn:
    """An error that no part of MOSAIC expected: a sentence, and where the traceback is."""
    import tempfile
    import traceback

    from mosaic.cli import output

    with tempfile.NamedTemporaryFile(
        "w", prefix="mosaic-error-", suffix=".txt", delete=False
    ) as file:
        traceback.print_exception(error, file=file)
    said = " ".join(str(error).split()) or "no message"
    output.say(
        f"mosaic: unexpected {type(error).__name__}: {said}\n"
        f"the traceback is in {file.name}; please report it with the command you typed",
        to=sys.stderr,
    )
    sys.exit(EXIT_FAILED)


def exit_code(error: MosaicError) -> int:
    """The documented exit code of an error."""
    no_daemon = (DaemonRunningError, DaemonNotRunningError, NotOurDaemonError, UnreachableError)
    if isinstance(error, no_daemon):
        return EXIT_NO_DAEMON
    refused = (
        InvalidConfigError,
        InvalidArgumentError,
        InvalidRunIdError,
        InvalidTransitionError,
        RunFileError,
        RunNotFoundError,
        NotRecordedError,
        AmbiguousRunError,
        ArchiveError,
        BindRefusedError,
        SweepBusyError,
        WorkerContractError,
    )
    return EXIT_REFUSED if isinstance(error, refused) else EXIT_FAILED


if __name__ == "__main__":
    main()
