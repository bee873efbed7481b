"""Plays a trained policy and reports its episodes."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Protocol, TypeVar

import numpy as np
import torch

from cleanrl_worker.kit import spaces
from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.device import limit_threads
from cleanrl_worker.kit.envs import Envs, drawn
from cleanrl_worker.kit.errors import CheckpointError, UsageError
from cleanrl_worker.kit.inference import Policy
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.types import Batch, Environments, StateDict
from cleanrl_worker.running import checked_files, checkpoint_files, checkpoints
from cleanrl_worker.running.recording import EpisodeRecorder
from cleanrl_worker.running.schema import script_names

_MOST_ENVS = 16
ArgsType = TypeVar("ArgsType", bound=RunArgs)


class EvaluatedArgs(Protocol):
    """What is known of the arguments of every algorithm that leaves a policy."""

    env_id: str


@dataclass(frozen=True)
class Episode:
    """One finished episode of an evaluation."""

    index: int
    episodic_return: float
    discounted_return: float
    length: int
    cut: bool
    """whether `max_steps` ended it, not the environment"""
    seed: int | None = None
    """what the environment was reset with; `None` for one that went on by itself"""


def evaluate(
    model_path: str | Path,
    env_id: str | None = None,
    *,
    episodes: int = 10,
    seed: int = 1,
    gamma: float = 0.99,
    max_steps: int | None = None,
    deterministic: bool = True,
    video_dir: Path | None = None,
    on_episode: Callable[[Episode], None] | None = None,
    algorithm: str | None = None,
    policy_seed: int | None = None,
    each_seed: bool = False,
    between_steps: Callable[[], None] | None = None,
) -> list[Episode]:
    """Play episodes with a policy file of any bundled algorithm.

    Several environments run at once, and each plays a fixed share of the episodes: taking
    the first ones to finish would favour short episodes.

    Args:
        model_path: a `.cleanrl_model` file, a checkpoints folder or a run directory.
        env_id: the environment; by default the one it was trained on.
        episodes: how many to play.
        seed: seeds the environments and the policy's own choices.
        gamma: the discount of `Episode.discounted_return`.
        max_steps: ends an episode that runs longer.
        deterministic: take the best action rather than a sample.
        video_dir: where to film each episode and write down what happens inside it, or `None`.
        on_episode: called with each episode as it ends.
        algorithm: what a plain state dict, as upstream's scripts save, was trained by.
        policy_seed: which seed plays, of a run that trained several; the best one by default.
        each_seed: begin each episode with a seed of its own, counted up from `seed`, so that
            other agents can play the same ones. They are played one after another.
        between_steps: called between two steps; may raise to end the evaluation.

    Returns:
        The episodes, in the order in which they began within each environment.

    Raises:
        CheckpointError: when the file is damaged or no policy of a bundled algorithm.
        UsageError: when the policy cannot act in the environment.
    """
    if episodes < 1:
        raise UsageError(f"An evaluation needs at least one episode, not {episodes}.")
    limit_threads(1)
    trained = open_policy(Path(model_path), env_id, algorithm, policy_seed)
    count = 1 if each_seed else min(episodes, _MOST_ENVS)
    with drawn() if video_dir is not None else contextlib.nullcontext():
        envs = trained.make_envs(count)
    recorder = None
    try:
        policy = trained.rebuild(envs)
        if video_dir is not None:
            recorder = EpisodeRecorder(envs, policy, video_dir)
        player = Player(envs, policy, gamma, max_steps, recorder, on_episode, each_seed)
        return player.play(episodes, seed, deterministic, between_steps)
    finally:
        if recorder is not None:
            recorder.close()
        envs.close()


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy file that has been read: what it was trained by and with."""

    module: ModuleType
    args: EvaluatedArgs
    model: StateDict

    def make_envs(self, num_envs: int) -> Environments:
        """The environments it acts in, prepared as its algorithm wants them."""
        make = getattr(self.module, "make_eval_envs", _gymnasium_envs)
        envs: Environments = make(self.args, num_envs, None)
        return envs

    def rebuild(self, envs: Batch) -> Policy:
        """The policy itself.

        Raises:
            UsageError: when it cannot act in these environments.
        """
        return _rebuild(self.module, envs, self.args, self.model)


