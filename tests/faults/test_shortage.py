"""F7 of the reliability review: a machine that is short of something makes runs wait, not fail."""

import errno
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.patience import PATIENCE_S
from support.trainer import Trainer, until

from mosaic.connect.endpoint import find_endpoint
from mosaic.system.shortage import shortage
from mosaic.trainer.core.decisions import Now, decide
from mosaic.trainer.core.events import LaunchTakenBack, Settled
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.core.stimuli import LaunchUndone
from mosaic.trainer.loop.patience import LaunchPatience

MakeTrainer = Callable[..., Trainer]


@contextmanager
def _few_descriptors(pid: int, left: int) -> Iterator[None]:
    """Let a process open only `left` more files until the block ends."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    limit = 0
    while left > 0:
        left -= limit not in used
        limit += 1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def test_f07_short_of_descriptors_a_run_waits_with_the_reason(trainer: Trainer) -> None:
    """A run whose process cannot be started for want of descriptors waits and starts later."""
    trainer.ended(trainer.submit("short"))
    # Enough to take a run in and to look at files, too few for the pipes of a new process.
    with _few_descriptors(trainer.pid, left=4):
        run_id = trainer.submit("short")
        waiting = until(
            lambda: _waits_for(trainer, run_id, "descriptors"), "the run says what it waits for"
        )
        assert (waiting.state, waiting.outcome) == ("INIT", None)
    assert trainer.ended(run_id).outcome == "completed"
    assert trainer.kinds(run_id).count("spawned") == 1


def _waits_for(trainer: Trainer, run_id: str, what: str) -> Any:
    record = trainer.client.get(run_id)
    return record if what in (record.wait_reason or "") else None


def test_f07_a_silent_stranger_is_shown_the_door(trainer: Trainer) -> None:
    """A connection that says nothing does not keep a descriptor of the daemon for ever."""
    address = find_endpoint(trainer.home).address.target
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as stranger:
        stranger.settimeout(40.0)
        received = b""
        while part := stranger.recv(4096):
            received += part
    assert trainer.client.health().pid == trainer.pid


def test_f07_strangers_cannot_take_the_descriptors_that_runs_need(
    make_trainer: MakeTrainer,
) -> None:
    """However many connect without a word, a reserve is left and queued runs are started."""
    trainer = make_trainer(cpu_slots="1")
    trainer.prefix = ("sh", "-c", 'ulimit -n 128; exec "$@"', "sh")
    trainer.start()
    held = trainer.stepping().run_id
    queued = [trainer.submit("short") for _ in range(3)]
    host, _, port = find_endpoint(trainer.home).address.target.rpartition(":")
    most, strangers = 0, list[socket.socket]()

    def settled(run_id: str) -> bool:
        nonlocal most
        most = max(most, len(os.listdir(f"/proc/{trainer.pid}/fd")))
        # Read from the disk: the daemon may have no room for one more caller now.
        return '"settled"' in (trainer.directory(run_id).path / "events.jsonl").read_text()

    try:
        for _ in range(200):
            strangers.append(socket.create_connection((host, int(port))))
        os.kill(trainer.supervisor(held)["pid"], signal.SIGKILL)
        for run_id in queued:
            until(lambda run_id=run_id: settled(run_id), f"{run_id} has ended")
    finally:
        for stranger in strangers:
            stranger.close()
    # Half of the 128 for callers, what the daemon uses itself, and the rest stays free.
    assert most < 115
    assert [trainer.ended(run_id).outcome for run_id in queued] == ["completed"] * 3


@pytest.mark.parametrize(
    ("number", "passes"),
    [
        (errno.EMFILE, True),
        (errno.ENFILE, True),
        (errno.ENOMEM, True),
        (errno.EAGAIN, True),
        (errno.ENOSPC, True),
        (errno.EDQUOT, True),
        (errno.ENOENT, False),
        (errno.EACCES, False),
        (errno.E2BIG, False),
    ],
)
def test_f07_only_what_passes_by_itself_is_waited_for(number: int, passes: bool) -> None:
    """A missing program is a failure at once; a full process table is not."""
    assert bool(shortage(OSError(number, os.strerror(number)))) is passes


def test_f07_the_waits_grow_and_one_start_ends_them() -> None:
    """The queue is held for longer each time, at most half a minute, and freed by a success."""
    now, waits = [0.0], []
    patience = LaunchPatience(lambda: now[0])
    for _ in range(9):
        # Runs that were granted their slots together fail together: that counts once.
        patience.short_of("memory")
        patience.short_of("memory")
        began = now[0]
        while patience.hold():
            now[0] += 0.25
        waits.append(now[0] - began)
        assert patience.take_due()
        assert not patience.take_due()
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    patience.short_of("memory")
    patience.started()
    assert not patience.hold()


def test_f07_a_cancelled_run_does_not_go_back_to_the_queue() -> None:
    """Cancelled while its launch was failing, a run ends: nothing in the queue would end it."""
    launching = Run("01ARZ3NDEKTSV4RRFFQ69G5FAV", State.INIT, slots=("cpu:0",))
    back = decide(launching, LaunchUndone("short of memory"), Now(1.0, 1.0))
    assert back.events == (LaunchTakenBack("short of memory"),)
    stopping = Run("01ARZ3NDEKTSV4RRFFQ69G5FAV", State.INIT, slots=("cpu:0",), stopping="cancelled")
    (settled,) = decide(stopping, LaunchUndone("short of memory"), Now(1.0, 1.0)).events
    assert isinstance(settled, Settled)


_ON_A_FULL_DISK = """
mount -t tmpfs -o size=1m,nr_inodes={inodes} tmpfs "$1" || exit 99
mkdir -p "$1/home"
"$2" -c 'import sys; from mosaic.config.paths import Home; Home.locate(sys.argv[1]).create()' \
    "$1/home" || exit 98
{fill}
exec "$2" -m mosaic.trainer.daemon --home "$1/home" --port 0
"""


@pytest.mark.parametrize(
    ("inodes", "fill"),
    [
        (0, 'head -c 4000000 /dev/zero > "$1/ballast" 2>/dev/null'),
        (40, 'for i in $(seq 60); do touch "$1/ballast$i" || break; done 2>/dev/null'),
    ],
)
def test_f17_a_daemon_on_a_full_disk_says_so(tmp_path: Path, inodes: int, fill: str) -> None:
    """On a disk without space or inodes the daemon names that instead of starting in silence."""
    script = _ON_A_FULL_DISK.format(inodes=inodes, fill=fill)
    shell = ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), sys.executable]
    ended = subprocess.run(shell, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if ended.returncode == 99 or "unshare" in ended.stderr:
        pytest.skip(f"no file system of its own: {ended.stderr.strip()}")
    assert ended.returncode == 2, ended.stderr
    assert "is full" in ended.stderr


def test_f31_time_spent_frozen_is_not_held_against_a_worker(make_trainer: MakeTrainer) -> None:
    """A machine that stood still while a run was starting does not fail the run for it."""
    trainer = make_trainer(handshake_timeout_s="15").start()
    run_id = trainer.submit("starts_alone")
    worker = trainer.wait_for(run_id, "HSHK").pid
    for pid in (worker, trainer.pid):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(16.0)
    for pid in (trainer.pid, worker):
        os.kill(pid, signal.SIGCONT)
    until(lambda: "all waits begin again" in trainer.log(), "the daemon notices the gap")
    assert trainer.client.get(run_id).state == "HSHK"
    assert "faulted" not in trainer.kinds(run_id)


_LOOK = """
import sys
from pathlib import Path
from mosaic.config.paths import Home
from mosaic.config.settings import Settings
from mosaic.trainer.loop.housekeeping import DiskWatch

watch = DiskWatch(Home(Path(sys.argv[1])), Settings(min_free_disk_mb=0))
watch.look()
print(watch.notice)
"""


@pytest.mark.parametrize(("inodes", "held"), [(100, True), (5000, False)])
def test_f07_a_disk_without_inodes_holds_the_queue(tmp_path: Path, inodes: int, held: bool) -> None:
    """Where hardly a file can be created any more nothing new is started, and it is said why."""
    script = f'mount -t tmpfs -o nr_inodes={inodes} tmpfs "$1" || exit 99; exec "$2" -c "$3" "$1"'
    shell = ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), sys.executable, _LOOK]
    ended = subprocess.run(shell, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if ended.returncode == 99 or "unshare" in ended.stderr:
        pytest.skip(f"no file system of its own: {ended.stderr.strip()}")
    assert ("more files can be created" in ended.stdout) is held
