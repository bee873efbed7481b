"""Serving the pages until the user stops it."""

import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from mosaic.errors import BindRefusedError, MosaicError
from mosaic.web.access import Door
from mosaic.web.app import make_app
from mosaic.web.board import Board
from mosaic.web.pages import HERE
from mosaic.web.relay import Connect

_CHART_LIBRARY = HERE / "static" / "uplot" / "uPlot.iife.min.js"
# All runs of a large home are read in a second or two; a page without them would look empty.
_SNAPSHOT_S = 10.0
# Streams never end by themselves, so those that are open are cut after this.
_GOODBYE_S = 2


def serve(
    connect: Connect,
    port: int,
    *,
    control: bool = False,
    embed: tuple[str, ...] = (),
    announce: Callable[[str], None],
) -> None:
    """Serve the pages to this machine until SIGINT or SIGTERM.

    Args:
        connect: Opens a connection to the daemon.
        port: Where to listen; 0 takes a free port.
        control: Whether pages may also stop and pause runs.
        embed: Origins whose pages may show ours in a frame.
        announce: Called with the address for the next browser, at the start and after each use.

    Raises:
        BindRefusedError: The port is taken.
        MosaicError: The chart library is missing.
    """
    if not _CHART_LIBRARY.exists():
        raise MosaicError("the pages' chart library is missing; run: make setup-web")
    with _listen(port) as listener, suppress(KeyboardInterrupt):
        door = Door(listener.getsockname()[1], control, embed, announce)
        board = Board(connect)
        board.start()
        try:
            board.wait_complete(_SNAPSHOT_S)
            config = uvicorn.Config(
                make_app(board, connect, door),
                log_level="warning",
                # Addresses hold tokens, and a log keeps them.
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_GOODBYE_S,
            )
            announce(door.entrance)
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            board.close()


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        # This machine alone: there is no TLS here, and none is needed behind an ssh tunnel.
        listener.bind(("127.0.0.1", port))
        # From here on a browser that is quicker than the server waits instead of being refused.
        listener.listen()
    except OSError as error:
        listener.close()
        raise BindRefusedError(
            f"port {port} cannot be used ({error.strerror}); try another one: mosaic web --port 0"
        ) from None
    return listener
