"""Runs a compiled training loop in chunks; the end of each chunk is a safe point.

An algorithm gives two pure functions, `init(key)` and `iterate(args, state)`. A chunk is one
compiled call that iterates so many times. Everything that a run promises happens between two
chunks, in `Run.steps`: commands, pauses, checkpoints, stopping. The whole of what changes is one
pytree, so resuming is loading it.

Several seeds are the same program over states with one more axis in front. On a CPU it runs one
seed after the other, so each computes what it would alone, to the last bit. On a GPU all run side
by side, where matrix products of a batch may sum in another order than those of one seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from cleanrl_worker.kit.args import DeviceArgs
from cleanrl_worker.kit.jax_backend import Tree, jax, jnp, start
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.types import Array, EndedEpisode, StateDict
from cleanrl_worker.ondevice.batch import DeviceEnvs, Ended, Games
from cleanrl_worker.ondevice.environment import Traced
from cleanrl_worker.ondevice.frames import frame_tap
from cleanrl_worker.ondevice.pace import MOST_UPDATES, Pace
from cleanrl_worker.ondevice.seeds import refuse_what_does_not_fit, seeds_of
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


ArgsType = TypeVar("ArgsType", bound=DeviceArgs)
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
        args: The algorithm's arguments. Those that are floats, and `total_timesteps`, reach
            `iterate` as traced values, so that one compiled program serves every learning rate.
        run: The run.
        envs: The environments, as far as spaces and pictures go.
        init: From a random key to the first state, a NamedTuple with `params` (what acts) and
            `games` (where the environments are).
        iterate: From the arguments and a state to the next one, the numbers to log, and the
            episodes that ended.
        stride: The environment steps of one iteration.

    Raises:
        UsageError: So many seeds do not fit the device's memory.
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
        self._seeds = seeds_of(args)
        self._several = len(self._seeds) > 1
        self._pending: _Chunk | None = None
        start(args)
        self._numbers = _traced_numbers(args)
        # Compiled from shapes alone: a run that does not fit is refused before it takes memory.
        self._chunk = self._compiled(self._shapes(init))
        self.state: StateType = self._begun(jax.jit(init))

    def train(self) -> None:
        """Train to the end of the schedule, or until the run is told to stop."""
        run, stride = self._run, self._stride
        policy: dict[str, Any] = {"agent": _Policy(self)}
        if self._several:
            run.count_by_seed(self._seeds)
            policy["returns"] = _Returns(run)
        run.remember(policy, state=_Rest(self))
        pace = Pace(cpu=jax.default_backend() == "cpu")
        tap = frame_tap(self._envs, self._shown)
        began = time.monotonic()
        for step in run.steps(stride):
            updates = min(pace.updates, run.turns_left(stride))
            self.state, rows, ended = self._chunk(self.state, self._numbers, jnp.int32(updates))
            run.took_more(stride * (updates - 1))
            # The numbers of the chunk before: fetching those of this one would wait for it, and
            # the device would then wait for the host.
            self.settle()
            self._pending = _Chunk(step, updates, rows, ended)
            pace.took(updates, time.monotonic() - began)
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
            self._log_episodes(
                step, {name: values[..., index, :] for name, values in ended.items()}
            )
            # By the step, not by the chunk: the same run stores the same curve at any pace.
            if step >= next_mark(step - self._stride, self._run.total):
                # Of several seeds the mean; only their returns have curves of their own.
                self._run.log(step, {tag: row[..., index].mean() for tag, row in rows.items()})

    def _log_episodes(self, step: int, ended: dict[str, Array]) -> None:
        if not self._several:
            episodes, older = _newest(ended)
            if episodes:
                self._run.log_episodes(step, {"episodes": episodes}, older)
            return
        by_seed = {
            seed: _newest({name: values[index] for name, values in ended.items()})
            for index, seed in enumerate(self._seeds)
            if ended["count"][index]
        }
        self._run.log_seeds(step, by_seed)

    def _shown(self) -> Games:
        """The environments of the first seed."""
        games = self.state.games
        return jax.tree.map(lambda part: part[0], games) if self._several else games

    def _shapes(self, init: Callable[[Traced], StateType]) -> Any:
        one = jax.eval_shape(init, jax.random.PRNGKey(0))
        if not self._several:
            return one
        count = len(self._seeds)
        return jax.tree.map(lambda p: jax.ShapeDtypeStruct((count, *p.shape), p.dtype), one)

    def _begun(self, init: Callable[[Traced], StateType]) -> StateType:
        states = [init(jax.random.PRNGKey(seed)) for seed in self._seeds]
        # One after the other, not vectorised: each begins exactly as it would alone.
        return (
            jax.tree.map(lambda *parts: jnp.stack(parts), *states) if self._several else states[0]
        )

    def _compiled(self, state: Any) -> CompiledChunk:
        """The compiled chunk; read from the cache of the home if it was compiled before."""

        def chunk(numbers: dict[str, Traced], updates: Traced, state: Any) -> tuple[Any, ...]:
            args = replace(self._args, **numbers)

            def turn(index: Traced, carry: tuple[Any, ...]) -> tuple[Any, ...]:
                state, measured = carry
                state, *row = self._iterate(args, state)
                return state, jax.tree.map(lambda all, one: all.at[index].set(one), measured, row)

            shapes = jax.eval_shape(partial(self._iterate, args), state)[1:]
            room = list(jax.tree.map(_room, shapes))
            # A loop with a traced end: one program for chunks of every length.
            state, measured = jax.lax.fori_loop(0, updates, turn, (state, room))
            return state, *measured

        def all_seeds(state: Any, numbers: dict[str, Traced], updates: Traced) -> tuple[Any, ...]:
            one = partial(chunk, numbers, updates)
            if not self._several:
                return one(state)
            in_turn = jax.default_backend() == "cpu"
            results: tuple[Any, ...] = jax.lax.map(one, state) if in_turn else jax.vmap(one)(state)
            return results

        lowered = jax.jit(all_seeds, donate_argnums=0).lower(state, self._numbers, jnp.int32(1))
        compiled = lowered.compile()
        refuse_what_does_not_fit(self._args, _bytes_of(compiled.memory_analysis()))
        ready: CompiledChunk = compiled
        return ready


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


class _Returns:
    """What each seed has reached, so that evaluation can take the best one."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def state_dict(self) -> StateDict:
        """The return of each seed, by its number."""
        return {str(seed): value for seed, value in self._run.seed_returns().items()}

    def load_state_dict(self, state: StateDict) -> None:
        """Nothing: the newest episodes, which a checkpoint also holds, say it again."""


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


