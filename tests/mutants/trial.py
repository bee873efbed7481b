"""Runs an algorithm's `train` for a few steps in this process, and notes everything it did.

A `Trial` offers an algorithm what `cleanrl_worker.kit.run.Run` offers, without files, signals or
a worker around it. Between two turns of the loop it copies everything the algorithm remembers, so
that a check can compute each update again, independently, and compare.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import torch

from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.kit.sampling import Random

State = dict[str, Any]


@dataclass
class Step:
    """One step of the environments, as the algorithm saw it."""

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    following: np.ndarray
    """the true next observations; where an episode ended, its last one"""


@dataclass
class Draw:
    """One batch from the replay memory, and torch's random state just after it was drawn."""

    batch: Any
    random: torch.Tensor


@dataclass(frozen=True)
class Ended:
    """Episodes that ended in one step of the environments: the step as curves count it, and their
    returns."""

    step: int
    returns: tuple[float, ...]


@dataclass
class Turn:
    """One turn of the training loop."""

    step: int
    before: State
    """copies of all remembered states, by name"""
    after: State = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    logged: dict[str, float] = field(default_factory=dict)
    orders: list[np.ndarray] = field(default_factory=list)
    """the permutations that were drawn, such as those of an epoch's rows"""
    noise: list[np.ndarray] = field(default_factory=list)
    """the normal noise that a compiled program drew, in the order of its use"""
    ended: list[Ended] = field(default_factory=list)
    """the episodes that ended"""
    reported: list[Ended] = field(default_factory=list)
    """the episodes that the algorithm reported"""
    random: torch.Tensor = field(default_factory=torch.get_rng_state)
    """torch's random state at the start of the turn"""


class Trial:
    """What an algorithm sees of a run; keeps a `Turn` for every turn of its loop.

    Args:
        args: the algorithm's arguments.
        env_options: further arguments for `gymnasium.make`.
        folder: where files would go.
    """

    def __init__(self, args: Any, env_options: dict[str, Any], folder: Path | None = None) -> None:
        self.args = args
        self.rng = Random(args.seed)
        self.device = torch.device("cpu")
        self.video_dir: str | None = None
        self.resumed = False
        self.run_dir = folder
        self.name = args.exp_name
        self.step = 0
        self.turns: list[Turn] = []
        self.remembered: dict[str, Any] = {}
        self.closed = False
        self.stride = 1
        self._env_options = env_options
        self._watch_orders(self.rng)

    def make_envs(self, num_envs: int, **options: Any) -> Envs:
        """Build the environments."""
        return Envs(self.args.env_id, num_envs, **{**self._env_options, **options})

    def check_spaces(self, envs: Any) -> None:
        """Accept any environment; checks choose fitting ones."""

    def remember(self, policy: dict[str, Any], **objects: Any) -> None:
        """Take note of everything that changes, and watch the environments and memories."""
        judges = objects.pop("judges", None) or {}
        self.remembered = {**policy, **judges, **objects, "rng": self.rng}
        for item in objects.values():
            if hasattr(item, "sample"):
                self._watch_memory(item)
        if "envs" in objects:
            self._watch_envs(objects["envs"])

    def show(self, **judges: Any) -> None:
        """Nothing: what is shown is a part of an object that is noted."""

    def steps(self, stride: int) -> Iterator[int]:
        """The loop, as `Run.steps` yields it; copies all states between two turns."""
        self.stride = stride
        state = self._copies({})
        while self.step + stride <= self.args.total_timesteps:
            turn = Turn(self.step, state)
            self.turns.append(turn)
            yield self.step
            state = turn.after = self._copies(state)
            self.step += stride

    def log(self, step: int, values: dict[str, Any]) -> None:
        """Keep what was logged."""
        self.turns[-1].logged.update({name: float(value) for name, value in values.items()})

    def log_episodes(self, step: int, info: dict[str, Any], older: int = 0) -> None:
        """Keep what was reported, and the last episode's return."""
        returns = tuple(float(total) for total, _ in info["episodes"])
        if returns:
            self.turns[-1].reported.append(Ended(step, returns))
            self.turns[-1].logged["charts/episodic_return"] = returns[-1]

    def to_report(self, turn: Turn) -> list[Ended]:
        """The episodes of a turn that should be reported: all of them."""
        return turn.ended

    def _copies(self, before: State) -> State:
        return {
            name: _copy(item, before.get(name))
            for name, item in self.remembered.items()
            if name != "envs" and "memory" not in name
        }

    def _watch_orders(self, rng: Random) -> None:
        permutation = rng.permutation

        def watched(rows: int) -> np.ndarray:
            order = permutation(rows)
            self.turns[-1].orders.append(order)
            return order

        rng.permutation = watched  # type: ignore[method-assign]

    def _watch_memory(self, memory: Any) -> None:
        sample = memory.sample

        def watched(*arguments: Any) -> Any:
            batch = sample(*arguments)
            # The memory writes its next batch into the same arrays.
            kept = copy.deepcopy(batch)
            self.turns[-1].draws.append(Draw(kept, torch.get_rng_state()))
            return batch

        memory.sample = watched

    def _watch_envs(self, envs: Any) -> None:
        step, close = envs.step, envs.close

        def watched(actions: np.ndarray) -> Any:
            obs = envs.obs.copy()
            result = step(actions)
            next_obs, rewards, terminated, truncated, info = result
            following = np.array(info.get("final_obs", next_obs))
            kept = (np.array(item) for item in (actions, rewards, terminated, truncated))
            turn = self.turns[-1]
            turn.steps.append(Step(obs, *kept, following))
            if info:
                returns = tuple(float(total) for total, _ in info["episodes"])
                turn.ended.append(Ended(self._count(turn, len(rewards)), returns))
            return result

        def noted() -> None:
            self.closed = True
            close()

        envs.step, envs.close = watched, noted

    def _count(self, turn: Turn, num_envs: int) -> int:
        """The step at which curves show what a step of the environments ended.

        A loop that takes one step a turn counts it when the next one begins, a rollout at once.
        """
        return turn.step + (len(turn.steps) * num_envs if self.stride > num_envs else 0)


