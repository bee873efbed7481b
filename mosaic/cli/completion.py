"""`mosaic completion`: the script that makes the shell complete commands, runs and algorithms."""

import click
from click.shell_completion import get_completion_class

from mosaic.cli.main import cli


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script for your shell.

    For bash: eval "$(mosaic completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind is not None
    print(kind(cli, {}, "mosaic", "_MOSAIC_COMPLETE").source())
    return 0
