"""What makes stable-baselines3 train as our files do: our games, our loss, our exploration."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.dqn import dqn
from torch.nn import functional

from cleanrl_worker.kit.atari import AtariEnvs


class PeerGames(VecEnv):
    """The games that `AtariEnvs` steps, with their resets, lives and clipped rewards."""

    def __init__(self, env_id: str, num_envs: int, seed: int) -> None:
        self._games = AtariEnvs(env_id, num_envs)
        self._seed = seed
        self._actions = np.zeros(num_envs, np.int64)
        # Asked for by the base class when it is made.
        self.render_mode = None
        games = self._games
        super().__init__(num_envs, games.single_observation_space, games.single_action_space)

    def reset(self) -> np.ndarray:
        """Begin all games."""
        return self._games.reset(seed=self._seed)

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions; the games are stepped as one batch."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Step every game."""
        obs, rewards, terminated, truncated, info = self._games.step(self._actions)
        dones = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        # A lost life ends an episode but not the game: its last picture is the present one.
        last = info["final_obs"] if info else obs
        for index in np.flatnonzero(dones):
            infos[index]["terminal_observation"] = last[index]
            infos[index]["TimeLimit.truncated"] = bool(truncated[index] and not terminated[index])
        if info:
            ended = np.flatnonzero(info["ended"])
            for index, (score, length) in zip(ended, info["episodes"], strict=True):
                infos[index]["episode"] = {"r": score, "l": length}
        return obs, rewards, dones, infos

    def close(self) -> None:
        """The games hold nothing open but what `AtariEnvs` closes."""
        self._games.close()

    def env_is_wrapped(self, wrapper_class: type, indices: object = None) -> list[bool]:
        """Whole games are counted by `AtariEnvs`; nothing is wrapped."""
        return [False] * self.num_envs

    def get_attr(self, attr_name: str, indices: object = None) -> list[Any]:
        """The same for all games: there is one batch, not one object a game."""
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: object, indices: object = None) -> None:
        """Set for the batch."""
        setattr(self, attr_name, value)

    def env_method(
        self, method_name: str, *args: object, indices: object = None, **kwargs: object
    ) -> Sequence[Any]:
        """Called once, on the batch."""
        return [getattr(self, method_name)(*args, **kwargs)] * self.num_envs


def square_errors() -> None:
    """Let the peer's DQN minimise the squared error, as our files do, for the whole process.

    Its own loss is Huber's. With that and its clipped gradients it learns nothing on CartPole in
    the steps and with the settings of the comparison, which would make ours look better than it is.
    """
    dqn.F = SimpleNamespace(smooth_l1_loss=functional.mse_loss)


class LateNoise(ActionNoise):
    """Exploration noise that begins after some steps of one environment."""

    def __init__(self, noise: ActionNoise, after: int) -> None:
        super().__init__()
        self._noise, self._left = noise, after

    def __call__(self) -> np.ndarray:
        noise = self._noise()
        self._left -= 1
        return noise if self._left < 0 else np.zeros_like(noise)


class Episodes(BaseCallback):
    """Keeps the step and the return of every episode."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.ended.append((self.num_timesteps, float(info["episode"]["r"])))
        return True