class GroupTrial(Trial):
    """A trial of one process that leads a group of one, as `kit.group` has it."""

    def to_report(self, turn: Turn) -> list[Ended]:
        """Processes bring what ended when they have done their share of a turn."""
        returns = sum((ended.returns for ended in turn.ended), ())
        return [Ended(turn.step + self.stride, returns)] if returns else []

    def remember(self, policy: dict[str, Any], **objects: Any) -> None:
        """Look into the process's share of the work."""
        share = objects["group"].share
        super().remember(policy, optimizer=share.optimizer, envs=share.envs)
        self._watch_orders(share.rng)


def _copy(item: Any, before: Any) -> Any:
    """A copy of the state; the one made before where nothing has changed, to save memory."""
    if hasattr(item, "value") and not isinstance(item, torch.nn.Module):
        # JAX's arrays never change, so its trees can be kept as they are.
        return item.value
    state = dict(item.state_dict())
    return before if before is not None and _same(state, before) else copy.deepcopy(state)


def _same(state: State, before: State) -> bool:
    return all(_equal(value, before[name]) for name, value in state.items())


def _equal(value: Any, before: Any) -> bool:
    if torch.is_tensor(value):
        return torch.equal(value, before)
    if isinstance(value, np.ndarray):
        return np.array_equal(value, before)
    if isinstance(value, dict):
        return _same(value, before)
    return bool(value == before)


def rehearse(
    module: ModuleType,
    *,
    env_options: dict[str, Any] | None = None,
    kind: type[Trial] = Trial,
    **arguments: Any,
) -> list[Turn]:
    """Run a module's `train` and return its turns.

    Whatever is rehearsed, environments begin with the seed of the run, all episodes are reported
    where they ended, and environments are closed at the end.

    Args:
        module: an algorithm file.
        env_options: further arguments for `gymnasium.make`.
        kind: what watches the run.
        arguments: fields of its `Args` that differ from the defaults.
    """
    arguments = {"cuda": False, "seed": 1, **arguments}
    args = module.Args(**arguments)
    torch.manual_seed(args.seed)
    # As every run does: for networks this small more threads only cost time.
    torch.set_num_threads(1)
    trial = kind(args, env_options or {})
    with _seeds_of_resets(module) as seeds:
        module.train(args, trial)
    assert seeds[:1] == [args.seed], "the environments do not begin with the seed of the run"
    assert trial.closed, "the environments are left open"
    for turn in trial.turns:
        assert turn.reported == trial.to_report(turn), "episodes are not reported where they ended"
    return trial.turns


@contextmanager
def _seeds_of_resets(module: ModuleType) -> Iterator[list[int]]:
    """The seeds with which the environments of a module are reset, as they come."""
    seeds: list[int] = []
    with ExitStack() as stack:
        for batch in {Envs, *(item for item in vars(module).values() if _is_batch(item))}:
            stack.enter_context(mock.patch.object(batch, "reset", _noted(batch.reset, seeds)))
        yield seeds


def _is_batch(item: object) -> bool:
    return isinstance(item, type) and hasattr(item, "reset") and hasattr(item, "step")


def _noted(reset: Callable[..., Any], seeds: list[int]) -> Callable[..., Any]:
    def noted(envs: Any, seed: int) -> Any:
        seeds.append(seed)
        return reset(envs, seed)

    return noted
