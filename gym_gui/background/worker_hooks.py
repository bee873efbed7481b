"""What workers know about their algorithms and environments, asked in the background."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from gym_gui.background.calls import Call, Calls
from mosaic.workers import hooks
from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.facts import AlgorithmFacts, EnvironmentFacts

Answer = TypeVar("Answer")
Failed = Callable[[Exception], None]


class WorkerHooks:
    """Calls a worker's hooks off the GUI thread and remembers what cannot change."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._algorithms: _Answers[list[str]] = _Answers(calls)
        self._descriptions: _Answers[AlgorithmFacts] = _Answers(calls)
        self._environments: _Answers[list[EnvironmentFacts]] = _Answers(calls)

    def algorithms(
        self, worker: WorkerCapabilities, done: Callable[[list[str]], None], failed: Failed
    ) -> None:
        """The names of its algorithms."""
        self._algorithms.ask(
            worker.algorithms, "", lambda: hooks.algorithms(worker), (done, failed)
        )

    def describe(
        self,
        worker: WorkerCapabilities,
        algo: str,
        done: Callable[[AlgorithmFacts], None],
        failed: Failed,
    ) -> None:
        """What one algorithm says about itself."""
        self._descriptions.ask(
            worker.describe, algo, lambda: hooks.describe(worker, algo), (done, failed)
        )

    def environments(
        self,
        worker: WorkerCapabilities,
        done: Callable[[list[EnvironmentFacts]], None],
        failed: Failed,
    ) -> None:
        """What is installed to act on."""
        self._environments.ask(
            worker.environments, "", lambda: hooks.environments(worker), (done, failed)
        )

    def dry_run(
        self,
        worker: WorkerCapabilities,
        config: Mapping[str, object],
        done: Callable[[tuple[bool, str]], None],
        failed: Failed,
    ) -> Call:
        """Check a config as the worker itself would; the result is (ok, text)."""
        return self._calls.run(lambda: hooks.dry_run(worker, config), done, failed)


class _Answers(Generic[Answer]):
    """The answers of one kind of hook, asked once each.

    What is installed does not change while the window runs, and asking may take seconds.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._known: dict[tuple[str, str], Answer] = {}
        self._waiting: dict[tuple[str, str], list[tuple[Callable[[Answer], None], Failed]]] = {}

    def ask(
        self,
        reference: str,
        subject: str,
        ask: Callable[[], Answer],
        heard: tuple[Callable[[Answer], None], Failed],
    ) -> None:
        """Ask a worker, unless its answer is known already.

        Args:
            reference: The hook, as the worker names it; empty for one that it does not have.
            subject: What it is asked about.
            ask: Asks it, in a thread.
            heard: What to call with the answer, and what to call without one.
        """
        key = (reference, subject)
        done, failed = heard
        if key in self._known:
            done(self._known[key])
            return
        if not reference:
            failed(LookupError("the worker does not say"))
            return

        waiting = self._waiting.setdefault(key, [])
        waiting.append(heard)
        if len(waiting) > 1:
            return  # several panels want the same list: one answer is for all of them

        def remember(answer: Answer) -> None:
            self._known[key] = answer
            for one, _ in self._waiting.pop(key):
                # Each in a turn of its own: every panel fills a list of hundreds of names, and
                # all of them together would hold up what the user does meanwhile.
                self._calls.run(lambda: answer, one)

        def give_up(error: Exception) -> None:
            for _, one in self._waiting.pop(key):
                one(error)

        self._calls.run(ask, remember, give_up)
