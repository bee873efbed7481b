"""The process that talks to Ray for the daemon, so that the daemon does not have to.

Ray brings threads, signal handlers and 200 MB, which a daemon that must not fall cannot have in its
own process. Lines of JSON come in (`place`, `end`), and lines with the state of every actor go out.
It ends with its input.
"""

import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TextIO

import ray

from mosaic.agent.ray_holder import Holder
from mosaic.trainer.sites.ray_link import RayOrder

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.actor import ActorHandle

NAMESPACE = "mosaic"
PENDING, ALIVE, DEAD, REFUSED = "pending", "alive", "dead", "refused"
_TURN_S = 0.5
_PING_S = 5.0
_SAY_S = 5.0


@dataclass
class _Held:
    """An actor and what it was last asked; none until the order for it is worked off."""

    demand: dict[str, float]
    actor: "ActorHandle | None" = None
    question: "ObjectRef | None" = None
    state: str = PENDING
    detail: str = "is being handed to Ray"
    asked: float = field(default_factory=time.monotonic)


class Helper:
    """Actors by the names of their runs' jobs.

    What it costs to ask Ray must not grow with the runs that wait there: a question for each of
    2,000 takes longer than the daemon waits for a word.
    """

    def __init__(self, out: TextIO, own: bool) -> None:
        self._out = out
        self._own = own
        # Made once: Ray keeps a copy of the class for each time that it is made.
        self._holder = ray.remote(Holder)
        self._held: dict[str, _Held] = {}
        self._orders: deque[RayOrder] = deque()
        self._said = ""
        self._said_at = 0.0

    @property
    def busy(self) -> bool:
        """Whether something that was asked is still to be done."""
        return bool(self._orders)

    def take(self, order: RayOrder) -> None:
        """Hear what the daemon asks.

        An actor is known from here on, although Ray may hear of it much later: the daemon takes one
        that is not known for lost.
        """
        name = str(order["name"])
        held = self._held.get(name)
        if order["do"] == "place" and held is None:
            self._held[name] = _Held(order["demand"])
        if order["do"] == "end" and held is not None and held.actor is None:
            # Ray has not heard of it, and will not: `work` passes over what is not held.
            del self._held[name]
            return
        self._orders.append(order)

    def work(self, patience_s: float) -> None:
        """Do what was asked, for so long."""
        deadline = time.monotonic() + patience_s
        while self._orders and time.monotonic() < deadline:
            order = self._orders.popleft()
            name = str(order["name"])
            if name not in self._held:
                continue
            if order["do"] == "place":
                self._place(name, order)
            elif order["do"] == "end":
                with suppress(Exception):  # it is gone already, or Ray is
                    ray.kill(self._held.pop(name).actor)

    def _place(self, name: str, order: RayOrder) -> None:
        actor = self._find(name)
        if actor is None and (order["fresh"] or self._own):
            actor = self._create(name, order["demand"])
        held = self._held[name] = _Held(order["demand"], actor)
        if actor is None:
            held.state, held.detail = DEAD, "Ray has no actor for it"
        else:
            held.question = actor.begin.remote(order["order"])

    @staticmethod
    def _find(name: str) -> "ActorHandle | None":
        try:
            return ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:
            return None

    def _create(self, name: str, demand: dict[str, float]) -> "ActorHandle":
        custom = {
            key: value for key, value in demand.items() if key not in ("CPU", "GPU", "memory")
        }
        return self._holder.options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            num_cpus=demand.get("CPU", 1),
            num_gpus=demand.get("GPU", 0),
            memory=demand.get("memory") or None,
            resources=custom,
            # Never by itself: which attempt may run is the daemon's to say.
            max_restarts=0,
        ).remote()

    def look(self) -> None:
        """Ask the actors, without waiting for any."""
        questions = {}
        for held in self._held.values():
            if held.actor is None or held.state in (DEAD, REFUSED):
                continue
            if held.question is not None:
                questions[held.question] = held
            elif time.monotonic() - held.asked > _PING_S:
                held.question, held.asked = held.actor.ping.remote(), time.monotonic()
        if not questions:
            return
        answered, waiting = ray.wait(list(questions), num_returns=len(questions), timeout=0)
        for question in answered:
            self._hear(questions[question])
        pending = [questions[question] for question in waiting]
        _explain([held for held in pending if held.state == PENDING])

    def _hear(self, held: _Held) -> None:
        question, held.question, held.asked = held.question, None, time.monotonic()
        try:
            answer = ray.get(question)
        except ray.exceptions.RayTaskError as error:
            held.state, held.detail = REFUSED, _last_line(error)
        except ray.exceptions.ActorUnavailableError as error:
            held.detail = _last_line(error)  # asked again; it may come back
        except ray.exceptions.RayError as error:
            held.state, held.detail = DEAD, _last_line(error)
        else:
            held.state = ALIVE
            held.detail = str(answer) if isinstance(answer, str) else held.detail

    def tell(self) -> None:
        """Say how all are, when something changed and every few seconds."""
        states = {
            name: {"state": held.state, "detail": held.detail} for name, held in self._held.items()
        }
        text = json.dumps({"actors": states, "own": self._own})
        if text != self._said or time.monotonic() - self._said_at > _SAY_S:
            self._said, self._said_at = text, time.monotonic()
            print(text, file=self._out, flush=True)


