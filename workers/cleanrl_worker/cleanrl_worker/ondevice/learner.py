"""Runs a compiled training loop in chunks; the end of each chunk is a safe point.

An algorithm gives two pure functions, `init(key)` and `iterate(args, state)`. A chunk is one
compiled call that iterates so many times. Everything that a run promises happens between two
chunks, in `Run.steps`: commands, pauses, checkpoints, stopping. The whole of what changes is one
pytree, so resuming is loading it.

Several members (seeds, settings, or both) are the same program over states with one more axis in
front. On a CPU it runs one member after the other, so each computes what it would alone, to the
last bit. On a GPU all run side by side, where matrix products of a batch may sum in another order
than those of one member. Several devices share the members out, see `devices`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from cleanrl_worker.kit.args import DeviceArgs
from cleanrl_worker.kit.jax_backend import Tree, jax, jnp, start
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.types import Array, EndedEpisode, StateDict, Stateful
from cleanrl_worker.ondevice.batch import DeviceEnvs, Ended, Games
from cleanrl_worker.ondevice.devices import Spread
from cleanrl_worker.ondevice.environment import Traced
from cleanrl_worker.ondevice.frames import frame_tap
from cleanrl_worker.ondevice.inputs import as_numbers, seen_inside, traced_numbers
from cleanrl_worker.ondevice.members import members_of, refuse_what_does_not_fit
from cleanrl_worker.ondevice.pace import MOST_UPDATES, Pace
from cleanrl_worker.ondevice.programs import Compiled, Lowered, found_or_made
from cleanrl_worker.running.logger import MAY_BE_UNDEFINED
from mosaic.curves.pace import next_mark

Row = Mapping[str, Traced]
"""What one iteration logs, numbers under CleanRL's tags."""


class LearnerState(Protocol):
    """What is known of an algorithm's state, which is a NamedTuple."""

    @property
    def params(self) -> object: ...

    @property
    def games(self) -> Games: ...

    def _replace(self, **changes: object) -> Self: ...