def _newest(ended: dict[str, Array]) -> tuple[list[EndedEpisode], int]:
    """Of one seed and iteration, the newest episodes and how many ended before them."""
    count = int(ended["count"].item())
    # Not more than a run's return is about; where many ended, the others are only counted.
    newest = min(count, len(ended["returns"]))
    if not newest:
        return [], 0
    returns, lengths = (ended[name][-newest:].tolist() for name in ("returns", "lengths"))
    return list(zip(returns, lengths, strict=True)), count - newest


def _room(row: jax.ShapeDtypeStruct) -> Traced:
    """Space for the rows of a whole chunk."""
    return jnp.zeros((MOST_UPDATES, *row.shape), row.dtype)


def _bytes_of(analysis: Any) -> int:
    """What a compiled program needs; the new state takes the place of the old one."""
    if analysis is None:
        return 0
    parts = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes")
    whole = sum(int(getattr(analysis, part)) for part in parts)
    return whole - int(analysis.alias_size_in_bytes)


def _traced_numbers(args: DeviceArgs) -> dict[str, Traced]:
    """What can change without another program: arguments that are floats, and how long it trains.

    The length is a float too, because 32 bits count no further than two thousand million steps.
    """
    given = {field.name: getattr(args, field.name) for field in fields(args)}
    floats = {name: value for name, value in given.items() if isinstance(value, float)}
    traced = {**floats, "total_timesteps": given["total_timesteps"]}
    return {name: jnp.float32(value) for name, value in traced.items()}
