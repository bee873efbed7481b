"""The curriculum at work: Syllabus-RL decides which environment each episode is played in.

Everything happens in the training process itself: environments ask the curriculum when an episode
begins and report when it ends. An episode that has begun is played to its end.
"""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from cleanrl_worker.kit.envs import Envs, generator_state, make_env
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.types import Array, Env, StateDict
from cleanrl_worker.tools.compare_spaces import difference
from cleanrl_worker.wrappers.curriculum import Stage

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from syllabus.core import GymnasiumEvaluationWrapper, ReinitTaskWrapper
        from syllabus.curricula import SequentialCurriculum
        from syllabus.task_space import DiscreteTaskSpace
except ModuleNotFoundError as missing:
    raise UsageError(
        f"A curriculum needs the package {missing.name}; install it with: "
        "python -m cleanrl_worker.tools.install_extras --set curriculum"
    ) from None

# Loading the library reserves shared memory for a class that is not used here.
GymnasiumEvaluationWrapper.env_count.shm.close()
GymnasiumEvaluationWrapper.env_count.shm.unlink()

OnStage = Callable[[Mapping[str, object]], None]
# Observations are of the environment's own kind.
ResetResult: TypeAlias = tuple[object, dict[str, object]]
StepOfOne: TypeAlias = tuple[object, float, bool, bool, dict[str, object]]
# Far apart, so that no two environments of a batch ever start alike.
_SEEDS_A_STAGE = 1_000_003
_EPISODES_THAT_COUNT = 20


class StageKeeper:
    """The curriculum; reports every change of stage."""

    def __init__(self, stages: Sequence[Stage], on_stage: OnStage) -> None:
        self.stages = stages
        self._on_stage = on_stage
        tasks = list(range(len(stages)))
        conditions = [self._met(stage.condition) for stage in stages[:-1]]
        self._engine = SequentialCurriculum(
            tasks, conditions, DiscreteTaskSpace(len(stages), tasks)
        )
        self._said = -1

    @property
    def stage(self) -> int:
        """The stage that new episodes belong to."""
        return int(self._engine._curriculum_index)

    def next_task(self) -> int:
        """Which environment the next episode is played in."""
        # The engine prints its counters, and this process's stdout is not its own.
        with contextlib.redirect_stdout(io.StringIO()):
            task = int(self._engine.sample(k=1)[0])
        self._tell()
        return task

    def episode(self, task: int, total: float, length: int) -> None:
        """An episode has ended; one of an earlier stage no longer counts for this one."""
        if task == self.stage:
            self._engine.update_on_episode(total, length, task, 1.0)
            self._tell()

    def _met(self, condition: str) -> Callable[[], bool]:
        """A condition as the engine asks it; any of its parts is enough."""
        parts = [part.split(">=") for part in condition.split("|")]
        return lambda: any(self._measured(name) >= float(value) for name, value in parts)

    def _measured(self, name: str) -> float:
        if name != "episode_return":
            return float(getattr(self._engine, f"n_{name}"))
        returns = list(self._engine.episode_returns)[-_EPISODES_THAT_COUNT:]
        # One lucky episode is no sign of having learned.
        return sum(returns) / len(returns) if len(returns) == _EPISODES_THAT_COUNT else -math.inf

    def _tell(self) -> None:
        if self.stage != self._said:
            self._said = self.stage
            self._on_stage(
                {
                    "stage": self.stage,
                    "stages": len(self.stages),
                    "env_id": self.stages[self.stage].env_id,
                    "episodes": self._engine.total_episodes,
                    "steps": self._engine.total_steps,
                }
            )

    def state_dict(self) -> StateDict:
        """The counters of the curriculum."""
        engine = self._engine
        return {
            "stage": self.stage,
            "counters": [getattr(engine, name) for name in _COUNTERS],
            "episode_returns": [float(value) for value in engine.episode_returns],
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Put the counters back."""
        engine = self._engine
        engine._curriculum_index = int(state["stage"])
        for name, value in zip(_COUNTERS, state["counters"], strict=True):
            setattr(engine, name, int(value))
        engine.episode_returns = deque(
            state["episode_returns"], maxlen=engine.episode_returns.maxlen
        )
        self._tell()


_COUNTERS = ("n_steps", "total_steps", "n_episodes", "total_episodes", "n_tasks", "total_tasks")


class BabyAITaskWrapper(ReinitTaskWrapper):
    """One place of the batch, whose environment changes with the curriculum's stage."""

    def __init__(self, keeper: StageKeeper, make: Callable[[int], Env]) -> None:
        first = make(0)
        super().__init__(first, make)
        self.task_envs[0] = first
        self.task = 0
        self._keeper = keeper
        self._return, self._length = 0.0, 0

    def reset(self, *, seed: int | None = None, options: object = None) -> ResetResult:
        """Begin an episode of the present task."""
        self._return, self._length = 0.0, 0
        result: ResetResult = super().reset(new_task=self.task, seed=seed)
        return result

    def step(self, action: object) -> StepOfOne:
        """Step, and report the end of an episode to the curriculum."""
        result: StepOfOne = super().step(action)
        self._return += float(result[1])
        self._length += 1
        if result[2] or result[3]:
            self._keeper.episode(self.task, self._return, self._length)
        return result

    def close(self) -> None:
        """Close the environments of all tasks."""
        for env in self.task_envs.values():
            env.close()


class CurriculumEnvs(Envs):
    """A batch of environments that a curriculum leads from stage to stage."""

    def __init__(
        self,
        stages: Sequence[Stage],
        num_envs: int,
        on_stage: OnStage,
        *,
        video_dir: str | None = None,
        **options: object,
    ) -> None:
        if sentence := difference([stage.env_id for stage in stages]):
            raise UsageError(f"The curriculum cannot be trained: {sentence}.")
        self.keeper = StageKeeper(stages, on_stage)
        self._seed = 0
        super().__init__(stages[-1].env_id, num_envs, video_dir=video_dir, **options)

    def reset(self, seed: int) -> Array:
        """Begin again in the first stage."""
        self._seed = seed
        return super().reset(seed)

    def state_dict(self) -> StateDict:
        """The environments and the curriculum's counters."""
        return {**super().state_dict(), "curriculum": self.keeper.state_dict()}

    def load_state_dict(self, state: StateDict) -> None:
        """Bring environments and counters back."""
        if "curriculum" not in state:
            raise UsageError("The checkpoint was made without a curriculum; resume without one.")
        super().load_state_dict(state)
        self.keeper.load_state_dict(state["curriculum"])

    def _make_one(self, index: int, video_dir: str | None, options: dict[str, object]) -> Env:
        stages = self.keeper.stages

        def make(task: int) -> Env:
            return make_env(stages[task].env_id, video_dir=video_dir, **options)

        place: Env = BabyAITaskWrapper(self.keeper, make)
        return place

    def _begin(self, index: int, origin: StateDict) -> None:
        # Each place of the batch is one of ours: see `_make_one`.
        env = cast(BabyAITaskWrapper, self.envs[index])
        if "task" not in origin:
            task = self.keeper.next_task()
            if task not in env.task_envs or "seed" in origin:
                origin = {"task": task, "seed": self._seed + index + task * _SEEDS_A_STAGE}
            else:
                origin = {"task": task, "rng": generator_state(env.task_envs[task])}
        env.change_task(origin["task"])
        super()._begin(index, origin)