def open_policy(
    path: Path,
    env_id: str | None = None,
    algorithm: str | None = None,
    seed: int | None = None,
) -> TrainedPolicy:
    """Read a policy file; a folder gives its newest valid one.

    Args:
        path: a `.cleanrl_model` file, a checkpoints folder or a run directory.
        env_id: the environment; by default the one it was trained on.
        algorithm: what a plain state dict was trained by.
        seed: which seed is wanted, of a run that trained several.

    Raises:
        CheckpointError: when the file is damaged, or says too little about itself.
        UsageError: when a seed is asked for and the policy has only one.
    """
    content = load_policy(path, env_id, algorithm)
    module = importlib.import_module(f"cleanrl_worker.cleanrl.{content['algorithm']}")
    args = _args(module.Args, content["args"])
    if not env_id and (reason := checkpoint_files.foreign_module(path, content["env_id"])):
        raise CheckpointError(f"The policy cannot be used: {reason}.")
    args.env_id = env_id or content["env_id"]
    model = content["model"]
    if seed is not None:
        if getattr(args, "num_seeds", 1) == 1:
            raise UsageError("The policy was trained with one seed: leave --policy-seed out.")
        model = {**model, "chosen": seed}
    return TrainedPolicy(module, args, model)


def load_policy(path: Path, env_id: str | None = None, algorithm: str | None = None) -> StateDict:
    """Read and check a policy file; a folder gives its newest valid one."""
    path, _ = (
        checkpoint_files.find(path, checkpoint_files.POLICY_SUFFIX) if path.is_dir() else (path, [])
    )
    if not path.is_file():
        raise CheckpointError(f"There is no policy file {path}; give a *.cleanrl_model file.")
    if checked_files.checksum_path(path).exists() and (
        problem := checked_files.checksum_problem(path)
    ):
        raise CheckpointError(f"The policy cannot be used: {problem}.")
    content = checkpoints.load_values(path)
    if not isinstance(content, dict) or "algorithm" not in content:
        content = _adopt(path, content, env_id, algorithm)
    missing = [key for key in ("algorithm", "env_id", "args", "model") if key not in content]
    if missing:
        raise CheckpointError(
            f"{path} is not a policy file of a bundled algorithm: it lacks {', '.join(missing)}. "
            "Give a *.cleanrl_model file from a run's checkpoints folder."
        )
    if content["algorithm"] not in script_names():
        raise CheckpointError(
            f"{path} belongs to {content['algorithm']!r}, which is not a bundled algorithm "
            f"(there are: {', '.join(script_names())})."
        )
    return content


class _AnyName(dict[str, StateDict]):
    """Gives a plain state dict under whatever name an algorithm keeps its network."""

    def __init__(self, networks: list[StateDict]) -> None:
        super().__init__()
        self._networks = networks

    def __missing__(self, name: str) -> StateDict:
        return self._networks[0]


def _adopt(path: Path, content: object, env_id: str | None, algorithm: str | None) -> StateDict:
    """Take what upstream's scripts save: a state dict, several of them, or one with its args."""
    args: StateDict = {}
    if isinstance(content, dict) and "model_weights" in content:
        args, content = dict(content.get("args") or {}), content["model_weights"]
    given = list(content) if isinstance(content, (list, tuple)) else [content]
    networks: list[StateDict] = [
        network
        for network in given
        if isinstance(network, dict)
        and network
        and all(isinstance(value, torch.Tensor) for value in network.values())
    ]
    if not networks or len(networks) < len(given):
        raise CheckpointError(
            f"{path} is neither a policy file nor a plain state dict of tensors. "
            "Give a *.cleanrl_model file from a run's checkpoints folder."
        )
    if not algorithm or not env_id:
        raise CheckpointError(
            f"{path} is a plain state dict, which does not say what it is: name the algorithm "
            "and the environment it was trained by (--algo NAME --env-id ID)."
        )
    about = {"algorithm": algorithm, "env_id": env_id, "args": args}
    return {**about, "model": _AnyName(networks)}


def _gymnasium_envs(args: EvaluatedArgs, num_envs: int, video_dir: str | None) -> Envs:
    return Envs(args.env_id, num_envs, video_dir=video_dir)


def _args(args_type: type[ArgsType], saved: StateDict) -> ArgsType:
    known = {field.name for field in fields(args_type)}
    return args_type(**{name: value for name, value in saved.items() if name in known})


def _rebuild(module: ModuleType, envs: Batch, args: EvaluatedArgs, model: StateDict) -> Policy:
    problem = spaces.fit_problem(
        module.__name__.rpartition(".")[2],
        module.ALGORITHM,
        args.env_id,
        envs.single_observation_space,
        envs.single_action_space,
    )
    if problem:
        raise UsageError(problem)
    try:
        policy: Policy = module.make_policy(envs, args, model)
        return policy
    except (RuntimeError, KeyError) as error:
        reason = " ".join(str(error).split())[:300]
        raise CheckpointError(
            f"The policy does not fit {args.env_id}: {reason}. Evaluate it in the environment "
            "it was trained on by leaving --env-id out."
        ) from None


