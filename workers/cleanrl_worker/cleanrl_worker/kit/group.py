"""Several processes that learn together, led by the first.

Each holds a share of the work. The leader sends commands over pipes, so all take the same
turns; gradients are exchanged through torch.distributed inside a turn. The leader's
`state_dict` holds every process's state, so a run of many processes resumes exactly.
"""

from __future__ import annotations

import os
import signal
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

import torch

from cleanrl_worker.kit.device import limit_threads
from cleanrl_worker.kit.errors import TrainingError, UsageError
from cleanrl_worker.kit.types import StateDict, Stateful
from cleanrl_worker.running import checkpoints
from cleanrl_worker.running.bridge import VARIABLE


def choose_devices(world_size: int, device_ids: str | None, *, cuda: bool) -> list[torch.device]:
    """The device of each process.

    Args:
        world_size: The number of processes.
        device_ids: GPU numbers separated by commas, or None for the first ones.
        cuda: Whether to use GPUs at all.

    Raises:
        UsageError: There are fewer GPUs than processes, or the ids do not fit.
    """
    if not cuda:
        return [torch.device("cpu")] * world_size
    try:
        wanted = [int(number) for number in device_ids.split(",")] if device_ids else None
    except ValueError:
        raise UsageError(
            f"--device-ids takes GPU numbers such as 0,1, not {device_ids!r}."
        ) from None
    numbers = list(range(world_size)) if wanted is None else wanted
    count = torch.cuda.device_count()
    if len(numbers) != world_size or max(numbers) >= count:
        raise UsageError(
            f"--world-size {world_size} with --device-ids {device_ids} does not fit the {count} "
            f"GPUs here: use --world-size {min(world_size, count)} or leave --cuda out."
        )
    return [torch.device("cuda", number) for number in numbers]


class GroupArgs(Protocol):
    """What is used of a script's arguments."""

    world_size: int
    torch_threads: int
    seed: int


class Share(Stateful, Protocol):
    """One process's part of the work."""

    agent: torch.nn.Module

    # What a turn takes and gives is between the algorithm file and itself.
    def turn(self, *arguments: object) -> object: ...


OneShare = TypeVar("OneShare", bound=Share)
# From the arguments, the process's number, its device, and where to film.
MakeShare = Callable[[Any, int, torch.device, str | None], OneShare]


class Group(Generic[OneShare]):
    """The leader's view of all shares; its own is `share`.

    Args:
        make: Builds a share.
        args: The script's arguments.
        devices: The device of each process.
        backend: The backend of torch.distributed.
        video_dir: Where the leader's first environment is filmed, or None.
    """

    def __init__(
        self,
        make: MakeShare[OneShare],
        args: GroupArgs,
        devices: list[torch.device],
        backend: str,
        video_dir: str | None,
    ) -> None:
        self._pipes: list[Connection] = []
        self._processes: list[SpawnProcess] = []
        self._folder = tempfile.TemporaryDirectory()
        meeting = f"file://{Path(self._folder.name) / 'meeting'}"
        if args.world_size > 1:
            # A fresh interpreter for each: a forked one cannot use the leader's CUDA.
            context = torch.multiprocessing.get_context("spawn")
            for rank in range(1, args.world_size):
                ours, theirs = context.Pipe()
                arguments = (make, args, rank, devices[rank], backend, meeting, theirs)
                process = context.Process(target=_follow, args=arguments, daemon=True)
                process.start()
                theirs.close()
                self._pipes.append(ours)
                self._processes.append(process)
            _join(backend, meeting, 0, args.world_size)
        self.share = make(args, 0, devices[0], video_dir)
        # After the leader's share is built: followers wait for these values in `_follow`.
        for parameter in self.share.agent.parameters():
            self._same_start(parameter, args.world_size)

    @staticmethod
    def _same_start(parameter: torch.nn.Parameter, world_size: int) -> None:
        if world_size > 1:
            torch.distributed.broadcast(parameter.data, src=0)

    def turn(self, *arguments: object) -> list[object]:
        """Take a turn in every process; the leader's result comes first."""
        # Everyone is told before the leader begins: a turn exchanges gradients and needs them all.
        self._tell("turn", arguments)
        results = [self.share.turn(*arguments)]
        return results + [self._answer(pipe) for pipe in self._pipes]

    def state_dict(self) -> StateDict:
        """Every process's state."""
        self._tell("state_dict", ())
        return {"shares": [self.share.state_dict(), *map(self._answer, self._pipes)]}

    def load_state_dict(self, state: StateDict) -> None:
        """Restore the state of every process."""
        if len(state["shares"]) != len(self._pipes) + 1:
            raise UsageError(
                f"The checkpoint has {len(state['shares'])} processes, this run has "
                f"{len(self._pipes) + 1}; use --world-size {len(state['shares'])}."
            )
        own, *others = state["shares"]
        self.share.load_state_dict(own)
        for pipe, saved in zip(self._pipes, others, strict=True):
            pipe.send(("load_state_dict", (saved,)))
            self._answer(pipe)

    def _tell(self, command: str, arguments: tuple[object, ...]) -> None:
        for pipe in self._pipes:
            pipe.send((command, arguments))

    def _answer(self, pipe: Connection) -> object:
        try:
            worked, answer = pipe.recv()
        except EOFError:
            worked, answer = False, "it ended without an answer"
        if not worked:
            raise TrainingError(f"A process of the group failed: {answer}")
        return answer

    def __enter__(self) -> Group[OneShare]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pipe in self._pipes:
            pipe.close()
        # A closed pipe ends a follower, unless it waits for gradients of a leader that failed.
        for process in self._processes:
            process.join(5)
            process.kill()
            process.join()
        if self._pipes:
            torch.distributed.destroy_process_group()
        self._folder.cleanup()


def _join(backend: str, meeting: str, rank: int, world_size: int) -> None:
    torch.distributed.init_process_group(
        backend, init_method=meeting, rank=rank, world_size=world_size
    )


def _follow(
    make: MakeShare[OneShare],
    args: GroupArgs,
    rank: int,
    device: torch.device,
    backend: str,
    meeting: str,
    pipe: Connection,
) -> None:
    os.environ.pop(VARIABLE, None)
    os.environ["CLEANRL_FASTLANE_MODE"] = "off"
    # The leader decides when to end: it may still want everyone's state for a checkpoint.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    limit_threads(args.torch_threads)
    torch.manual_seed(args.seed)
    _join(backend, meeting, rank, args.world_size)
    share = make(args, rank, device, None)
    for parameter in share.agent.parameters():
        torch.distributed.broadcast(parameter.data, src=0)
    while True:
        try:
            command, arguments = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            result = getattr(share, command)(*arguments)
            if command == "state_dict":
                result = checkpoints.to_plain(result)
            pipe.send((True, result))
        except Exception:
            pipe.send((False, traceback.format_exc()))
