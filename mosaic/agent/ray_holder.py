"""What Ray holds for a run: an actor with its CPUs and GPUs that starts the agent and then waits.

The agent leaves the actor's process tree, because Ray kills the children of a worker that exits. So
the run outlives the actor, the raylet and Ray itself; the actor only keeps its place.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time

from mosaic.agent.folder import AgentFolder
from mosaic.agent.orders import ANSWER, BEGIN, Order
from mosaic.config.paths import Home

_REACH_S = 10.0
_LOOK_S = 1.0
# Ray passes a call on in less than a second. An actor that was given a node after the daemon which
# wanted it had died would hold its CPUs for nothing.
_BEGIN_S = 60.0


class Holder:
    """The actor of one run; ends by itself when no run begins."""

    def __init__(self) -> None:
        self._watching = False
        self._begun = threading.Event()
        threading.Thread(target=self._end_unless_begun, daemon=True).start()

    def begin(self, order: Order) -> str:
        """Make sure that the run has an agent on this node; the node's name.

        Raises:
            RuntimeError: This node cannot reach the daemon, or start an agent.
        """
        self._begun.set()
        _check_the_way(order["target"])
        # Its own process starts the agent and ends, so that the agent is no child of this actor.
        done = subprocess.run(
            [sys.executable, "-m", "mosaic.cli.main", "agent"],
            input=json.dumps({BEGIN: order}),
            capture_output=True,
            text=True,
            check=False,
        )
        answers = [line for line in done.stdout.splitlines() if ANSWER in line]
        if done.returncode or not answers:
            raise RuntimeError(f"no agent could be started: {done.stderr.strip()[-500:]}")
        answer = json.loads(answers[-1])[ANSWER]
        if "error" in answer:
            raise RuntimeError(str(answer["error"]))
        self._end_with_the_run(order["run_id"])
        return socket.gethostname()

    def ping(self) -> bool:
        """Answer."""
        return True

    def _end_unless_begun(self) -> None:
        if not self._begun.wait(_BEGIN_S):
            os._exit(0)

    def _end_with_the_run(self, run_id: str) -> None:
        """Free what is held when the agent has delivered everything, also without a daemon."""
        if not self._watching:
            self._watching = True
            folder = AgentFolder.of(Home.locate(), run_id).root
            threading.Thread(target=_wait_and_exit, args=(str(folder),), daemon=True).start()


def _wait_and_exit(folder: str) -> None:
    while os.path.exists(folder):
        time.sleep(_LOOK_S)
    os._exit(0)


def _check_the_way(target: str) -> None:
    host, _, port = target.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
    except OSError as error:
        raise RuntimeError(
            f"node {socket.gethostname()} cannot reach the daemon at {target} "
            f"({error.strerror or error}); let it listen where the nodes can: "
            "mosaic up --listen HOST --tls-cert FILE --tls-key FILE"
        ) from None
