"""`mosaic web`: runs in a browser."""

import importlib.util

import click

from mosaic.errors import MosaicError

_PACKAGES = ("starlette", "uvicorn", "jinja2")


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8710,
    show_default=True,
    help="0: any free one.",
)
@click.option("--control", is_flag=True, help="Let the pages pause, resume and cancel runs.")
@click.option(
    "--embed",
    metavar="ORIGIN",
    multiple=True,
    help="Let pages of this origin show ours in a frame, such as http://localhost:8888.",
)
@click.option("--start", is_flag=True, help="Start a daemon if none is running.")
def web(port: int, control: bool, embed: tuple[str, ...], start: bool) -> int:
    """Show runs in a browser.

    It serves this machine alone. Each address that it prints lets in one browser; the next one
    is printed as soon as it was used. For another machine's runs: mosaic --connect ssh://HOST web.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise MosaicError(
            f"the packages of the pages are missing ({missing[0]}); run: make setup-web"
        )
    from mosaic.cli.options import connected
    from mosaic.client import TrainerClient
    from mosaic.web.serving import serve

    for origin in embed:
        _check_origin(origin)
    connected(start).close()
    serve(TrainerClient.connect, port, control=control, embed=embed, announce=_announce)
    return 0


def _announce(address: str) -> None:
    # At once, also into a pipe: the address is what the user waits for.
    print(f"open: {address}", flush=True)


def _check_origin(origin: str) -> None:
    scheme, mark, host = origin.partition("://")
    if scheme not in ("http", "https") or not mark or not host or not set(host).isdisjoint(" ;,/'"):
        raise click.UsageError(f"{origin!r} is no origin; write for example http://localhost:8888")
