"""Starting a daemon and waiting until it serves.

Apart from the client, and without gRPC: `mosaic up` needs to know when the daemon is there, not to
speak with it, and would wait for that import.
"""

import os
import subprocess
import sys
import time
from contextlib import suppress

from mosaic.config.paths import Home
from mosaic.connect.elsewhere import CONNECT_VARIABLE
from mosaic.connect.endpoint import Endpoint, find_endpoint
from mosaic.errors import BindRefusedError, DaemonNotRunningError, DaemonRunningError

# Long enough to read the runs of a full home again after the registry was lost.
_START_LIMIT_S = 30.0
# Reading a run back takes 1.3 ms of processor time; on a machine with ten times as much to do as it
# can, 7 ms passed.
_START_LIMIT_PER_RUN_S = 0.01


def start_daemon(
    home: Home,
    port: int | None = None,
    listen: str = "127.0.0.1",
    certificate: str | None = None,
    key: str | None = None,
) -> Endpoint:
    """Start a daemon in the background and wait until it serves.

    Args:
        home: The home it serves.
        port: Where it listens; 0 takes a free port, None prefers the one of the settings.
        listen: The address it listens on. Without a certificate only this machine's own.
        certificate: A file with the certificate for TLS.
        key: The file with its private key.

    Raises:
        DaemonRunningError: One is already running.
        BindRefusedError: It may not or cannot listen there, or it did not start.
    """
    command = [sys.executable, "-m", "mosaic.trainer.daemon", "--home", str(home.root)]
    command += ["--listen", listen]
    if port is not None:
        command += ["--port", str(port)]
    # The daemon works in `/`, so that it holds no folder: a relative path means ours.
    for option, path in (("--tls-cert", certificate), ("--tls-key", key)):
        if path:
            command += [option, os.path.abspath(path)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in this terminal is not meant for it
        cwd="/",
        # Which daemon this terminal talks to is no concern of the runs that it will start.
        env={name: text for name, text in os.environ.items() if name != CONNECT_VARIABLE},
    )
    assert process.stderr is not None
    limit = _START_LIMIT_S + _START_LIMIT_PER_RUN_S * _run_count(home)
    deadline = time.monotonic() + limit
    with process.stderr:
        # Nothing may block here: a daemon that starts keeps stderr open without writing to it.
        os.set_blocking(process.stderr.fileno(), False)
        while time.monotonic() < deadline:
            if process.poll() is not None:
                os.set_blocking(process.stderr.fileno(), True)
                text = process.stderr.read().decode(errors="replace").strip()
                raise _start_error(process.returncode, text)
            # By its own pid: an old `daemon.json` may still name a daemon that is going away.
            endpoint = _announced_by(home, process.pid)
            if endpoint is not None:
                process.returncode = 0  # it outlives us: there is nothing to wait for
                return endpoint
            # Often: this wait is part of every `mosaic up`, and a look costs one file.
            time.sleep(0.01)
    process.kill()
    process.wait()
    raise BindRefusedError(
        f"the daemon did not start within {limit:.0f} s; what it has read so far is kept, so "
        f"try again, or look into {home.daemon_log}"
    )


def _run_count(home: Home) -> int:
    """How many runs a daemon may have to read before it serves: all, if the registry was lost."""
    count = 0
    for folder in (home.runs, home.trash):
        with suppress(OSError):
            count += len(os.listdir(folder))
    return count


def _start_error(code: int, text: str) -> Exception:
    # `EXIT_ALREADY_RUNNING` of the daemon, which clients must not import.
    if code == 3:
        return DaemonRunningError(text)
    last = text.splitlines()[-1] if text else f"it ended with exit code {code}"
    return BindRefusedError(last)


def _announced_by(home: Home, pid: int) -> Endpoint | None:
    try:
        endpoint = find_endpoint(home)
    except DaemonNotRunningError:
        return None
    return endpoint if endpoint.pid == pid else None
