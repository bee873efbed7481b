"""An expert's recorded play, as a file that other algorithms learn from.

A recording is an `.npz` file: a zip of arrays without any code in them. These have one row
for each step, in the order in which the steps were played:

- `observations`: uint8, `(steps, 4, 84, 84)`, the stacked frames that were acted on
- `actions`: whole numbers from 0
- `rewards`: numbers; the student learns from their sign
- `dones`: bool, whether a life or the game was lost, so that nothing counts that follows
- `ends`: bool, whether the game was over, so that the next row begins another one

Beside these there are `scores` (the true score of every game that was over), `env_id`
(text) and `n_actions` (a whole number). A checksum may lie beside the file
(`<file>.sha256`); the zip has one for each array in any case.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.lib import format as npy

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.types import Array, Batch, StepInfo
from cleanrl_worker.running import checked_files

_ROWS_AT_ONCE = 256
_KINDS = {"bool": "b", "whole numbers": "iu", "numbers": "fiu", "text": "U"}


class Played(NamedTuple):
    """One step of the expert, as it is recorded."""

    obs: np.ndarray
    action: int
    reward: float
    done: bool
    scores: list[float]
    """of the game, when it was over"""


class Transition(NamedTuple):
    """One step as a replay memory takes it: a row for the one environment there is."""

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    info: StepInfo


def write_recording(
    path: Path, env_id: str, n_actions: int, steps: int, play: Iterable[Played]
) -> None:
    """Write a recording, whole or not at all, with its checksum beside it.

    Args:
        path: where it goes.
        env_id: what is played.
        n_actions: how many actions there are.
        steps: how many steps `play` has.
        play: the steps; they are written as they come.
    """

    def write(file: BinaryIO) -> None:
        rows: list[tuple[int, float, bool, list[float]]] = []
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            with archive.open("observations.npy", "w", force_zip64=True) as member:
                for obs, action, reward, done, ended in play:
                    if not rows:
                        about = {"descr": "|u1", "fortran_order": False}
                        npy.write_array_header_1_0(member, {**about, "shape": (steps, *obs.shape)})
                    member.write(np.ascontiguousarray(obs, np.uint8).tobytes())
                    rows.append((action, reward, done, ended))
            actions, rewards, dones, scores = zip(*rows, strict=True)
            arrays: dict[str, Array] = {
                "actions": np.array(actions, np.int64),
                "rewards": np.array(rewards, np.float32),
                "dones": np.array(dones, np.bool_),
                "ends": np.array([bool(games) for games in scores]),
                "scores": np.array([game for games in scores for game in games], np.float64),
                "env_id": np.array(env_id),
                "n_actions": np.array(n_actions, np.int64),
            }
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w") as member:
                    npy.write_array(member, array, allow_pickle=False)

    checked_files.write_checked(path, write)


class Recording:
    """A recording that has been opened, and whose arrays fit together.

    Args:
        path: the file.

    Raises:
        UsageError: when it is damaged, could run code, or is not of this form.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise UsageError(
                f"There is no recording {path}; make one with: python -m "
                f"cleanrl_worker.tools.record_trajectories POLICY --out {path}"
            )
        if checked_files.checksum_path(path).exists() and (
            problem := checked_files.checksum_problem(path)
        ):
            raise self._refusal(problem)
        with self._member("observations") as member:
            (self.steps, *shape), dtype = self._header("observations", member)
        self.obs_shape = tuple(shape)
        if dtype != np.uint8 or self.steps < 2:
            raise self._refusal(
                f"its observations are {self.steps} rows of {dtype}, two or more of uint8 are "
                "needed"
            )
        self.env_id = str(self._read("env_id", "text", ()))
        self.n_actions = int(self._read("n_actions", "whole numbers", ()))
        self.scores = self._read("scores", "numbers", None)
        self._actions = self._read("actions", "whole numbers", (self.steps,)).astype(np.int64)
        self._rewards = np.sign(self._read("rewards", "numbers", (self.steps,))).astype(np.float32)
        self._dones = self._read("dones", "bool", (self.steps,))
        self._ends = self._read("ends", "bool", (self.steps,))

    def check(self, env_id: str, envs: Batch) -> None:
        """Refuse a recording that a student in these environments cannot learn from.

        Raises:
            UsageError: saying what differs.
        """
        space = envs.single_action_space
        assert isinstance(space, spaces.Discrete), "checked by `Run.check_spaces`"
        shape, n_actions = envs.single_observation_space.shape, int(space.n)
        if self.env_id != env_id:
            raise UsageError(
                f"{self.path} was recorded on {self.env_id}, this run is on {env_id}; use "
                f"--env-id {self.env_id} or another recording."
            )
        if self.obs_shape != shape:
            raise self._refusal(
                f"its observations have the shape {self.obs_shape}, those of {env_id} {shape}"
            )
        if self.n_actions != n_actions:
            raise self._refusal(f"it has {self.n_actions} actions, {env_id} has {n_actions}")
        outside = self._actions[(self._actions < 0) | (self._actions >= n_actions)]
        if outside.size:
            raise self._refusal(f"it has the action {outside[0]}, allowed are 0 to {n_actions - 1}")
        if not np.isfinite(self._rewards).all():
            raise self._refusal("it has a reward that is not a number")
        if not self.scores.size or not np.isfinite(self.scores).all():
            raise self._refusal(
                "it has no whole game whose score the student could be held against; record more "
                "steps"
            )

    def __iter__(self) -> Iterator[Transition]:
        """The transitions, in order.

        The last step of a game that was cut off gives no transition of its own, because what
        it led to was not recorded; it is only where the step before it led to.
        """
        over, cut = self._ends.copy(), self._ends & ~self._dones
        over[-1] = True
        cut[-1] = not self._dones[-1]
        rows = self._rows()
        obs = next(rows)
        for index in range(self.steps):
            following = next(rows, obs)
            one = slice(index, index + 1)
            last = bool(over[index] or cut[index + 1])
            info: StepInfo = {}
            if last:
                final = obs if over[index] else following
                info = {"ended": np.ones(1, np.bool_), "final_obs": final[None]}
            if not cut[index]:
                yield Transition(
                    obs[None], self._actions[one], self._rewards[one], self._dones[one], info
                )
            obs = following

    def _rows(self) -> Iterator[np.ndarray]:
        """One observation after the other: a long recording is larger than the memory."""
        size = math.prod(self.obs_shape)
        with self._member("observations") as member:
            self._header("observations", member)
            for first in range(0, self.steps, _ROWS_AT_ONCE):
                count = min(_ROWS_AT_ONCE, self.steps - first)
                content = member.read(count * size)
                if len(content) != count * size:
                    raise self._refusal("its observations are cut short")
                yield from np.frombuffer(content, np.uint8).reshape(count, *self.obs_shape)

    def _read(self, name: str, kind: str, shape: tuple[int, ...] | None) -> np.ndarray:
        with self._member(name) as member:
            found, dtype = self._header(name, member)
            if dtype.kind not in _KINDS[kind]:
                raise self._refusal(f"its {name} are of type {dtype}, {kind} are needed")
            if found != shape and (shape is not None or len(found) != 1):
                raise self._refusal(f"its {name} have the shape {found}, {shape} is needed")
            size = math.prod(found) * dtype.itemsize
            content = member.read(size)
            if len(content) != size:
                raise self._refusal(f"its {name} are cut short")
            return np.frombuffer(content, dtype).reshape(found)

    def _header(self, name: str, member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
        try:
            version = npy.read_magic(member)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, by_column, dtype = read(member)
        except ValueError as error:
            raise self._refusal(f"its {name} are not an array ({error})") from None
        if dtype.hasobject:
            raise self._refusal(f"its {name} are pickled objects, which could run code")
        if by_column and len(shape) > 1:
            raise self._refusal(f"its {name} are stored column by column, not row by row")
        return shape, dtype

    @contextmanager
    def _member(self, name: str) -> Iterator[IO[bytes]]:
        """One array of the zip, open; what is wrong with the zip becomes a refusal."""
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(f"{name}.npy") as member:
                yield member
        except KeyError:
            raise self._refusal(f"it has no array {name!r}") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
            raise self._refusal(f"it is damaged or no .npz file ({error})") from None

    def _refusal(self, problem: str) -> UsageError:
        return UsageError(f"The recording {self.path} cannot be used: {problem}.")
