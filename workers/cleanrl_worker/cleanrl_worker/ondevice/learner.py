"""Runs a compiled training loop in chunks; the end of each chunk is a safe point.

An algorithm gives two pure functions, `init(key)` and `iterate(args, state)`. A chunk is one
compiled call that iterates so many times. Everything that a run promises happens between two
chunks, in `Run.steps`: commands, pauses, checkpoints, stopping. The whole of what changes is one
pytree, so resuming is loading it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.jax_backend import Tree, jax, jnp, start
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.types import StateDict
from cleanrl_worker.ondevice.batch import DeviceEnvs, Ended, Games
from cleanrl_worker.ondevice.environment import Traced
from cleanrl_worker.ondevice.frames import frame_tap
from cleanrl_worker.ondevice.pace import MOST_UPDATES, Pace
from mosaic.curves.pace import next_mark

Row = Mapping[str, Traced]
"""What one iteration logs, numbers under CleanRL's tags."""

CompiledChunk: TypeAlias = Callable[..., tuple[Any, ...]]


class LearnerState(Protocol):
    """What is known of an algorithm's state, which is a NamedTuple."""

    @property
    def params(self) -> Any: ...

    @property
    def games(self) -> Games: ...

    def _replace(self, **changes: Any) -> Any: ...


ArgsType = TypeVar("ArgsType", bound=RunArgs)
StateType = TypeVar("StateType", bound=LearnerState)


class _Chunk(NamedTuple):
    """What a call that may still be running will have measured."""

    step: int
    updates: int
    rows: dict[str, Traced]
    ended: Ended


class Learner(Generic[ArgsType, StateType]):
    """Trains with an algorithm's two functions.

    Args:
        args: The algorithm's arguments. Those that are floats reach `iterate` as traced values,
            so that one compiled program serves every learning rate.
        run: The run.
        envs: The environments, as far as spaces and pictures go.
        init: From a random key to the first state, a NamedTuple with `params` (what acts) and
            `games` (where the environments are).
        iterate: From the arguments and a state to the next one, the numbers to log, and the
            episodes that ended.
        stride: The environment steps of one iteration.
    """

    def __init__(
        self,
        args: ArgsType,
        run: Run,
        envs: DeviceEnvs,
        init: Callable[[Traced], StateType],
        iterate: Callable[[ArgsType, StateType], tuple[StateType, Row, Ended]],
        stride: int,
    ) -> None:
        self._args, self._run, self._envs, self._stride = args, run, envs, stride
        self._iterate = iterate
        self._pending: _Chunk | None = None
        self.state: StateType = jax.jit(init)(start(args))

    def train(self) -> None:
        """Train to the end of the schedule, or until the run is told to stop."""
        run, stride = self._run, self._stride
        run.remember({"agent": _Policy(self)}, state=_Rest(self))
        numbers = _traced_numbers(self._args)
        chunk = self._compiled(numbers)
        pace = Pace(cpu=jax.default_backend() == "cpu")
        tap = frame_tap(self._envs, lambda: self.state.games)
        began = time.monotonic()
        for step in run.steps(stride):
            updates = min(pace.updates, run.turns_left(stride))
            self.state, rows, ended = chunk(self.state, numbers, jnp.int32(updates))
            run.took_more(stride * (updates - 1))
            # The numbers of the chunk before: fetching those of this one would wait for it, and
            # the device would then wait for the host.
            self.settle()
            self._pending = _Chunk(step, updates, rows, ended)
            now = time.monotonic()
            pace.took(updates, now - began)
            if tap is not None:
                tap.step()
            began = time.monotonic()

    def settle(self) -> None:
        """Log what the last chunk measured; waits for it to end."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        rows = {tag: np.asarray(values) for tag, values in pending.rows.items()}
        ended = {name: np.asarray(values) for name, values in pending.ended.items()}
        for index in range(pending.updates):
            step = pending.step + (index + 1) * self._stride
            count = int(ended["count"][index])
            # Not more than a run's return is about; where many ended, the others are counted.
            newest = min(count, ended["returns"].shape[1])
            if count:
                columns = (ended[name][index, -newest:] for name in ("returns", "lengths"))
                episodes = list(zip(*(column.tolist() for column in columns), strict=True))
                self._run.log_episodes(step, {"episodes": episodes}, count - newest)
            # By the step, not by the chunk: the same run stores the same curve at any pace.
            if step >= next_mark(step - self._stride, self._run.total):
                self._run.log(step, {tag: values[index] for tag, values in rows.items()})

    def _compiled(self, numbers: dict[str, Traced]) -> CompiledChunk:
        """The compiled chunk; read from the cache of the home if it was compiled before."""

        def chunk(state: StateType, numbers: dict[str, Traced], updates: Traced) -> tuple[Any, ...]:
            args = replace(self._args, **numbers)

            def turn(index: Traced, carry: tuple[Any, ...]) -> tuple[Any, ...]:
                state, measured = carry
                state, *row = self._iterate(args, state)
                return state, jax.tree.map(lambda all, one: all.at[index].set(one), measured, row)

            shapes = jax.eval_shape(partial(self._iterate, args), state)[1:]
            empty = jax.tree.map(
                lambda row: jnp.zeros((MOST_UPDATES, *row.shape), row.dtype), shapes
            )
            # A loop with a traced end: one program for chunks of every length.
            state, measured = jax.lax.fori_loop(0, updates, turn, (state, list(empty)))
            return state, *measured

        compiled: CompiledChunk = (
            jax.jit(chunk, donate_argnums=0).lower(self.state, numbers, jnp.int32(1)).compile()
        )
        return compiled


class _Policy:
    """What acts, for the policy file and the checkpoint."""

    def __init__(self, learner: Learner[Any, Any]) -> None:
        self._learner = learner

    def state_dict(self) -> StateDict:
        """The parameters; first everything measured until now is logged."""
        # A checkpoint promises that nothing before it is lost, curves included.
        self._learner.settle()
        return Tree(self._learner.state.params).state_dict()

    def load_state_dict(self, state: StateDict) -> None:
        """Put saved parameters in the place of the present ones."""
        tree = Tree(self._learner.state.params)
        tree.load_state_dict(state)
        self._learner.state = self._learner.state._replace(params=tree.value)


class _Rest:
    """Everything else that changes: optimiser, environments, random key, replay memory."""

    def __init__(self, learner: Learner[Any, Any]) -> None:
        self._learner = learner

    def state_dict(self) -> StateDict:
        """The state without the parameters."""
        return Tree(self._learner.state._replace(params=None)).state_dict()

    def load_state_dict(self, state: StateDict) -> None:
        """Put the saved state in the place of the present one; the parameters stay."""
        tree = Tree(self._learner.state._replace(params=None))
        tree.load_state_dict(state)
        self._learner.state = tree.value._replace(params=self._learner.state.params)


def _room(row: jax.ShapeDtypeStruct) -> Traced:
    """Space for the rows of a whole chunk."""
    return jnp.zeros((MOST_UPDATES, *row.shape), row.dtype)


def _traced_numbers(args: RunArgs) -> dict[str, Traced]:
    """The arguments that are floats: all that can change without another program."""
    return {
        field.name: jnp.float32(value)
        for field in fields(args)
        if isinstance(value := getattr(args, field.name), float)
    }