ArgsType = TypeVar("ArgsType", bound=DeviceArgs)
StateType = TypeVar("StateType", bound=LearnerState)
Part = TypeVar("Part")
# Traced values that stand for arguments, which their class calls floats.
Numbers: TypeAlias = dict[str, Any]
# The state after so many updates, the numbers of each, and the episodes that ended.
Measured: TypeAlias = tuple[StateType, dict[str, Traced], Ended]
CompiledChunk: TypeAlias = Callable[..., Measured[StateType]]


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
            both functions as traced values, so that one compiled program serves every learning
            rate, and one call of it several.
        run: The run.
        envs: The environments, as far as spaces and pictures go.
        init: From the arguments and a random key to the first state, a NamedTuple with `params`
            (what acts) and `games` (where the environments are).
        iterate: From the arguments and a state to the next one, the numbers to log, and the
            episodes that ended.
        stride: The environment steps of one iteration.

    Raises:
        UsageError: So many members do not fit the device's memory, or settings cannot be swept.
    """

    def __init__(
        self,
        args: ArgsType,
        run: Run,
        envs: DeviceEnvs,
        init: Callable[[ArgsType, Traced], StateType],
        iterate: Callable[[ArgsType, StateType], tuple[StateType, Row, Ended]],
        stride: int,
    ) -> None:
        self._args, self._run, self._envs, self._stride = args, run, envs, stride
        self._init, self._iterate = init, iterate
        self._members = members_of(args)
        self._several = len(self._members) > 1
        self._pending: _Chunk | None = None
        start(args, len(self._members))
        self._numbers = traced_numbers(args)
        self._spread = Spread(len(self._members))
        self._own = self._own_numbers()
        with run.doing("compiling"):
            programs = found_or_made(args, self._members, self._spread, self._lowered)
            # Before it takes memory: so far there are only programs.
            refuse_what_does_not_fit(args, programs.needed)
            self._chunk: CompiledChunk[StateType] = programs.chunk
            self.state: StateType = self._begun(programs.begin)

    def train(self) -> None:
        """Train to the end of the schedule, or until the run is told to stop."""
        run, stride = self._run, self._stride
        policy: dict[str, Stateful] = {"agent": _Policy(self)}
        if self._several:
            run.count_by_member(self._members)
            policy["returns"] = _Returns(run)
        run.remember(policy, state=_Rest(self))
        learns_from = vars(self._args).get("learning_starts", 0)
        pace = Pace(cpu=jax.default_backend() == "cpu", changes_at=learns_from)
        tap = frame_tap(self._envs, self._shown)
        began = time.monotonic()
        for step in run.steps(stride):
            updates = min(pace.updates(step, stride), run.turns_until_due(stride))
            self.state, rows, ended = self.call(updates)
            run.took_more(stride * (updates - 1))
            # The numbers of the chunk before: fetching those of this one would wait for it, and
            # the device would then wait for the host.
            self.settle()
            self._pending = _Chunk(step, updates, rows, ended)
            pace.took(updates, time.monotonic() - began)
            if tap is not None:
                tap.step()
            began = time.monotonic()

    def call(self, updates: int) -> Measured[StateType]:
        """One chunk of so many updates: the next state and what was measured, not waited for."""
        return self._chunk(self.state, self._own, self._numbers, np.int32(updates))

    def place(self, part: Part) -> Part:
        """A part of the state, read from a checkpoint, on the devices that compute with it."""
        return self._spread.placed(part)

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
                # Of several members the mean; only their returns have curves of their own.
                now = {tag: row[..., index] for tag, row in rows.items()}
                kept = self._still_training(step, now) if self._args.vmap_sweep else ...
                self._run.log(step, {tag: row[kept].mean() for tag, row in now.items()})

    def _log_episodes(self, step: int, ended: dict[str, Array]) -> None:
        if not self._several:
            episodes, older = _newest(ended)
            if episodes:
                self._run.log_episodes(step, {"episodes": episodes}, older)
            return
        given_up = self._run.given_up
        by_member = {
            member: _newest({name: values[index] for name, values in ended.items()})
            for index, member in enumerate(self._members)
            if ended["count"][index] and member not in given_up
        }
        self._run.log_members(step, by_member)

    def _still_training(self, step: int, row: dict[str, Array]) -> Array:
        """Which settings of a sweep still have finite numbers; gives up those that have not.

        One bad learning rate must not end the trials of the others. Where none is left, all are
        returned, and the run ends as any run does that diverges.
        """
        finite = np.ones(len(self._members), bool)
        for tag, values in row.items():
            if tag == MAY_BE_UNDEFINED:
                continue
            finite &= np.isfinite(values)
            for index in np.flatnonzero(~np.isfinite(values)):
                member = self._members[index]
                if member not in self._run.given_up:
                    self._run.give_up(step, member, f"{tag} became {values[index]}")
        return finite if finite.any() else np.ones_like(finite)

    def _shown(self) -> Games:
        """The environments of the first member."""
        games = self.state.games
        return jax.tree.map(lambda part: part[0], games) if self._several else games

    def _own_numbers(self) -> dict[str, Traced]:
        """The numbers that differ between members, each with an axis of members in front."""
        points = [member.point for member in self._members]
        own: Numbers = {
            name: np.array([point[name] for point in points], np.float32) for name in points[0]
        }
        return self._spread.placed(own)

    def _begun(self, begin: Compiled) -> StateType:
        states: list[StateType] = [
            begin({**self._numbers, **as_numbers(member.point)}, _seed(member.seed))
            for member in self._members
        ]
        # One after the other, not vectorised: each begins exactly as it would alone.
        if not self._several:
            return states[0]
        # On a CPU by NumPy: JAX would make a small program for every shape, in each run again.
        stack = np.stack if jax.default_backend() == "cpu" else jnp.stack
        begun: StateType = self.place(jax.tree.map(lambda *parts: stack(parts), *states))
        return begun

    def _lowered(self) -> Lowered:
        """Trace and lower what this run calls."""
        inside = seen_inside(self._args)

        # Compiled functions from here on, so that what asks for shapes first is traced only once.
        @jax.jit
        def begin(numbers: Numbers, seed: Traced) -> StateType:
            return self._init(replace(inside, **numbers), jax.random.PRNGKey(seed))

        @partial(jax.jit, inline=True)
        def iterate(numbers: Numbers, state: StateType) -> tuple[StateType, Row, Ended]:
            return self._iterate(replace(inside, **numbers), state)

        def chunk(
            numbers: dict[str, Traced], updates: Traced, state: StateType
        ) -> tuple[object, ...]:
            def turn(index: Traced, carry: tuple[StateType, object]) -> tuple[StateType, object]:
                state, measured = carry
                state, *row = iterate(numbers, state)
                return state, jax.tree.map(lambda all, one: all.at[index].set(one), measured, row)

            shapes = jax.eval_shape(iterate, numbers, state)[1:]
            room = list(jax.tree.map(_room, shapes))
            # A loop with a traced end: one program for chunks of every length.
            state, measured = jax.lax.fori_loop(0, updates, turn, (state, room))
            return state, *measured

        def all_members(
            state: StateType, own: dict[str, Traced], numbers: dict[str, Traced], updates: Traced
        ) -> tuple[object, ...]:
            def one(mine: tuple[StateType, dict[str, Traced]]) -> tuple[object, ...]:
                return chunk({**numbers, **mine[1]}, updates, mine[0])

            if not self._several:
                # A sweep of one combination has arrays of one number.
                return one((state, jax.tree.map(lambda part: part[0], own)))
            in_turn = jax.default_backend() == "cpu"
            several = (state, own)
            results: tuple[object, ...] = (
                jax.lax.map(one, several) if in_turn else jax.vmap(one)(several)
            )
            return results

        first = jax.eval_shape(begin, self._numbers, _seed(0))
        program = jax.jit(self._spread.over(all_members), donate_argnums=0)
        states = self._of_all(first) if self._several else first
        return Lowered(
            begin.lower(self._numbers, _seed(0)),
            program.lower(states, self._own, self._numbers, np.int32(1)),
        )

    def _of_all(self, one: StateType) -> StateType:
        """The shapes of all members' states, from those of one."""
        count = len(self._members)
        several: StateType = jax.tree.map(
            lambda p: self._spread.shape((count, *p.shape), p.dtype), one
        )
        return several


