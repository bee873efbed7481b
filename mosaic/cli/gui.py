"""`mosaic gui`: open the workbench, and a daemon if none runs."""

import importlib.util
import os
import sys

import click

from mosaic.config.paths import how_to_install
from mosaic.connect.elsewhere import find_way, named_elsewhere
from mosaic.errors import MosaicError

_LOCAL = "local"


@click.command()
@click.option(
    "--connect",
    metavar="WHERE",
    multiple=True,
    help="Connect to another daemon: ssh://USER@HOST[:PORT][/HOME], or a file made by "
    "`mosaic invite`. Repeat it for several side by side; `local` is the one of this home.",
)
def gui(connect: tuple[str, ...]) -> int:
    """Open the workbench.

    Closing it does not stop any run.
    """
    missing = [name for name in ("qtpy", "gym_gui") if importlib.util.find_spec(name) is None]
    if missing:
        run = how_to_install("setup-gui", "gui")
        raise MosaicError(f"the window's packages are missing ({missing[0]}); run: {run}")
    # Said here, before a window opens: what cannot be used, and why.
    named = named_elsewhere()
    addresses = connect or ((named,) if named else ())
    for where in addresses:
        if where != _LOCAL:
            find_way(where).release()
    arguments = [word for where in addresses for word in ("--connect", where)]
    # -P: a file of the folder it is started in must not take the place of a module.
    # In place of this process: Ctrl-C and the exit status then belong to the window.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "gym_gui", *arguments])
