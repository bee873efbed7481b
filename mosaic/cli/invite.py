"""`mosaic invite`: let a window elsewhere use this home's daemon."""

from pathlib import Path

import click

from mosaic.config.paths import Home
from mosaic.connect.invitation import Invitation


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def invite(file: Path) -> int:
    """Write FILE, with which another user or machine can use this home's daemon.

    The file contains the home's token: anyone who has it can start, stop and read runs. To reach
    the daemon from another machine, start it with --listen and --tls-cert.
    """
    invitation = Invitation.to_home(Home.locate())
    invitation.save(file)
    print(f"invitation to {invitation.address.target} written to {file}")
    print(f"use it with: mosaic gui --connect {file}, or any command: mosaic --connect {file} …")
    return 0
