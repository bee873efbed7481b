"""Commands for a daemon on another machine: which of them run there instead of here."""

import sys

import click

from mosaic.connect.elsewhere import SCHEME
from mosaic.errors import InvalidArgumentError

# These are about the machine that trains: its daemon, its packages, files in its home. A sweep is
# driven by a process that must outlive this connection, beside its study.
_RUN_THERE = ("up", "down", "doctor", "extras", "workers", "check-worker", "invite", "sweep")


def command_there(where: str, name: str) -> click.Command | None:
    """The command that runs `mosaic NAME` on the machine of the daemon; None runs it here."""
    if name not in _RUN_THERE:
        return None

    def run(words: tuple[str, ...]) -> int:
        if not where.startswith(SCHEME):
            raise InvalidArgumentError(
                f"mosaic {name} works on the machine of the daemon; run it there, or connect with "
                "ssh://USER@HOST"
            )
        from mosaic.connect.remote_home import RemoteHome
        from mosaic.connect.tunnel import run_there

        terminal = sys.stdin.isatty() and sys.stdout.isatty()
        return run_there(RemoteHome.parse(where), [name, *words], terminal)

    return click.Command(
        name,
        params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
        callback=run,
        # Every word belongs to the command there, its --help too.
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
    )
