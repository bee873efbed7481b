"""The daemon process: one per home. `python -m mosaic.trainer.daemon`, started by `mosaic up`."""

import argparse
import fcntl
import gc
import json
import logging
import os
import resource
import socket
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from logging.handlers import RotatingFileHandler
from pathlib import Path

from mosaic.config.paths import Home
from mosaic.connect import endpoint
from mosaic.errors import DaemonNotRunningError, DaemonRunningError, MosaicError, StorageError
from mosaic.runs.directory import read_json
from mosaic.system.shortage import shortage
from mosaic.workers.listing import discover_fenced

EXIT_ALREADY_RUNNING = 3
EXIT_REFUSED = 2
# Below this not even the events of a few runs fit.
_LEAST_ROOM = 1 << 16


def hold_home(home: Home) -> int:
    """Lock a home for this process.

    Raises:
        DaemonRunningError: Another daemon has it.
        StorageError: The home cannot be written, or its file system knows no locks.
    """
    try:
        home.create()
        # Not inherited: a process that outlives the daemon would keep the home locked.
        descriptor = os.open(home.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(home, error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise DaemonRunningError(_who_has(home)) from None
    except OSError as error:
        os.close(descriptor)
        raise StorageError(
            f"the home {home.root} cannot be locked: {error.strerror}; "
            "put it on a local disk with MOSAIC_HOME"
        ) from None
    try:
        # Only after the lock was taken: the file then always names the one who holds it.
        owner = {"pid": os.getpid(), "machine": socket.gethostname()}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)
        _try_writing(home)
    except OSError as error:
        os.close(descriptor)
        raise _unusable(home, error) from None
    return descriptor


def _unusable(home: Home, error: OSError) -> StorageError:
    if not shortage(error):
        return StorageError(
            f"the home {home.root} cannot be used: {error.strerror}; "
            "choose another with MOSAIC_HOME"
        )
    return StorageError(
        f"the disk that holds {home.root} is full: {error.strerror}; free some space or "
        "delete some files, then start again with: mosaic up"
    )


def _try_writing(home: Home) -> None:
    """Write a little and remove it: a full disk is better named now than found out by and by.

    Free space alone says too little: there are quotas, and disks without an inode left.
    """
    with tempfile.TemporaryFile(dir=home.trainer) as probe:
        probe.write(bytes(_LEAST_ROOM))
        probe.flush()
        os.fsync(probe.fileno())


def _who_has(home: Home) -> str:
    owner = read_json(home.lock) or {}
    try:
        port = f", port {endpoint.find_endpoint(home).port}"
    except DaemonNotRunningError:
        port = ""
    return (
        f"a daemon already owns {home.root}: pid {owner.get('pid', '?')} "
        f"on {owner.get('machine', '?')}{port}; stop it with: mosaic down"
    )


def main() -> int:
    """Parse, lock, serve."""
    parser = argparse.ArgumentParser(prog="mosaic.trainer.daemon", description=__doc__)
    parser.add_argument("--home")
    parser.add_argument("--listen", default="127.0.0.1")
    parser.add_argument("--port", type=int)
    parser.add_argument("--tls-cert", type=Path)
    parser.add_argument("--tls-key", type=Path)
    options = parser.parse_args()
    home = Home.locate(options.home)
    os.environ["MOSAIC_HOME"] = str(home.root)
    try:
        lock = hold_home(home)
        _log_to(home.daemon_log)
        _allow_more_descriptors()
        pool = ThreadPoolExecutor(1, "listing")
        workers = pool.submit(discover_fenced)
        pool.shutdown(wait=False)
        # Only now: another process lists the workers while this one imports what it serves with.
        # Each takes some hundred milliseconds.
        gc.disable()  # a tenth of an import is looking for garbage, of which there is none
        from mosaic.trainer import serving

        gc.freeze()  # what was imported stays: later collections need not look at it
        gc.enable()
        door = serving.open_door(options.listen, options.port, options.tls_cert, options.tls_key)
        serving.run(home, door, workers)
        # Last: until the registry is closed no other daemon may open it.
        os.close(lock)
    except DaemonRunningError as error:
        print(error, file=sys.stderr)
        return EXIT_ALREADY_RUNNING
    except MosaicError as error:
        print(error, file=sys.stderr)
        return EXIT_REFUSED
    return 0


def _log_to(path: Path) -> None:
    handler = RotatingFileHandler(path, maxBytes=5_000_000, backupCount=3)
    logging.basicConfig(
        level=logging.INFO, handlers=[handler], format="%(asctime)s %(levelname)s %(message)s"
    )


def _allow_more_descriptors() -> None:
    # Each connection and each log that is read is a descriptor; the usual 1,024 are soon used up.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))


if __name__ == "__main__":
    sys.exit(main())
