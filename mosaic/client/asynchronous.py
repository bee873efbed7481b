"""`AsyncTrainerClient`: the same client for programs that run in an event loop.

async with AsyncTrainerClient.connect() as trainer:
    run = await trainer.train("ppo", env_id="CartPole-v1", total_timesteps=50_000)
    async for record in trainer.follow(run.run_id):
        print(record.progress.fraction)

Every method has the arguments, the answer and the errors of `TrainerClient`'s. Each call waits in a
thread of its own, so the loop is not blocked. A task that is cancelled stops waiting at once; its
thread ends with the call, at the latest when `async with` is left.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial, update_wrapper
from typing import Concatenate, ParamSpec, TypeVar

from mosaic.client.sdk import TrainerClient
from mosaic.config.paths import Home
from mosaic.connect.elsewhere import Elsewhere

P = ParamSpec("P")
R = TypeVar("R")
# A stream holds a thread while it waits; more than a program follows at once.
_THREADS = 64


class _End:
    """Follows the last item of a stream."""


def _next(items: Iterator[R]) -> R | _End:
    for item in items:
        return item
    return _End()


def _nothing() -> None:
    """What closing means for an iterator that holds nothing."""


def _awaited(
    method: Callable[Concatenate[TrainerClient, P], R],
) -> "Callable[Concatenate[AsyncTrainerClient, P], Coroutine[object, None, R]]":
    """The method, to be awaited."""

    async def call(self: "AsyncTrainerClient", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._call(partial(method, self.blocking, *args, **kwargs))

    update_wrapper(call, method)
    return call


def _streamed(
    method: Callable[Concatenate[TrainerClient, P], Iterator[R]],
) -> "Callable[Concatenate[AsyncTrainerClient, P], AsyncIterator[R]]":
    """The method, to be iterated over with `async for`."""

    async def stream(
        self: "AsyncTrainerClient", /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[R]:
        items = await self._call(lambda: iter(method(self.blocking, *args, **kwargs)))
        try:
            # A thread must not raise StopIteration: a future cannot carry it.
            while not isinstance(item := await self._call(partial(_next, items)), _End):
                yield item
        finally:
            # A stream that is left early must not stay open on the daemon's side. While a thread
            # still waits in it, only closing the client ends it.
            with suppress(ValueError):
                getattr(items, "close", _nothing)()

    update_wrapper(stream, method)
    return stream


class AsyncTrainerClient:
    """A connection to the daemon of one home, for event loops.

    Attributes:
        blocking: The client that does the work.
    """

    def __init__(self, client: TrainerClient) -> None:
        self.blocking = client
        self._threads = ThreadPoolExecutor(_THREADS, "mosaic-client")

    @classmethod
    def connect(cls, home: Home | str | None = None, start: bool = False) -> "AsyncTrainerClient":
        """Connect as `TrainerClient.connect` does; takes milliseconds unless it starts a daemon."""
        return cls(TrainerClient.connect(home, start))

    @classmethod
    def accept(cls, invitation: Elsewhere, home: Home | str | None = None) -> "AsyncTrainerClient":
        """Connect to a daemon elsewhere, as `TrainerClient.accept` does."""
        return cls(TrainerClient.accept(invitation, home))

    async def __aenter__(self) -> "AsyncTrainerClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and every call that still waits; runs and daemon continue."""
        self.blocking.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _call(self, work: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    health = _awaited(TrainerClient.health)
    resources = _awaited(TrainerClient.resources)
    workers = _awaited(TrainerClient.workers)
    shutdown = _awaited(TrainerClient.shutdown)
    validate = _awaited(TrainerClient.validate)
    submit = _awaited(TrainerClient.submit)
    train = _awaited(TrainerClient.train)
    get = _awaited(TrainerClient.get)
    list_runs = _awaited(TrainerClient.list_runs)
    wait = _awaited(TrainerClient.wait)
    wait_all = _awaited(TrainerClient.wait_all)
    pause = _awaited(TrainerClient.pause)
    resume = _awaited(TrainerClient.resume)
    cancel = _awaited(TrainerClient.cancel)
    checkpoint = _awaited(TrainerClient.checkpoint)
    update = _awaited(TrainerClient.update)
    delete = _awaited(TrainerClient.delete)
    restore = _awaited(TrainerClient.restore)
    events = _awaited(TrainerClient.events)
    fork = _awaited(TrainerClient.fork)
    play_with = _awaited(TrainerClient.play_with)
    lineage = _awaited(TrainerClient.lineage)
    kept_checkpoints = _awaited(TrainerClient.kept_checkpoints)
    config = _awaited(TrainerClient.config)
    curves = _awaited(TrainerClient.curves)
    files = _awaited(TrainerClient.files)
    read_file = _awaited(TrainerClient.read_file)
    download = _awaited(TrainerClient.download)
    export_runs = _awaited(TrainerClient.export_runs)
    import_runs = _awaited(TrainerClient.import_runs)
    follow = _streamed(TrainerClient.follow)
    as_completed = _streamed(TrainerClient.as_completed)
    watch = _streamed(TrainerClient.watch)
    logs = _streamed(TrainerClient.logs)
    metrics = _streamed(TrainerClient.metrics)
    steps = _streamed(TrainerClient.steps)
    episodes = _streamed(TrainerClient.episodes)
    frames = _streamed(TrainerClient.frames)