class _Policy(Generic[ArgsType, StateType]):
    """What acts, for the policy file and the checkpoint."""

    def __init__(self, learner: Learner[ArgsType, StateType]) -> None:
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
        params = self._learner.place(tree.value)
        self._learner.state = self._learner.state._replace(params=params)


class _Returns:
    """What each member has reached, so that evaluation can take the best one."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def state_dict(self) -> StateDict:
        """The return of each member, by its name."""
        return {member.key: value for member, value in self._run.member_returns().items()}

    def load_state_dict(self, state: StateDict) -> None:
        """Nothing: the newest episodes, which a checkpoint also holds, say it again."""


class _Rest(Generic[ArgsType, StateType]):
    """Everything else that changes: optimiser, environments, random key, replay memory."""

    def __init__(self, learner: Learner[ArgsType, StateType]) -> None:
        self._learner = learner

    def state_dict(self) -> StateDict:
        """The state without the parameters."""
        return Tree(self._learner.state._replace(params=None)).state_dict()

    def load_state_dict(self, state: StateDict) -> None:
        """Put the saved state in the place of the present one; the parameters stay."""
        tree = Tree(self._learner.state._replace(params=None))
        tree.load_state_dict(state)
        rest = self._learner.place(tree.value)
        self._learner.state = rest._replace(params=self._learner.state.params)


def _newest(ended: dict[str, Array]) -> tuple[list[EndedEpisode], int]:
    """Of one member and iteration, the newest episodes and how many ended before them."""
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


def _seed(seed: int) -> np.int32:
    """A seed as JAX takes it, cut to 32 bits."""
    return np.int64(seed).astype(np.int32)