def _explain(pending: list[_Held]) -> None:
    """Write down why they wait, from one look at what the cluster has."""
    if pending:
        total, free = ray.cluster_resources(), ray.available_resources()
        for held in pending:
            held.detail = _why_it_waits(held.demand, total, free)


def _why_it_waits(demand: dict[str, float], total: dict[str, float], free: dict[str, float]) -> str:
    """What of a demand Ray cannot give now, or has not at all."""
    for name, wanted in demand.items():
        unit = {"CPU": "CPUs", "GPU": "GPUs", "memory": "bytes of memory"}.get(name, name)
        if wanted > total.get(name, 0.0):
            return f"needs {wanted:g} {unit}, the cluster has {total.get(name, 0.0):g}"
        if wanted > free.get(name, 0.0):
            return f"waits for {wanted:g} {unit}, {free.get(name, 0.0):g} are free"
    return "is being started"


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:500]


def connect(address: str) -> bool:
    """Join a cluster; without one, start one that ends with this process. Whether it is our own."""
    # Nothing of a run is in Ray's own logs, and its dashboard would open a port.
    join = partial(ray.init, namespace=NAMESPACE, log_to_driver=False)
    if address:
        join(address=address)
        return False
    try:
        join(address="auto")
    except ConnectionError:
        # A cluster of the user's own says by itself whether it reports; ours does not.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        join(include_dashboard=False)
        return True
    return False


def _lines(lines: "SimpleQueue[str | None]", patience_s: float) -> Iterator[str | None]:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            yield lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            return


def _why_not(error: Exception) -> str:
    """Why a cluster cannot be joined; one that asks for a token only lets the time run out."""
    token = isinstance(error, ConnectionError) and "RAY_AUTH_MODE" not in os.environ
    hint = "; if it asks for a token, start the daemon with RAY_AUTH_MODE=token" if token else ""
    return _last_line(error) + hint


def main() -> int:
    """Serve the daemon until its end."""
    # Ray prints where it likes; what the daemon reads has a descriptor of its own.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lines: SimpleQueue[str | None] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        # At once and hard: a cluster of our own ends with this process.
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        own = connect(sys.argv[1] if len(sys.argv) > 1 else "")
    except Exception as error:  # whatever Ray raises is a sentence for the user
        print(json.dumps({"error": _why_not(error)}), file=out, flush=True)
        return 1
    helper = Helper(out, own)
    while True:
        for line in _lines(lines, 0.0 if helper.busy else _TURN_S):
            if line is None:
                ray.shutdown()
                return 0
            helper.take(json.loads(line))
        try:
            helper.work(_TURN_S)
            helper.look()
        except Exception as error:  # Ray itself is gone: the next helper asks again
            print(json.dumps({"error": _last_line(error)}), file=out, flush=True)
            return 1
        helper.tell()


if __name__ == "__main__":
    sys.exit(main())
