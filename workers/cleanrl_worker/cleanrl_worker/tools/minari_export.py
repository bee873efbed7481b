"""Writes episodes as Minari data sets: recorded ones, or those that a policy plays now."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import numpy as np
from gymnasium import spaces

from cleanrl_worker.kit.envs import make_env
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.types import Array, Env, Environments, Space
from mosaic.config.json_types import JsonValue

if TYPE_CHECKING:
    from minari.data_collector import EpisodeBuffer

    from cleanrl_worker.kit.inference import Policy

_ID = re.compile(r"(?:[\w.-]+/)*[\w-]+-v\d+")


class Episode(TypedDict):
    """One episode, with one observation more than actions."""

    observations: list[object]
    actions: list[object]
    rewards: list[float]
    terminated: list[bool]
    truncated: list[bool]
    seed: NotRequired[int | None]
    person: NotRequired[list[bool]]


def write_recorded(
    source: Path, env_id: str, dataset_id: str, about: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Write episodes that a run has recorded.

    Args:
        source: One JSON object a line: `observations` (one more than actions), `actions`,
            `rewards`, `terminated`, `truncated` and `seed` of an episode, and where it is known
            `person`: for each step whether a person took it.
        env_id: The environment, whose spaces give the values their types.
        dataset_id: Minari's name for the data set.
        about: `algorithm`, `run_id` and the like, for the data set's metadata.

    Raises:
        UsageError: The name is no Minari id, is taken, or the episodes do not fit.
    """
    env = make_env(env_id)
    try:
        lines = source.read_text(encoding="utf-8").splitlines()
        episodes = [_typed(json.loads(line), env) for line in lines]
        return _write(dataset_id, episodes, env, env.observation_space, env.action_space, about)
    finally:
        env.close()


def write_played(
    policy: Path, count: int, seed: int, dataset_id: str, about: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Let a trained policy play and write its episodes; they are those of an evaluation.

    Raises:
        UsageError: The name is no Minari id, is taken, or the policy cannot play.
    """
    # Here: a game that was recorded needs no torch.
    from cleanrl_worker.kit.device import limit_threads
    from cleanrl_worker.running.evaluation import open_policy

    limit_threads(1)
    trained = open_policy(policy)
    envs = trained.make_envs(1)
    try:
        episodes = list(_played(envs, trained.rebuild(envs), count, seed))
        env = make_env(trained.args.env_id)
        try:
            return _write(
                dataset_id,
                episodes,
                env,
                envs.single_observation_space,
                envs.single_action_space,
                about,
            )
        finally:
            env.close()
    finally:
        envs.close()


def _played(envs: Environments, policy: Policy, count: int, seed: int) -> Iterator[Episode]:
    rng = Random(seed)
    for number in range(count):
        obs = envs.reset(seed=seed + number)
        if hasattr(policy, "reset"):
            policy.reset(np.ones(1, np.bool_))
        episode: Episode = {
            "observations": [obs[0].copy()],
            "actions": [],
            "rewards": [],
            "terminated": [],
            "truncated": [],
            "seed": seed + number,
        }
        over = False
        while not over:
            action = policy(obs, rng, True)
            obs, rewards, terminated, truncated, info = envs.step(action)
            over = bool(terminated[0] or truncated[0])
            # After the end `obs` already belongs to the next episode.
            last = info["final_obs"][0] if over else obs[0]
            episode["observations"].append(np.array(last))
            episode["actions"].append(np.array(action[0]))
            episode["rewards"].append(float(rewards[0]))
            episode["terminated"].append(bool(terminated[0]))
            episode["truncated"].append(bool(truncated[0]))
        yield episode


def _typed(episode: Episode, env: Env) -> Episode:
    """An episode that came as JSON, with the types of its environment's spaces."""
    return {
        **episode,
        "observations": [_value(env.observation_space, item) for item in episode["observations"]],
        "actions": [_value(env.action_space, item) for item in episode["actions"]],
    }


def _value(space: Space, given: Any) -> object:
    try:
        if isinstance(space, spaces.Dict):
            return {key: _value(part, given[key]) for key, part in space.spaces.items()}
        if isinstance(space, spaces.Tuple):
            return tuple(_value(*pair) for pair in zip(space.spaces, given, strict=True))
        if isinstance(space, spaces.Text):
            return str(given)
        return np.asarray(given, dtype=space.dtype).reshape(space.shape)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"A recorded value does not fit {space}: {error}.") from None


def _write(
    dataset_id: str,
    episodes: list[Episode],
    env: Env,
    observation_space: Space,
    action_space: Space,
    about: Mapping[str, JsonValue],
) -> dict[str, JsonValue]:
    minari = _minari()
    if not _ID.fullmatch(dataset_id):
        raise UsageError(
            f"{dataset_id!r} is no name for a data set: it ends with a version, such as "
            "cartpole/me-v0."
        )
    if dataset_id in minari.list_local_datasets():
        raise UsageError(
            f"There is a data set {dataset_id} already; choose the next version, or remove it "
            f"with: minari delete {dataset_id}"
        )
    if not episodes:
        raise UsageError("There are no finished episodes to write.")
    buffers = [_buffer(minari, number, episode) for number, episode in enumerate(episodes)]
    with warnings.catch_warnings():
        # Minari asks for an address to write to; a person's game has none unless they give one.
        warnings.simplefilter("ignore", UserWarning)
        data = minari.create_dataset_from_buffers(
            dataset_id,
            buffers,
            env=env,
            observation_space=observation_space,
            action_space=action_space,
            algorithm_name=str(about.get("algorithm") or "") or None,
            description=f"Recorded with MOSAIC, run {about.get('run_id')}",
        )
    return {
        "id": dataset_id,
        "episodes": int(data.total_episodes),
        "steps": int(data.total_steps),
        "path": str(Path(str(data.storage.data_path)).parent),
        "mean_return": float(np.mean([sum(episode["rewards"]) for episode in episodes])),
    }


def _buffer(minari: ModuleType, number: int, episode: Episode) -> EpisodeBuffer:
    truncated = list(episode["truncated"])
    # A game that was left in the middle is one that was cut off there.
    if not episode["terminated"][-1]:
        truncated[-1] = True
    buffer: EpisodeBuffer = minari.data_collector.EpisodeBuffer(
        id=number,
        seed=episode.get("seed"),
        observations=episode["observations"],
        actions=episode["actions"],
        rewards=episode["rewards"],
        terminations=episode["terminated"],
        truncations=truncated,
        infos=_infos(episode),
    )
    return buffer


def _infos(episode: Episode) -> dict[str, Array] | None:
    """Who acted, where Minari keeps what is said about steps.

    The first entry of an `infos` belongs to the reset, so the one of action `n` is at `n + 1`.
    """
    if "person" not in episode:
        return None
    return {"person": np.asarray([False, *episode["person"]])}


def _minari() -> ModuleType:
    try:
        import minari
        import minari.data_collector
    except ModuleNotFoundError:
        raise UsageError(
            "Data sets need the package minari; install it with: mosaic extras minari"
        ) from None
    package: ModuleType = minari
    return package
