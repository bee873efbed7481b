"""What workers know about their algorithms and environments, asked in the background."""

from collections.abc import Callable, Mapping
from typing import Any

from gym_gui.background.calls import Call, Calls
from mosaic.workers import hooks
from mosaic.workers.capabilities import WorkerCapabilities

Done = Callable[[Any], None]
Failed = Callable[[Exception], None]


class WorkerHooks:
    """Calls a worker's hooks off the GUI thread and remembers what cannot change."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        # What is installed does not change while the window runs, and asking may take seconds.
        self._known: dict[tuple[str, ...], Any] = {}
        self._waiting: dict[tuple[str, ...], list[tuple[Done, Failed]]] = {}

    def algorithms(self, worker: WorkerCapabilities, done: Done, failed: Failed) -> None:
        """The names of its algorithms."""
        self._ask(worker.algorithms, "", lambda: hooks.algorithms(worker), done, failed)

    def describe(self, worker: WorkerCapabilities, algo: str, done: Done, failed: Failed) -> None:
        """What one algorithm says about itself."""
        self._ask(worker.describe, algo, lambda: hooks.describe(worker, algo), done, failed)

    def environments(self, worker: WorkerCapabilities, done: Done, failed: Failed) -> None:
        """What is installed to act on."""
        self._ask(worker.environments, "", lambda: hooks.environments(worker), done, failed)

    def dry_run(
        self,
        worker: WorkerCapabilities,
        config: Mapping[str, Any],
        done: Done,
        failed: Failed,
    ) -> Call:
        """Check a config as the worker itself would; the result is (ok, text)."""
        return self._calls.run(lambda: hooks.dry_run(worker, config), done, failed)

    def _ask(
        self,
        reference: str,
        subject: str,
        ask: Callable[[], object],
        done: Done,
        failed: Failed,
    ) -> None:
        key = (reference, subject)
        if key in self._known:
            done(self._known[key])
            return
        if not reference:
            failed(LookupError("the worker does not say"))
            return

        waiting = self._waiting.setdefault(key, [])
        waiting.append((done, failed))
        if len(waiting) > 1:
            return  # several panels want the same list: one answer is for all of them

        def remember(result: Any) -> None:
            self._known[key] = result
            for one, _ in self._waiting.pop(key):
                # Each in a turn of its own: every panel fills a list of hundreds of names, and
                # all of them together would hold up what the user does meanwhile.
                self._calls.run(lambda: result, one)

        def give_up(error: Exception) -> None:
            for _, one in self._waiting.pop(key):
                one(error)

        self._calls.run(ask, remember, give_up)
