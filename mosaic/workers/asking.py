"""Asking workers behind the fence: the daemon itself runs none of their code.

A worker is someone else's package: its import, its descriptor and its checks may hang, eat memory
or end the process. So each worker is asked in a helper process of its own, which is kept: a check
takes a millisecond there, while starting an interpreter takes hundreds. A helper that hangs or dies
is replaced, and only the submissions for that worker notice.
"""

import asyncio
import concurrent.futures
import importlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from mosaic.errors import FenceError, HookError, Problem, StorageError
from mosaic.system import fenced
from mosaic.workers import acceptance, fitting, hooks, strangers
from mosaic.workers.algorithms import UNUSABLE_WORKER
from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.facts import AlgorithmFacts

if TYPE_CHECKING:
    from mosaic.config.json_types import JsonValue
    from mosaic.config.model import TrainRunConfig

SPACES_DO_NOT_FIT = "CFG115"
# For a person and a gRPC message; a worker that says more has lost its way.
_MOST_PROBLEMS, _LONGEST_TEXT = 1000, 2000
# What a check may take beside real time. The bundled ones compute for milliseconds, but start
# programs that list environments, and those inherit the limit on memory.
_CHECK_CPU_S, _CHECK_MEMORY_MB = 10, 4096


@dataclass(frozen=True)
class Objections:
    """What a worker has against a configuration.

    Attributes:
        own: What its own check says.
        declared: What follows from its declarations; asked only if its check says nothing.
    """

    own: list[Problem]
    declared: list[Problem]


class WorkerChecks:
    """Lets each worker check the configurations that are meant for it."""

    def __init__(self, wall_s: float) -> None:
        self._limits = fenced.Limits(_CHECK_CPU_S, wall_s, _CHECK_MEMORY_MB)
        self._helpers: dict[str, _Helper] = {}

    async def objections(self, worker: WorkerCapabilities, config: "TrainRunConfig") -> Objections:
        """What a worker has against a configuration.

        Raises:
            StorageError: The machine cannot start another process now.
        """
        if not (worker.validator or worker.environments or worker.describe):
            return Objections([], list(acceptance.problems(worker, config, None)))
        question: JsonValue = {"worker": worker.to_json(), "document": config.document()}
        try:
            answer = await self._helper(worker).call(f"{__name__}:check", question)
            own, declared = cast("list[JsonValue]", answer)
            return Objections(_problems(own), _problems(declared))
        except FenceError as error:
            return Objections([_unusable(f"{worker.worker_type}: {error}")], [])
        except OSError as error:
            raise StorageError(
                f"the configuration cannot be checked now: {error.strerror}; try again"
            ) from error

    def warm_up(self, worker: WorkerCapabilities) -> None:
        """Let a worker's helper start now, so that the first submission does not wait for it."""
        if worker.validator:
            self._helper(worker).prepare(f"{__name__}:load_check", worker.validator)

    def _helper(self, worker: WorkerCapabilities) -> "_Helper":
        helper = self._helpers.get(worker.worker_type)
        if helper is None:
            helper = self._helpers[worker.worker_type] = _Helper(self._limits)
        return helper

    def forget(self) -> None:
        """Ask new processes from now on: these know the packages as they were when they started."""
        helpers, self._helpers = self._helpers, {}
        for helper in helpers.values():
            helper.retire()

    def close(self) -> None:
        """End the helpers; checks that wait for them fail."""
        for helper in self._helpers.values():
            helper.close()


class _Helper:
    """One worker's process, and the thread that waits for it."""

    def __init__(self, limits: fenced.Limits) -> None:
        self._process = fenced.Helper(limits)
        # A thread of its own: those that wait for a worker that hangs must not take the shared
        # pool's threads from all other calls.
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "worker-check")
        self._hung = -1.0
        self._why = ""

    async def call(self, reference: str, question: "JsonValue") -> "JsonValue":
        turn = self._turn(reference, question, time.monotonic())
        return await asyncio.get_running_loop().run_in_executor(self._thread, turn)

    def prepare(self, reference: str, question: "JsonValue") -> None:
        """Make a call that no one waits for; if it fails, the first real one says why."""
        self._thread.submit(self._turn(reference, question, time.monotonic()))

    def retire(self) -> None:
        """End after the calls that wait already."""
        self._thread.submit(self._process.close)
        self._thread.shutdown(wait=False)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._process.close()

    def _turn(
        self, reference: str, question: "JsonValue", asked: float
    ) -> "Callable[[], JsonValue]":
        def take_turn() -> "JsonValue":
            # Who waited behind a call that hung has waited long enough, and gets its answer.
            if asked < self._hung:
                raise FenceError(self._why, final=False)
            try:
                return self._process.call(reference, question)
            except FenceError as error:
                if not error.final:
                    self._hung, self._why = time.monotonic(), str(error)
                raise

        return take_turn


def load_check(validator: "JsonValue") -> "JsonValue":
    """Behind the fence: import what a check needs."""
    importlib.import_module("mosaic.config.model")
    strangers.load(str(validator))
    return None


def check(question: "JsonValue") -> "JsonValue":
    """Behind the fence: the two lists of `Objections`."""
    assert isinstance(question, dict)
    worker = WorkerCapabilities.from_json(str(question["worker"]))
    # Here, because the daemon imports this module too, and pydantic is a quarter of its start.
    from mosaic.config.model import TrainRunConfig

    config = TrainRunConfig.model_validate(question["document"])
    try:
        own = hooks.problems(worker, config)
    except HookError as error:
        own = [_unusable(str(error))]
    if own:
        return [_plain(own), []]
    described = _described(worker, config.worker.algo)
    declared = [
        *acceptance.problems(worker, config, described),
        *_misfits(worker, config, described),
    ]
    return [[], _plain(declared)]


def _unusable(reason: str) -> Problem:
    text = f"the worker cannot check its configuration: {reason}; run: mosaic doctor"
    return Problem("/metadata/worker/type", UNUSABLE_WORKER, text)


def _described(worker: WorkerCapabilities, algo: str) -> AlgorithmFacts | None:
    """What the algorithm declares; None where its worker does not say or cannot."""
    if not worker.describe:
        return None
    try:
        return hooks.describe(worker, algo)
    except (HookError, ValueError):
        # Its own check has passed: a description that cannot be made is no reason to refuse.
        return None


def _misfits(
    worker: WorkerCapabilities, config: "TrainRunConfig", described: AlgorithmFacts | None
) -> Iterator[Problem]:
    """Whether the environment is one that the worker says it can handle.

    An environment that it does not list may be the user's own: only making it tells.
    """
    env_id = config.worker.env_id
    if not env_id or not worker.environments:
        return
    try:
        listed = {item["id"]: item for item in hooks.environments(worker)}
    except HookError:
        # Its own check has passed: a list that cannot be made is no reason to refuse a run.
        return
    sentence = fitting.misfit(worker, listed[env_id], described) if env_id in listed else ""
    if sentence:
        yield Problem("/metadata/worker/config/env_id", SPACES_DO_NOT_FIT, sentence)


def _plain(problems: Iterable[Problem]) -> "JsonValue":
    return [
        [item.pointer, item.code, _sendable(item.message)]
        for item in list(problems)[:_MOST_PROBLEMS]
    ]


def _sendable(text: str) -> str:
    """A worker may write half a surrogate pair, which no message can carry."""
    return str(text)[:_LONGEST_TEXT].encode(errors="replace").decode()


def _problems(listed: "JsonValue") -> list[Problem]:
    return [Problem(*cast("list[str]", item)) for item in cast("list[JsonValue]", listed)]