class Player:
    """Steps all environments until each has played its share.

    Args:
        envs: Where it acts.
        policy: Who acts.
        gamma: The discount of `Episode.discounted_return`.
        max_steps: Ends an episode that runs longer.
        recorder: Writes down what happens inside the episodes.
        on_episode: Called with each episode as it ends.
        each_seed: Begin each episode with a seed of its own.
        record_as: The name of an episode's files, with its number in the braces.
    """

    def __init__(
        self,
        envs: Environments,
        policy: Policy,
        gamma: float = 0.99,
        max_steps: int | None = None,
        recorder: EpisodeRecorder | None = None,
        on_episode: Callable[[Episode], None] | None = None,
        each_seed: bool = False,
        record_as: str = "episode-{}",
    ) -> None:
        self._each_seed = each_seed
        self._record_as = record_as
        self._envs = envs
        self._policy = policy
        self._gamma = gamma
        self._max_steps = max_steps
        self._recorder = recorder
        self._on_episode = on_episode
        self._done: list[Episode] = []

    def play(
        self,
        episodes: int,
        seed: int,
        deterministic: bool,
        between_steps: Callable[[], None] | None = None,
    ) -> list[Episode]:
        """Play so many episodes, spread evenly over the environments."""
        self._done = []
        rng = Random(seed)
        count = self._envs.num_envs
        left = np.full(count, episodes // count) + (np.arange(count) < episodes % count)
        totals, discounted, lengths = np.zeros(count), np.zeros(count), np.zeros(count, np.int64)
        obs = self._envs.reset(seed=seed)
        # Where an episode has a seed of its own, others can play the same one again.
        seeds = [seed + index if self._seeds_are_known else None for index in range(count)]
        self._begin(range(count))
        while (left > 0).any():
            if between_steps is not None:
                between_steps()
            actions = self._policy(obs, rng, deterministic)
            if self._recorder is not None:
                self._recorder.chosen(actions)
            obs, rewards, terminated, truncated, _ = self._envs.step(actions)
            totals += rewards
            discounted += self._gamma**lengths * rewards
            lengths += 1
            ended = terminated | truncated
            cut = np.zeros_like(ended)
            if self._max_steps is not None:
                cut = ~ended & (lengths >= self._max_steps)
                for index in np.flatnonzero(cut):
                    obs = self._envs.restart(int(index))
            over = ended | cut
            if self._recorder is not None:
                self._recorder.happened(rewards, over)
            for index in np.flatnonzero(over & (left > 0)):
                episode = Episode(
                    len(self._done),
                    float(totals[index]),
                    float(discounted[index]),
                    int(lengths[index]),
                    bool(cut[index]),
                    seeds[index],
                )
                self._done.append(episode)
                if self._on_episode is not None:
                    self._on_episode(episode)
                self._record(int(index), episode, deterministic)
                left[index] -= 1
                seeds[index] = None
            if self._each_seed and over.any():
                # Again: by itself the environment began with the random numbers that were left.
                seeds[0] = following = seed + len(self._done)
                obs = self._envs.reset(seed=following)
            self._begin(np.flatnonzero(over & (left > 0)))
            totals[over] = discounted[over] = lengths[over] = 0
            if hasattr(self._policy, "reset"):
                # In training an episode, and the memory with it, ends with every life.
                forgets = over | getattr(self._envs, "new_life", False)
                if forgets.any():
                    self._policy.reset(forgets)
        return self._done

    @property
    def _seeds_are_known(self) -> bool:
        """Whether environment `i` was reset with `seed + i`; others seed in a way of their own."""
        return self._envs.num_envs == 1 or hasattr(self._envs, "watch")

    def _begin(self, places: Iterable[int]) -> None:
        if self._recorder is not None:
            for index in places:
                self._recorder.begin(int(index))

    def _record(self, place: int, episode: Episode, deterministic: bool) -> None:
        if self._recorder is not None:
            about = {
                "episode": episode.index,
                "seed": episode.seed,
                "return": episode.episodic_return,
                "length": episode.length,
                "cut": episode.cut,
                "deterministic": deterministic,
            }
            self._recorder.ended(place, self._record_as.format(episode.index), about)
