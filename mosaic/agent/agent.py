"""`python -m mosaic.agent.agent RUN_ID`: one agent, from its order to the end of its run.

It may be killed at any moment: the supervisor and its worker do not notice, and the next agent on
this machine continues from what the daemon already has.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

from mosaic.agent.conversation import Conversation, read_launch
from mosaic.agent.folder import AgentFolder
from mosaic.agent.frames import FrameSender
from mosaic.agent.launching import prepare, start
from mosaic.agent.mirror import Mirror, Piece
from mosaic.agent.orders import Order, address_of
from mosaic.config.paths import Home, confine
from mosaic.errors import AgentOverError, ConfinementError, DaemonAwayError
from mosaic.runs import opening
from mosaic.runs.directory import remove_tree
from mosaic.runs.ids import check_run_id
from mosaic.runs.supervised import process_keys, process_place
from mosaic.system import atomic, processes
from mosaic.trainer.launch.supervisor import ALREADY_SUPERVISED
from mosaic.wire import trainer_pb2 as pb

# A worker says something once a second, and a person waits for an order at most this long.
_TURN_S, _BUSY_TURN_S = 0.5, 0.1
# While the daemon is away: soon at first, it may only be restarting.
_LONGEST_WAIT_S = 5.0
# A laptop may sleep over the holidays. After that its runs are taken for abandoned.
_PATIENCE_S = 21 * 24 * 3600.0
_ALIVE, _ENDED, _GONE, _RESTARTED = "alive", "ended", "gone", "restarted"

log = logging.getLogger("mosaic.agent")


class Agent:
    """One run on this machine."""

    def __init__(self, folder: AgentFolder, order: Order) -> None:
        self._folder = folder
        self._order = order
        self._run = folder.run(order["attempt"])
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._talk = Conversation(order)
        self._mirror = Mirror(self._run.path, self._send)
        self._frames = FrameSender(self._run)
        self._reply = pb.AgentTurnReply()
        self._leave_other_jobs()
        folder.announce(address_of(order))

    def work(self) -> None:
        """Until the daemon has everything, or needs nothing more."""
        heard, wait_s = time.monotonic(), _BUSY_TURN_S
        while True:
            self._follow_order()
            try:
                moved, done = self._turn()
                heard, wait_s = time.monotonic(), _BUSY_TURN_S if moved else _TURN_S
                if done:
                    return
            except DaemonAwayError as error:
                log.info("the daemon is away: %s", error)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
                if time.monotonic() - heard > _PATIENCE_S:
                    self._end_worker()
                    return
            except AgentOverError as error:
                log.info("%s", error)
                self._end_worker()
                return
            time.sleep(wait_s)

    def close(self) -> None:
        """End the threads and the connection."""
        self._frames.close()
        self._talk.close()

    def _turn(self) -> tuple[bool, bool]:
        # Before anything is sent: with an exit record all files are as they will stay.
        ended = opening.is_regular(self._run.exit)
        self._send([], [])
        if self._reply.launch_json and not ended and not self._begun():
            self._begin(self._reply.launch_json)
        self._frames.follow(self._reply, self._talk)
        moved = self._mirror.turn(ended)
        return moved, ended

    def _send(self, pieces: list[Piece], removed: list[str]) -> list[int]:
        lease = opening.read_end(self._run.path, self._run.lease.name, 4096)
        self._reply = self._talk.turn(
            lease.decode(errors="replace"), self._worker(), pieces, removed
        )
        self._take_files()
        return list(self._reply.taken)

    def _take_files(self) -> None:
        """Put what the daemon says beside the worker: signals, and marks that it obeys."""
        for name, content in self._reply.files.items():
            with suppress(OSError, ConfinementError):
                path = confine(self._run.path, name)
                if not opening.is_regular(path) or path.read_bytes() != content:
                    path.parent.mkdir(exist_ok=True)
                    atomic.write_bytes(path, content)

    # ------------------------------------------------------------ the worker

    def _begun(self) -> bool:
        return self._supervisor is not None or opening.is_regular(self._run.supervisor)

    def _begin(self, text: str) -> None:
        launch = read_launch(text)
        try:
            prepare(self._folder, launch, self._talk.fetch)
            self._supervisor = start(self._folder, launch, self._order["target"])
        except OSError as error:
            log.exception("the run cannot be started")
            atomic.write_json(self._run.exit, {"error": error.strerror or str(error)})

    def _worker(self) -> str:
        """What became of the worker, as this machine shows it."""
        if opening.is_regular(self._run.exit):
            return _ENDED
        if self._supervisor is not None and self._supervisor.poll() is None:
            return _ALIVE
        keys = process_keys(self._run)
        if not keys:
            code = self._supervisor.returncode if self._supervisor is not None else 0
            # 0 is no failure here: it may have been fenced before its worker began.
            return _GONE if code not in (0, ALREADY_SUPERVISED) else ""
        if any(processes.is_alive(key) for key in keys):
            return _ALIVE
        # Read again: it may have been written between the two looks.
        if opening.is_regular(self._run.exit):
            return _ENDED
        return _RESTARTED if keys[0].boot_id != processes.boot_id() else _GONE

    def _end_worker(self) -> None:
        """No one waits for this run any more: nothing of it stays on this machine."""
        keys = [key for key in process_keys(self._run) if processes.is_alive(key)]
        if keys:
            processes.signal_group(keys[0].pid, signal.SIGKILL)
        # Not by the run alone: its next attempt may be here too, as the run of another node.
        processes.kill_marked(self._order["run_id"], run_dir=self._run.path)
        # The supervisor reaps what is left and ends by itself, once its record is written.
        deadline = time.monotonic() + 10.0
        while any(processes.is_alive(key) for key in keys) and time.monotonic() < deadline:
            if self._supervisor is not None:
                self._supervisor.poll()
            time.sleep(0.05)
        processes.kill_all(key.pid for key in keys if processes.is_alive(key))

    def _leave_other_jobs(self) -> None:
        """End what an earlier placing of the same attempt has left on this machine."""
        if process_keys(self._run) and process_place(self._run)[1] != self._order["job"]:
            self._end_worker()
            remove_tree(self._run.path)
            self._folder.create()

    def _follow_order(self) -> None:
        """Find the daemon where it is now: ssh was connected again, or it moved."""
        order = self._folder.read_order()
        if order is None or order == self._order:
            return
        if (order["attempt"], order["job"]) != (self._order["attempt"], self._order["job"]):
            # The run was placed here once more: this time is over.
            log.info("job %s takes over", order["job"])
            os.execv(sys.executable, [sys.executable, *_command(order["run_id"])])
        self._order = order
        self._talk.close()
        self._talk = Conversation(order)
        self._folder.announce(address_of(order))


def _command(run_id: str) -> list[str]:
    return ["-m", "mosaic.agent.agent", run_id]


def begin(home: Home, order: Order) -> None:
    """Make sure that an agent works on a run; one that does already learns where the daemon is.

    Raises:
        OSError: The disk or the machine refuses.
        InvalidRunIdError: The order names no run.
    """
    folder = AgentFolder.of(home, check_run_id(order["run_id"]))
    folder.sweep()
    try:
        free = _hand_over(folder, order)
    except FileNotFoundError:
        free = _hand_over(folder, order)  # its last agent was just leaving, with the folder
    if not free:
        return
    with folder.log.open("ab") as output:
        subprocess.Popen(
            [sys.executable, *_command(order["run_id"])],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            # It outlives the connection that it was started through.
            start_new_session=True,
            env={**os.environ, "MOSAIC_HOME": str(home.root)},
        )


def _hand_over(folder: AgentFolder, order: Order) -> bool:
    """Put an order where an agent finds it; whether one has to be started for it."""
    folder.create()
    folder.write_order(order)
    lock = folder.lock()
    if lock is None:
        return False
    os.close(lock)
    return True


def main() -> int:
    """Be the agent of a run."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    folder = AgentFolder.of(Home.locate(), check_run_id(sys.argv[1]))
    lock, order = folder.lock(), folder.read_order()
    if lock is None or order is None:
        return 0  # another one is there, or there is nothing to do
    agent = Agent(folder, order)
    try:
        agent.work()
    finally:
        agent.close()
    with suppress(OSError):
        folder.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
