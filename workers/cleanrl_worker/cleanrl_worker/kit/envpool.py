"""Environments of EnvPool in a batch, resetting in the step in which an episode ends.

EnvPool itself resets an environment in the step after its episode ended. `EnvPoolEnvs` takes
that extra step at once, for the ended environments alone, and so behaves like `kit.envs`:
`info["final_obs"]` holds the true last observations, and no step is wasted.

Atari games run as in Mnih et al. (2015): four stacked 84 x 84 grey frames, each action held
for four, up to 30 idle steps and FIRE at the start. For learning, the loss of a life ends an
episode (`terminated`) although the game continues, with FIRE pressed for the next life, and
rewards are clipped to their sign; `info["episodes"]` tells of whole games with their true
score. Ids of all generations work: `Breakout-v5`, `BreakoutNoFrameskip-v4` and
`ALE/Breakout-v5` (there an action sticks with probability 0.25).

Procgen levels run through EnvPool too: `StarpilotEasy-v0`, or just `starpilot`.

EnvPool can neither save nor seed a running environment. As long as few steps were taken, all
of them are repeated when a run resumes, and it continues exactly. After that new episodes
begin, and `notes` says so.
"""

from __future__ import annotations

import os
import re
from collections import deque
from types import ModuleType
from typing import Any

import numpy as np

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.types import EndedEpisode, StateDict, StepInfo, StepResult
from cleanrl_worker.running.live_frames import frame_tap
from cleanrl_worker.running.videos import Film
from mosaic.config.suggest import nearest

# CleanRL's averages of EnvPool's games are over so many.
_RECENT = 20
# Repeating this many steps takes about half a minute for Atari games.
REPEAT_AT_MOST = 50_000

_OLD_ATARI_ID = re.compile(r"(?P<ale>ALE/)?(?P<game>[A-Za-z]+?)(?P<plain>NoFrameskip)?-v\d+")
_PROCGEN_NAME = re.compile(r"(?:procgen[-:])?(?P<game>[a-z]+)(?:-v0)?")


def pool_id(env_id: str, distribution_mode: str = "easy") -> tuple[str, float]:
    """EnvPool's name for an environment, and how often its actions stick.

    Args:
        env_id: EnvPool's own id, an Atari id of Gymnasium, or the name of a Procgen game.
        distribution_mode: the difficulty of a Procgen game given by name alone.

    Raises:
        UsageError: when EnvPool is missing or has no such environment, with the nearest one.
    """
    known = _envpool().list_all_envs()
    if env_id in known:
        return env_id, 0.0
    if match := _PROCGEN_NAME.fullmatch(env_id):
        name = f"{match.group('game').capitalize()}{distribution_mode.capitalize()}-v0"
        if name in known:
            return name, 0.0
    if (match := _OLD_ATARI_ID.fullmatch(env_id)) and f"{match.group('game')}-v5" in known:
        return f"{match.group('game')}-v5", 0.25 if match.group("ale") else 0.0
    close = nearest(env_id, known)
    hint = f" Did you mean {close}?" if close else ""
    raise UsageError(
        f"EnvPool has no environment {env_id!r}: use an id such as Breakout-v5 or "
        f"StarpilotEasy-v0.{hint}"
    )


def _envpool() -> ModuleType:
    try:
        import envpool
    except ModuleNotFoundError as error:
        raise UsageError(
            f"This algorithm needs the package {error.name}; install it with: "
            "python -m cleanrl_worker.tools.install_extras --set envpool"
        ) from None
    return envpool


