"""Plays Gymnasium games with pictures the way `ale_py` plays ROMs: in a batch, ready to learn from.

Each action is held for four frames, of the last two the brighter pixels count, pictures become
grey, and the newest four are stacked. `cleanrl_worker.kit.atari.AtariEnvs` does the rest for both.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces

_HELD = 4
_FIRE = 1
# How bright each colour looks (ITU-R BT.601).
_LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)

Results = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]


class Emulator:
    """A batch of one game, with the part of `AtariVectorEnv` that `AtariEnvs` uses.

    Args:
        env_id: a registered environment with 84 x 84 colour pictures, `info["lives"]`, and FIRE
            as its action 1.
        num_envs: how many games.
        stack: how many frames an observation holds.

    Attributes:
        pictures: what each game shows, in colour.
    """

    def __init__(self, env_id: str, num_envs: int, stack: int) -> None:
        self._games = [gym.make(env_id, disable_env_checker=True) for _ in range(num_envs)]
        shape = self._games[0].observation_space.shape
        assert shape is not None, "pictures have a shape"
        height, width, _ = shape
        self.single_observation_space = spaces.Box(0, 255, (stack, height, width), np.uint8)
        space = self._games[0].action_space
        assert isinstance(space, spaces.Discrete), "games have buttons"
        self.single_action_space = space
        self._obs = np.zeros((num_envs, stack, height, width), np.uint8)
        self._lives = np.zeros(num_envs, np.int64)
        self.pictures = [np.zeros(shape, np.uint8) for _ in range(num_envs)]

    def reset(
        self, *, seed: np.ndarray | None = None, options: dict[str, np.ndarray] | None = None
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Begin games; FIRE is pressed once, as the emulator of ROMs does.

        Args:
            seed: one for each game that begins, or `None` to continue with the generator it has.
            options: `reset_mask` says which games begin; by default all.
        """
        mask = np.ones(len(self._games), np.bool_)
        if options is not None:
            mask = options["reset_mask"]
        for position, index in enumerate(np.flatnonzero(mask)):
            game = self._games[index]
            game.reset(seed=None if seed is None else int(seed[position]))
            picture, _, _, _, info = game.step(_FIRE)
            # As if the first picture had been there all along.
            self._obs[index] = _grey(picture)
            self.pictures[index] = picture
            self._lives[index] = info["lives"]
        return self._obs.copy(), {"lives": self._lives.copy()}

    def step(self, actions: np.ndarray) -> Results:
        """Hold one action in each game for four frames, or until the game is over."""
        count = len(self._games)
        rewards = np.zeros(count)
        over, cut = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        self._obs[:, :-1] = self._obs[:, 1:]
        for index, action in enumerate(actions.tolist()):
            game, pictures = self._games[index], []
            for _ in range(_HELD):
                picture, reward, over[index], cut[index], info = game.step(action)
                pictures.append(picture)
                rewards[index] += reward
                if over[index] or cut[index]:
                    break
            self.pictures[index] = np.maximum(pictures[-1], pictures[-2:][0])
            self._obs[index, -1] = _grey(self.pictures[index])
            self._lives[index] = info["lives"]
        return self._obs.copy(), rewards, over, cut, {"lives": self._lives.copy()}


def _grey(picture: np.ndarray) -> np.ndarray:
    # As numbers, because NumPy multiplies bytes ten times more slowly.
    return (picture.astype(np.float32) @ _LUMINANCE).astype(np.uint8)
