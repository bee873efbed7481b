"""Makes a step of many small tensor operations quicker: compiled, replayed as a CUDA graph.

A step is a function of tensors with the same shapes every time: an update of the networks
(losses, `backward`, the optimiser's step) or a forward pass. What it reads and writes besides
its arguments (parameters, gradients, moments, storage) stays where it is in memory. Numbers that
change from call to call are tensors or arguments, because a graph repeats the plain Python
numbers it was recorded with; `kit.optim.Adam` keeps its learning rate so.

Only scripts whose `Args` derive from `kit.args.TorchArgs` have the flags.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, cast

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.compiler import missing_compiler
from cleanrl_worker.kit.errors import UsageError

Result = TypeVar("Result")
Step = Callable[..., Result]


class Accelerate(Protocol):
    """Makes a step quicker; what it takes and returns stays the same."""

    def __call__(self, step: Step[Result]) -> Step[Result]: ...


# Lazy work of the libraries (workspaces, tuned kernels) is over before a graph is recorded.
_CALLS_BEFORE_RECORDING = 3


def accelerated(step: Step[Result], args: TorchArgs, device: torch.device) -> Step[Result]:
    """The step as `--compile` and `--cudagraphs` ask for it; unchanged without them.

    Every call of the result does its work exactly once, also while it compiles or records.

    Args:
        step: takes tensors; returns a tensor, a collection of tensors or `None`.
        args: the script's arguments.
        device: where the step computes.

    Raises:
        UsageError: when what a flag needs is not here.
    """
    if args.compile:
        if sentence := missing_compiler(cuda=device.type == "cuda"):
            raise UsageError(sentence)
        if device.type == "cpu":
            _compile_backward_too()
        step = torch.compile(step, dynamic=False)
    if args.cudagraphs:
        if device.type != "cuda":
            raise UsageError(
                "--cudagraphs replays work on a GPU, and this run computes on the CPU: leave "
                "--cudagraphs out, or add --cuda on a machine with a GPU."
            )
        step = _Replayed(step, device)
    return step


def accelerator(args: TorchArgs, device: torch.device) -> Accelerate:
    """A decorator that does what `accelerated` does, for a function defined inside the loop.

    An algorithm file can then write each step where the paper has it. Such a function is made
    again in every turn, but from the same code over the same variables, so the first one stands
    for all: it is compiled or recorded once.

    Args:
        args: the script's arguments.
        device: where the steps compute.
    """
    made: dict[tuple[object, ...], tuple[object, Step[object]]] = {}

    def decorate(step: Step[Result]) -> Step[Result]:
        function = getattr(step, "__wrapped__", step)
        key = (function.__code__, *map(id, function.__closure__ or ()))
        if key not in made:
            # The function is kept too: as long as it lives, no other variable has its ids.
            made[key] = (function, accelerated(step, args, device))
        # The same code, so what it returns is of the same kind.
        return cast("Step[Result]", made[key][1])

    return decorate


def _compile_backward_too() -> None:
    """Let `loss.backward()` be part of the compiled step: one call of native code, not three."""
    from torch._dynamo import config

    if hasattr(config, "trace_autograd_ops"):
        config.trace_autograd_ops = True


class _Replayed(Generic[Result]):
    """Records a step for each combination of input shapes, and replays it from then on."""

    def __init__(self, step: Step[Result], device: torch.device) -> None:
        self._step = step
        self._stream = torch.cuda.Stream(device)
        self._device = device
        self._recordings: dict[tuple[object, ...], _Recording[Result]] = {}

    def __call__(self, *inputs: Tensor) -> Result:
        shapes = tuple((tensor.shape, tensor.dtype) for tensor in inputs)
        recording = self._recordings.get(shapes)
        if recording is None:
            places = [torch.empty_like(tensor, device=self._device) for tensor in inputs]
            recording = self._recordings[shapes] = _Recording(self._step, places, self._stream)
        return recording(*inputs)


class _Recording(Generic[Result]):
    """One graph with the memory that its inputs are copied to."""

    def __init__(self, step: Step[Result], places: list[Tensor], stream: torch.cuda.Stream) -> None:
        self._step = step
        self._places = places
        self._stream = stream
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._outputs: Result | None = None

    def __call__(self, *inputs: Tensor) -> Result:
        for place, tensor in zip(self._places, inputs, strict=True):
            place.copy_(tensor, non_blocking=True)
        if self._graph is None:
            self._calls += 1
            if self._calls <= _CALLS_BEFORE_RECORDING:
                return self._run()
            self._record()
        assert self._graph is not None
        self._graph.replay()
        # The next replay writes over what this one gave.
        copied: Result = tree_map(_copy, self._outputs)
        return copied

    def _run(self) -> Result:
        """Do the work as usual, on the stream that it will be recorded from."""
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            outputs = self._step(*self._places)
        current.wait_stream(self._stream)
        return outputs

    def _record(self) -> None:
        """Recording notes the operations without doing them."""
        graph = torch.cuda.CUDAGraph()
        # Other threads, such as those that pin memory, may use the GPU meanwhile.
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            self._outputs = self._step(*self._places)
        self._graph = graph


def _copy(output: object) -> object:
    return output.clone() if isinstance(output, Tensor) else output
