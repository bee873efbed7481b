"""`mosaic reach`: the other end of `--connect ssh://…`, started by ssh and never typed.

It answers each line of its input with a line: where this home's daemon listens, and its token. It
ends with its input, that is with the connection.
"""

import json

import click

from mosaic.config.paths import Home
from mosaic.connect.far_end import questions
from mosaic.connect.invitation import Invitation
from mosaic.connect.tunnel import ANSWER, START, Answer
from mosaic.errors import DaemonRunningError, MosaicError


@click.command(hidden=True)
def reach() -> int:
    """Say where this home's daemon is, for as long as another machine asks."""
    home = Home.locate()
    for word in questions():
        print(json.dumps({ANSWER: _answer(home, word.strip() == START)}), flush=True)
    return 0


def _answer(home: Home, start: bool) -> Answer:
    try:
        if start:
            _start(home)
        invitation = Invitation.to_home(home)
    except (MosaicError, OSError) as error:
        return {"error": str(error), "kind": type(error).__name__}
    address = invitation.address
    return {
        "target": address.target,
        "certificate": address.certificate,
        "name": address.name,
        "token": invitation.token.decode(),
        "home": str(home.root),
    }


def _start(home: Home) -> None:
    from mosaic.connect.starting import start_daemon

    try:
        start_daemon(home)
    except DaemonRunningError:
        pass  # it is there: that is what was asked for
