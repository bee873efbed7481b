"""What a supervisor does besides on another machine: lease, orders through a file, fence.

Standard library only, and found beside `supervisor.py`: the node of a cluster starts both by path.
Everything runs in the supervisor's own thread, from a timer's signal. So no thread is alive when
a worker is forked, and a supervisor that hangs does not look alive.
"""

import json
import os
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mosaic.trainer.launch.supervisor import Spec

LEASE_S = 5.0
# How soon an order is obeyed. A look costs two system calls on the shared folder; signals and the
# wish to watch are in one file for that reason.
_LOOK_S = 1.0
# A job may begin a moment before the daemon has written what it is to start, or while the daemon
# is being restarted. Half an hour of an idle job is cheaper than its place in the queue.
_LAUNCH_PATIENCE_S = 1800.0
_POLL_S = 0.2
# The engine's warning that the time limit is near.
_WARNING = signal.SIGUSR1


def claim(path: str) -> "Spec | None":
    """The specification in a file that only one supervisor can have; None when none is given.

    It holds secrets, so it is gone from the disk before the worker is started. The rename decides:
    the daemon withdraws a job by removing the same file, and one of the two comes first.
    """
    mine = f"{path}.{socket.gethostname()}.{os.getpid()}"
    deadline = time.monotonic() + _LAUNCH_PATIENCE_S
    while True:
        # A listing instead of a look at the name: NFS remembers for a while that there is none.
        os.listdir(os.path.dirname(path))
        try:
            os.rename(path, mine)
        except FileNotFoundError:
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL_S)
            continue
        with open(mine) as handle:
            spec: Spec = json.load(handle)
        os.unlink(mine)
        return _of_this_machine(spec)


def _of_this_machine(spec: "Spec") -> "Spec":
    """Fill in what only the node knows."""
    with open("/proc/sys/kernel/random/boot_id") as handle:
        spec["boot_id"] = handle.read().strip()
    for name in spec.get("from_node", ()):
        if name in os.environ:
            spec["env"][name] = os.environ[name]
    return spec


class Remote:
    """The lease and the orders of one supervisor."""

    def __init__(self, spec: "Spec", suffix: str) -> None:
        self.warned = False
        self._site: str = spec["site"]
        self._job: str = spec.get("job") or os.environ.get("SLURM_JOB_ID", "")
        self._attempt = int(spec.get("attempt", 1))
        self._run_dir: str = spec["run_dir"]
        self._lease = os.path.join(self._run_dir, f"lease{suffix}.json")
        self._control = os.path.join(self._run_dir, f"control{suffix}.json")
        self._env: dict[str, str] = spec["env"]
        self._python: str = spec["argv"][0]
        self._group = 0
        self._resting = False
        self._sender = 0
        self._wish = 0
        self._beats = 0
        self._beaten = -LEASE_S
        self._obeyed = 0

    def _fenced(self) -> bool:
        """Whether a later attempt of the run has been allowed to write."""
        try:
            with open(os.path.join(self._run_dir, "fence")) as handle:
                return int(handle.read() or 0) > self._attempt
        except (OSError, ValueError):
            return False

    def begin(self) -> bool:
        """Show that the supervisor lives, from now on; False when a later attempt has begun."""
        if self._fenced():
            return False
        signal.signal(signal.SIGALRM, self._look)
        signal.signal(_WARNING, self._warn)
        self._look(0, None)
        signal.setitimer(signal.ITIMER_REAL, _LOOK_S, _LOOK_S)
        return True

    def identity(self) -> dict[str, object]:
        """What the supervisor's record says besides."""
        return {
            "site": self._site,
            "attempt": self._attempt,
            # As the engine calls the node, where it says so; several may share a host name.
            "host": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
            "job": self._job,
            "restart": int(os.environ.get("SLURM_RESTART_COUNT") or 0),
        }

    def watch(self, group: int) -> None:
        """Send orders to this process group."""
        self._group, self._resting = group, False
        # An order may have come while the worker was being started.
        self._look(0, None)

    def rest(self) -> None:
        """The worker has ended: what sends its pictures must not count as left by it."""
        self._resting = True
        self._end_sender()

    def end(self) -> None:
        """No more looks: what follows must not be interrupted."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _look(self, _number: int, _frame: object) -> None:
        try:
            if self._fenced():
                # Not a word on the way out: the records belong to the later attempt.
                self._kill(signal.SIGKILL)
                os._exit(0)
            self._obey()
            if time.monotonic() - self._beaten >= LEASE_S:
                self._beat()
        except OSError as error:
            # The shared folder is gone or full for a while; the worker trains on.
            print(f"mosaic: {error}", file=sys.stderr)

    def _beat(self) -> None:
        self._beats += 1
        self._beaten = time.monotonic()
        # The content changes and not only the time of the file, which NFS caches.
        document = {"beat": self._beats, "at": time.time(), "host": socket.gethostname()}
        temporary = f"{self._lease}.{os.getpid()}.tmp"
        with open(temporary, "w") as handle:
            json.dump(document, handle)
        os.replace(temporary, self._lease)

    def _obey(self) -> None:
        if not self._group:
            return
        try:
            with open(self._control) as handle:
                orders = json.load(handle)
            signals, wish = orders.get("signals", []), orders.get("frames") or {}
            number = int(wish.get("number", self._wish))
        except (OSError, ValueError, TypeError, AttributeError):
            return
        for order in signals[self._obeyed :]:
            self._obeyed += 1
            self._kill(int(order))
        if number != self._wish and not self._resting:
            self._wish = number
            self._send_frames()

    def _send_frames(self) -> None:
        """Start what sends the run's pictures to the daemon, for as long as they are wanted."""
        self._end_sender()
        arguments = [self._python, "-m", "mosaic.agent.pictures", self._control, str(self._wish)]
        # Not in the worker's group, which is stopped for a pause. What this process ignores, it
        # would ignore too.
        self._sender = os.posix_spawn(
            self._python, arguments, self._env, setpgroup=0, setsigdef=(signal.SIGTERM,)
        )

    def _end_sender(self) -> None:
        sender, self._sender = self._sender, 0
        try:
            # Only while it is a child of ours; its number may be another's by now.
            if sender and os.waitpid(sender, os.WNOHANG)[0] == 0:
                os.kill(sender, signal.SIGKILL)
        except ChildProcessError:
            pass

    def _warn(self, _number: int, _frame: object) -> None:
        """The engine ends the job soon; the worker saves what it has."""
        self.warned = True
        self._kill(signal.SIGTERM)

    def _kill(self, number: int) -> None:
        if not self._group:
            return
        try:
            os.killpg(self._group, number)
        except (ProcessLookupError, PermissionError):
            pass
