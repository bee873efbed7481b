"""Running normalisation of observations and rewards, around any batch of environments."""

from __future__ import annotations

from typing import Any

import numpy as np

from cleanrl_worker.kit.types import Environments, StateDict, StepResult


class RunningMeanStd:
    """The mean and variance of everything seen so far (Chan et al., 1979)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean = np.zeros(shape)
        self.var = np.ones(shape)
        self.count = 1e-4

    def update(self, rows: np.ndarray) -> None:
        """Add a batch of rows to the statistics."""
        count = len(rows)
        if count == 1:
            mean, var = rows[0], 0.0
        else:
            mean, var = rows.mean(axis=0, dtype=np.float64), rows.var(axis=0, dtype=np.float64)
        delta = mean - self.mean
        total = self.count + count
        spread = self.var * self.count + var * count + delta * delta * (self.count * count / total)
        self.mean = self.mean + delta * (count / total)
        self.var = spread / total
        self.count = total

    def state_dict(self) -> StateDict:
        """The statistics."""
        return {
            "mean": np.asarray(self.mean),
            "var": np.asarray(self.var),
            "count": float(self.count),
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Put the statistics back."""
        mean, var = state["mean"].numpy().copy(), state["var"].numpy().copy()
        if mean.shape != self.mean.shape:
            raise ValueError(f"statistics of shape {mean.shape}, not {self.mean.shape}")
        self.mean, self.var, self.count = mean, var, float(state["count"])


class _Around:
    """Passes everything on to the environments inside."""

    def __init__(self, envs: Environments) -> None:
        self.envs = envs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.envs, name)


class NormalizeObservation(_Around):
    """Observations with mean 0 and variance 1, clipped.

    Every observation counts for the statistics: also the last one of an episode.
    """

    def __init__(self, envs: Environments, clip: float = 10.0, epsilon: float = 1e-8) -> None:
        super().__init__(envs)
        self.rms = RunningMeanStd(envs.single_observation_space.shape)
        self.frozen = False
        self.clip = clip
        self.epsilon = epsilon

    @property
    def obs(self) -> np.ndarray:
        """The current observations, normalised."""
        return self.normalize(self.envs.obs)

    def reset(self, seed: int) -> np.ndarray:
        """Start new episodes in all environments."""
        obs = self.envs.reset(seed=seed)
        self._update(obs)
        return self.normalize(obs)

    def step(self, actions: np.ndarray) -> StepResult:
        """Step, count the observations, normalise them."""
        obs, rewards, terminated, truncated, info = self.envs.step(actions)
        if info:
            final_obs = info["final_obs"]
            self._update(final_obs)
            self._update(obs[terminated | truncated])
            info = {**info, "final_obs": self.normalize(final_obs)}
        else:
            self._update(obs)
        return self.normalize(obs), rewards, terminated, truncated, info

    def normalize(self, obs: np.ndarray) -> np.ndarray:
        """Apply the statistics without changing them."""
        scaled = (obs - self.rms.mean) / np.sqrt(self.rms.var + self.epsilon)
        return scaled.clip(-self.clip, self.clip).astype(np.float32)

    def _update(self, obs: np.ndarray) -> None:
        if not self.frozen:
            self.rms.update(obs)

    def state_dict(self) -> StateDict:
        """The statistics and the environments inside."""
        return {"rms": self.rms.state_dict(), "envs": self.envs.state_dict()}

    def load_state_dict(self, state: StateDict) -> None:
        """Put the statistics and the environments back."""
        self.rms.load_state_dict(state["rms"])
        self.envs.load_state_dict(state["envs"])


class NormalizeReward(_Around):
    """Rewards divided by the standard deviation of the discounted return, clipped."""

    def __init__(
        self, envs: Environments, gamma: float, clip: float = 10.0, epsilon: float = 1e-8
    ) -> None:
        super().__init__(envs)
        self.rms = RunningMeanStd(())
        self._returns = np.zeros(envs.num_envs)
        self._gamma = gamma
        self.clip = clip
        self.epsilon = epsilon

    def step(self, actions: np.ndarray) -> StepResult:
        """Step and scale the rewards."""
        obs, rewards, terminated, truncated, info = self.envs.step(actions)
        self._returns = self._returns * self._gamma * (1 - terminated) + rewards
        self.rms.update(self._returns)
        scaled = rewards / np.sqrt(self.rms.var + self.epsilon)
        rewards = scaled.clip(-self.clip, self.clip).astype(np.float32)
        return obs, rewards, terminated, truncated, info

    def state_dict(self) -> StateDict:
        """The statistics, the running returns and the environments inside."""
        return {
            "rms": self.rms.state_dict(),
            "returns": self._returns,
            "envs": self.envs.state_dict(),
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Put everything back."""
        self.rms.load_state_dict(state["rms"])
        self._returns = state["returns"].numpy().copy()
        self.envs.load_state_dict(state["envs"])
