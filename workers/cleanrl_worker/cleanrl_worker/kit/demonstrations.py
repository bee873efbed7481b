"""Recorded episodes of an expert, as two arrays to learn from.

They come from Minari data sets (`mosaic export RUN --minari ID` writes one). The word `example`
names ten episodes of CartPole that a rule of one line plays on the spot, to try things out.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from cleanrl_worker.kit import observations
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.types import Array, Batch, Space, StateDict

if TYPE_CHECKING:
    from minari import MinariDataset

# The values of an episode, those with several parts stored part by part.
Parts: TypeAlias = "Array | dict[str, Parts] | tuple[Parts, ...]"
EXAMPLE = "example"
_EXAMPLE_ENV, _EXAMPLE_EPISODES = "CartPole-v1", 10


@dataclass(frozen=True)
class Demonstrations:
    """What an expert did, step by step.

    A checkpoint holds only the digest: the data is the user's and may be large. Resuming with
    other data is refused, because it would not be the same training.

    Attributes:
        name: What the user calls it.
        observations: One row a step, as the algorithm sees them.
        actions: One row a step.
        digest: Of both.
    """

    name: str
    observations: Array
    actions: Array
    digest: str

    def with_observations(self, change: Callable[[Array], Array]) -> Demonstrations:
        """The same steps, seen differently."""
        return dataclasses.replace(self, observations=change(self.observations))

    def state_dict(self) -> StateDict:
        """Which data it is."""
        return {"digest": self.digest}

    def load_state_dict(self, state: StateDict) -> None:
        """Refuse to continue with other data.

        Raises:
            UsageError: It has changed.
        """
        if state["digest"] != self.digest:
            raise UsageError(
                f"The data set {self.name} has changed since the checkpoint was saved; resume "
                "with the data that the run was trained with."
            )


def read_demonstrations(name: str, env_id: str, envs: Batch) -> Demonstrations:
    """Read the steps of a data set and check that they fit the environment.

    Args:
        name: A Minari id, the folder of a data set, or `example`.
        env_id: The environment to act in, for the sentences.
        envs: The environments to act in.

    Raises:
        UsageError: There is no such data set, or it is of another kind of environment.
    """
    if name == EXAMPLE:
        if env_id != _EXAMPLE_ENV:
            raise UsageError(f"--dataset {EXAMPLE} has episodes of {_EXAMPLE_ENV}, not of {env_id}")
        pairs = list(_example_steps())
    else:
        pairs = list(_minari_steps(name, env_id, envs))
    if not pairs:
        raise UsageError(f"The data set {name} has no steps to learn from.")
    seen = np.stack([pair[0] for pair in pairs])
    done = np.stack([pair[1] for pair in pairs])
    continuous = isinstance(envs.single_action_space, spaces.Box)
    seen = seen if seen.dtype == np.uint8 else seen.astype(np.float32)
    done = done.astype(np.float32 if continuous else np.int64)
    _check_range(name, env_id, done, envs.single_action_space)
    digest = hashlib.sha256(np.ascontiguousarray(seen).tobytes())
    digest.update(np.ascontiguousarray(done).tobytes())
    return Demonstrations(name, seen, done, digest.hexdigest())


def _minari_steps(name: str, env_id: str, envs: Batch) -> Iterator[tuple[Array, Array]]:
    data = _open(name)
    space = data.observation_space
    encoded, encode = observations.encoder(space)
    for what, found, wanted in (
        ("observations", encoded.shape, envs.single_observation_space.shape),
        ("actions", data.action_space.shape, envs.single_action_space.shape),
    ):
        if found != wanted:
            raise UsageError(
                f"The data set {name} has {what} of shape {found}, {env_id} has {wanted}; it was "
                f"recorded in {_recorded_in(data)}."
            )
    for episode in data.iterate_episodes():
        for number, action in enumerate(_rows(episode.actions)):
            row = _row(episode.observations, number)
            yield (np.asarray(row if encode is None else encode(row)), np.asarray(action))


def _open(name: str) -> MinariDataset:
    try:
        import minari
    except ModuleNotFoundError:
        raise UsageError(
            "Minari's data sets need the package minari; install it with: mosaic extras minari"
        ) from None
    folder = Path(name).expanduser()
    try:
        if folder.is_dir():
            inside = folder / "data"
            return minari.MinariDataset(inside if inside.is_dir() else folder)
        return minari.load_dataset(name)
    except Exception as error:
        # Whatever is wrong with a file of someone else's, the user needs to know which file.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(
            f"There is no data set {name!r} that Minari can read ({reason}); `minari list local` "
            "names those there are, and `mosaic export RUN --minari ID` writes one."
        ) from None


def _recorded_in(data: MinariDataset) -> str:
    spec = data.env_spec
    return str(spec.id) if spec is not None else "another environment"


def _rows(actions: Parts) -> Array:
    if isinstance(actions, (dict, tuple)):
        raise UsageError("Actions that consist of several parts cannot be cloned.")
    return actions


def _row(parts: Parts, number: int) -> object:
    """One observation of an episode; those with several parts are stored part by part."""
    if isinstance(parts, dict):
        return {key: _row(part, number) for key, part in parts.items()}
    if isinstance(parts, tuple):
        return tuple(_row(part, number) for part in parts)
    return parts[number]


def _check_range(name: str, env_id: str, actions: Array, space: Space) -> None:
    if isinstance(space, spaces.Discrete) and not (0 <= actions.min() <= actions.max() < space.n):
        raise UsageError(
            f"The data set {name} has actions from {actions.min()} to {actions.max()}, {env_id} "
            f"has {space.n} of them."
        )


def _example_steps() -> Iterator[tuple[Array, Array]]:
    """CartPole by a rule: push to the side to which the pole leans and falls."""
    env = gym.make(_EXAMPLE_ENV)
    for seed in range(_EXAMPLE_EPISODES):
        obs, _ = env.reset(seed=seed)
        over = False
        while not over:
            _, _, angle, falling = obs
            action = int(angle + falling > 0)
            yield obs, np.asarray(action)
            obs, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    env.close()