class EnvPoolEnvs:
    """A batch of one of EnvPool's environments.

    Args:
        env_id: which environment.
        num_envs: how many.
        learning: for Atari, end episodes with lives and clip rewards. Off for evaluation,
            which plays whole games for their score.
        video_dir: where to film the first environment, or `None`.
        distribution_mode: the difficulty of a Procgen game given by name alone.
        options: passed on to EnvPool, such as `num_levels` for Procgen.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        *,
        learning: bool = True,
        video_dir: str | None = None,
        distribution_mode: str = "easy",
        **options: object,
    ) -> None:
        self.env_id = env_id
        self.num_envs = num_envs
        self._learning = learning
        self._name, sticky = pool_id(env_id, distribution_mode)
        self._options = {"num_threads": min(num_envs, len(os.sched_getaffinity(0))), **options}
        spec = _envpool().make_spec(self._name, num_envs=num_envs, **self._options)
        self._atari = "repeat_action_probability" in spec.config._fields
        if self._atari:
            self._options.setdefault("repeat_action_probability", sticky)
            self._options.update(episodic_life=True, reward_clip=learning)
        self.single_observation_space = spec.gymnasium_observation_space
        self.single_action_space = spec.gymnasium_action_space
        self.obs = np.zeros(
            (num_envs, *self.single_observation_space.shape), self.single_observation_space.dtype
        )
        self.notes: list[str] = []
        self.pool: Any = None
        self._film = None if video_dir is None else Film(video_dir)
        self._tap = frame_tap(self, num_envs)
        self._seed = 0
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, np.int64)
        self._history: list[np.ndarray] | None = []
        self._recent: deque[EndedEpisode] = deque(maxlen=_RECENT)
        # Where the last step ended a life or a game; a recurrent policy forgets there.
        self.new_life = np.zeros(num_envs, np.bool_)

    def reset(self, seed: int) -> np.ndarray:
        """Start new episodes: environment `i` is seeded with `seed + i`."""
        self._seed = seed
        self.pool = _envpool().make(
            self._name, env_type="gymnasium", num_envs=self.num_envs, seed=seed, **self._options
        )
        self.obs, _ = self.pool.reset()
        self._returns[:] = 0.0
        self._lengths[:] = 0
        self._history = []
        return self.obs

    def step(self, actions: np.ndarray) -> StepResult:
        """Step every environment; see the module for what ends an episode."""
        obs, rewards, terminated, truncated, about = self.pool.step(actions)
        self._note(actions)
        self._returns += about["reward"] if self._atari else rewards
        self._lengths += 1
        self.new_life = ended = terminated | truncated
        over = (about["terminated"] > 0) | truncated if self._atari else ended
        self.obs = obs
        if self._film is not None:
            self._film.frame(self.render()[0])
        if self._tap is not None:
            self._tap.step(rewards)
        info: StepInfo = {}
        if ended.any():
            info = {"final_obs": obs, "episodes": self._finish(over), "ended": over}
            which = np.flatnonzero(ended).astype(np.int32)
            following, *_ = self.pool.step(np.zeros(len(which), actions.dtype), which)
            self.obs = obs.copy()
            self.obs[which] = following
            if not self._learning:
                terminated = over & ~truncated
        return self.obs, rewards.astype(np.float32), terminated, truncated, info

    @property
    def averages(self) -> dict[str, float]:
        """Return and length of the newest episodes, on average; nothing before the first one."""
        if not self._recent:
            return {}
        returns, lengths = zip(*self._recent, strict=True)
        return {
            "charts/avg_episodic_return": float(np.mean(returns)),
            "charts/avg_episodic_length": float(np.mean(lengths)),
        }

    def restart(self, index: int) -> np.ndarray:
        """End one environment's episode early and begin its next one."""
        self._history = None
        following, _ = self.pool.reset(np.array([index], np.int32))
        self.obs = self.obs.copy()
        self.obs[index] = following[0]
        self._returns[index] = 0.0
        self._lengths[index] = 0
        return self.obs

    def sample_actions(self, rng: np.random.Generator) -> np.ndarray:
        """Uniformly random actions, one for each environment."""
        return rng.integers(self.single_action_space.n, size=self.num_envs)

    def render(self) -> list[np.ndarray]:
        """What each environment shows now, as colour pictures."""
        if self.single_observation_space.shape[0] == 3:
            return list(self.obs.transpose(0, 2, 3, 1))
        return [np.repeat(frames[-1][:, :, None], 3, axis=2) for frames in self.obs]

    def close(self) -> None:
        """Finish the film, stop showing and end EnvPool's threads."""
        if self._tap is not None:
            self._tap.close()
        if self._film is not None:
            self._film.close()
        self.pool = None

    def state_dict(self) -> StateDict:
        """The seed, and all actions since the start as long as there are few."""
        return {
            "num_envs": self.num_envs,
            "seed": self._seed,
            "actions": None if self._history is None else np.array(self._history, np.int64),
            "obs": self.obs,
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Repeat the actions; where that cannot be, `notes` says that new episodes begin."""
        if state["num_envs"] != self.num_envs:
            raise UsageError(
                f"The checkpoint has {state['num_envs']} environments, this run has "
                f"{self.num_envs}; use --num-envs {state['num_envs']}."
            )
        reason = f"more than {REPEAT_AT_MOST} steps were taken"
        if state["actions"] is not None:
            self.reset(state["seed"])
            for actions in state["actions"].numpy():
                self._repeat(actions)
            if np.array_equal(self.obs, state["obs"].numpy()):
                return
            reason = "repeating the steps led elsewhere"
        self.notes.append(
            f"EnvPool cannot bring its environments back, because {reason}; "
            "new episodes begin in all of them"
        )
        self.reset(state["seed"] + self.num_envs)
        self._history = None

    def _repeat(self, actions: np.ndarray) -> None:
        self.step(actions)

    def _note(self, actions: np.ndarray) -> None:
        if self._history is None:
            return
        self._history.append(actions.copy())
        if len(self._history) * self.num_envs > REPEAT_AT_MOST:
            self._history = None

    def _finish(self, over: np.ndarray) -> list[tuple[float, int]]:
        which = np.flatnonzero(over)
        episodes = [(float(self._returns[i]), int(self._lengths[i])) for i in which]
        self._recent.extend(episodes)
        if self._tap is not None:
            for episode_return, _ in episodes:
                self._tap.episode(episode_return)
        if over[0] and self._film is not None:
            self._film.episode_ended()
        self._returns[which] = 0.0
        self._lengths[which] = 0
        return episodes
