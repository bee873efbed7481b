"""`mosaic up`, `down` and `status`."""

import time

import click

from mosaic.cli import output
from mosaic.cli.options import json_option
from mosaic.config.paths import Home
from mosaic.connect.elsewhere import named_elsewhere
from mosaic.connect.endpoint import find_endpoint
from mosaic.connect.starting import start_daemon
from mosaic.errors import DaemonNotRunningError, DaemonRunningError, MosaicError
from mosaic.system.processes import is_alive

# The daemon stores what it has in memory before it leaves; longer than this means that it hangs.
_STOP_LIMIT_S = 30.0


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks a free one."
)
@click.option("--listen", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--tls-cert",
    type=click.Path(exists=True),
    help="Certificate (PEM) for TLS.",
)
@click.option("--tls-key", type=click.Path(), help="Private key (PEM) of the certificate.")
@json_option
def up(
    port: int | None, listen: str, tls_cert: str | None, tls_key: str | None, as_json: bool
) -> int:
    """Start the trainer daemon for this home (MOSAIC_HOME).

    Does nothing if it is already running.
    """
    home = Home.locate()
    try:
        endpoint = start_daemon(home, port, listen, tls_cert, tls_key)
        fresh = True
    except DaemonRunningError:
        endpoint, fresh = find_endpoint(home), False
        # Another port was asked for than the one it listens on; 0 means any.
        if port and not endpoint.target.endswith(f":{port}"):
            raise
    if as_json:
        output.print_json(
            {"pid": endpoint.pid, "target": endpoint.target, "home": str(home.root), "new": fresh}
        )
    else:
        verb = "started" if fresh else "already running"
        print(f"daemon {verb}: pid {endpoint.pid}, {endpoint.target}, home {home.root}")
    return 0


@click.command()
@click.option("--stop-runs", is_flag=True, help="Also stop all runs (outcome: interrupted).")
@click.option(
    "--drain", is_flag=True, help="Start no new runs; stop when the current ones have ended."
)
@json_option
def down(stop_runs: bool, drain: bool, as_json: bool) -> int:
    """Stop the daemon.

    Runs keep running, and the next daemon takes them over, unless you choose otherwise.
    """
    from mosaic.client import TrainerClient  # brings gRPC, which `mosaic up` need not wait for

    if stop_runs and drain:
        raise click.UsageError("choose one of --stop-runs and --drain")
    home = Home.locate()
    # Read now: the daemon removes the file when it leaves, and its process is waited for below.
    endpoint = find_endpoint(home)
    how = "stop" if stop_runs else "drain" if drain else "leave"
    with TrainerClient.connect(home) as trainer:
        live = trainer.shutdown(how)
    # Stopping or draining waits for runs, which may take hours; only leaving them is quick.
    deadline = None if how != "leave" else time.monotonic() + _STOP_LIMIT_S
    while is_alive(endpoint.key):
        if deadline is not None and time.monotonic() > deadline:
            raise MosaicError(
                f"the daemon (pid {endpoint.pid}) did not stop; see {home.daemon_log}"
            )
        time.sleep(0.02)
    one = {"leave": "run continues", "stop": "run was told to stop", "drain": "run has ended"}
    many = {"leave": "runs continue", "stop": "runs were told to stop", "drain": "runs have ended"}
    if as_json:
        output.print_json({"stopped": endpoint.pid, "live_runs": live, "runs": how})
    else:
        print(f"daemon stopped; {live} live {(one if live == 1 else many)[how]}")
    return 0


@click.command()
@json_option
def status(as_json: bool) -> int:
    """Show the daemon, its slots and the number of runs."""
    from mosaic.client import TrainerClient

    # A daemon elsewhere is named as it was named: its folder says nothing on this machine.
    home = named_elsewhere() or str(Home.locate().root)
    try:
        trainer = TrainerClient.connect()
    except DaemonNotRunningError:
        if as_json:
            output.print_json({"running": False, "home": home})
            return 3
        raise
    with trainer:
        began = time.monotonic()
        health = trainer.health()
        latency_ms = (time.monotonic() - began) * 1000
        resources = trainer.resources()
    if as_json:
        facts = {"running": True, "home": home, **health.to_dict()}
        output.print_json({**facts, "resources": resources})
        return 0
    state = "draining" if health.draining else "serving"
    print(
        f"daemon   {state}, pid {health.pid}, up {output.duration(health.uptime_s)}, "
        f"epoch {health.epoch}, answers in {latency_ms:.1f} ms"
    )
    print(f"home     {home}")
    print(f"runs     {resources.running} running, {resources.queued} waiting")
    print(
        f"machine  {resources.cpus_free} of {resources.cpus_total} CPU slots free, "
        f"{resources.memory_free_mb:,} MB memory, {resources.disk_free_mb:,} MB disk"
    )
    for slot in resources.slots:
        holder = slot.run_id or ("draining" if slot.draining else "free")
        output.say(f"  {slot.id:<7} {holder}  {slot.detail}".rstrip())
    if health.notice:
        output.say(f"notice   {health.notice}")
    return 0
