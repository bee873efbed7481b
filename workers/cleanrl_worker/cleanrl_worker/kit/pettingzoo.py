"""PettingZoo's Atari games for several players, every player a row of the batch.

Preprocessing as for one player: actions are held for four frames, the last two frames are
merged by their maximum, the picture is grey and 84 x 84, four are stacked. Two further channels
tell a player which side it plays. One agent can so play both sides against itself.

A game is restored by beginning it with the same seed and repeating the actions since.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING

import gymnasium as gym
import numpy as np
import torch

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.types import StateDict, StepInfo, StepResult
from cleanrl_worker.running.live_frames import frame_tap
from cleanrl_worker.running.videos import Film
from mosaic.config.suggest import nearest

if TYPE_CHECKING:
    from pettingzoo import ParallelEnv

_SIDE = 84
_STACK = 4
_SKIP = 4


def make_game(env_id: str) -> ParallelEnv:
    """Build one game: with the ROMs that come with ale_py, or `mosaic/Doubles-v0`.

    Raises:
        UsageError: when a package or the game is missing.
    """
    try:
        import ale_py
        import pettingzoo.atari as games

        from cleanrl_worker.games import doubles
    except ModuleNotFoundError as error:
        raise UsageError(
            f"Games for several players need the package {error.name}; install it with: "
            "python -m cleanrl_worker.tools.install_extras --set pettingzoo"
        ) from None
    if env_id == doubles.ENV_ID:
        return doubles.Doubles()
    names = [module.name for module in pkgutil.iter_modules(games.__path__)]
    names = [doubles.ENV_ID, *(name for name in names if "_v" in name)]
    if env_id not in names:
        close = nearest(env_id, names)
        hint = f" Did you mean {close}?" if close else ""
        raise UsageError(
            f"PettingZoo has no Atari game {env_id!r}.{hint} Try pong_v3, or {doubles.ENV_ID}."
        )
    roms = str(Path(ale_py.__file__).parent / "roms")
    module = importlib.import_module(f"pettingzoo.atari.{env_id}")
    return module.parallel_env(obs_type="grayscale_image", auto_rom_install_path=roms)


class Game:
    """One game between its players."""

    def __init__(self, env_id: str) -> None:
        self._game = make_game(env_id)
        self.players = list(self._game.possible_agents)
        self.action_space = self._game.action_space(self.players[0])
        height, width, _ = self._game.observation_space(self.players[0]).shape
        self._screens = np.zeros((2, height, width), np.uint8)
        self.stack = np.zeros((_STACK, _SIDE, _SIDE), np.uint8)
        self.actions: list[list[int]] = []
        self.seed = 0

    def begin(self, seed: int) -> None:
        """Start over; the stack is full of the first picture."""
        self.seed = seed
        self.actions = []
        obs, _ = self._game.reset(seed=seed)
        self._screens[:] = obs[self.players[0]][:, :, 0]
        self.stack[:] = _shrink(self._screens[1])

    def step(self, actions: list[int]) -> tuple[np.ndarray, bool, bool]:
        """Hold the players' actions for four frames.

        Returns:
            The players' rewards, whether the game is over, and whether it was cut off.
        """
        self.actions.append(actions)
        chosen = dict(zip(self.players, actions, strict=True))
        rewards = np.zeros(len(self.players), np.float32)
        over = cut = False
        for _ in range(_SKIP):
            obs, earned, terminated, truncated, _ = self._game.step(chosen)
            rewards += [earned[player] for player in self.players]
            self._screens[0] = self._screens[1]
            self._screens[1] = obs[self.players[0]][:, :, 0]
            over, cut = any(terminated.values()), any(truncated.values())
            if over or cut:
                break
        self.stack[:-1] = self.stack[1:]
        self.stack[-1] = _shrink(self._screens.max(axis=0))
        return rewards, over, cut

    def close(self) -> None:
        """Close the emulator."""
        self._game.close()


def _shrink(screen: np.ndarray) -> np.ndarray:
    picture = torch.from_numpy(screen)[None].to(torch.float32)
    small = torch.nn.functional.adaptive_avg_pool2d(picture, (_SIDE, _SIDE))
    return small[0].round().to(torch.uint8).numpy()


class MultiAgentAtari:
    """A batch of games; rows are players, game by game.

    Args:
        env_id: PettingZoo's name of the game, such as `pong_v3`.
        num_envs: how many players there are at least, over all games.
        learning: clip rewards to their sign.
        video_dir: where to film the first game, or `None`.
    """

    def __init__(
        self, env_id: str, num_envs: int, *, learning: bool = True, video_dir: str | None = None
    ) -> None:
        first = Game(env_id)
        self._players = len(first.players)
        count = -(-num_envs // self._players)
        self._games = [first, *(Game(env_id) for _ in range(count - 1))]
        self.env_id = env_id
        self.num_envs = count * self._players
        self._learning = learning
        shape = (_STACK + self._players, _SIDE, _SIDE)
        self.single_observation_space = gym.spaces.Box(0, 255, shape, np.uint8)
        self.single_action_space = first.action_space
        self.obs = np.zeros((self.num_envs, *shape), np.uint8)
        self.notes: list[str] = []
        self._seeds = Random(0, "games")
        self._returns = np.zeros(self.num_envs)
        self._film = None if video_dir is None else Film(video_dir)
        self._tap = frame_tap(self.render, self.num_envs)

    def reset(self, seed: int) -> np.ndarray:
        """Begin again; all games' seeds follow from this one."""
        self._seeds = Random(seed, "games")
        for game in self._games:
            game.begin(int(self._seeds.integers(2**31 - 1)))
        self._returns[:] = 0.0
        self.obs = self._observe()
        return self.obs

    def step(self, actions: np.ndarray) -> StepResult:
        """Step every game; all of its players end together."""
        rewards = np.zeros(self.num_envs, np.float32)
        terminated = np.zeros(self.num_envs, np.bool_)
        truncated = np.zeros(self.num_envs, np.bool_)
        for number, (game, rows) in enumerate(zip(self._games, self._rows(), strict=True)):
            chosen = actions[rows].tolist()
            rewards[rows], terminated[rows], truncated[rows] = game.step(chosen)
            if number == 0 and self._film is not None:
                self._film.frame(np.repeat(game.stack[-1][:, :, None], 3, axis=2))
        self._returns += rewards
        if self._tap is not None:
            self._tap.step(rewards)
        self.obs = self._observe()
        ended = terminated | truncated
        info = self._finish(ended) if ended.any() else {}
        if self._learning:
            rewards = np.sign(rewards)
        return self.obs, rewards, terminated, truncated, info

    def restart(self, index: int) -> np.ndarray:
        """End the game of one row early and begin its next one."""
        number = index // self._players
        self._games[number].begin(int(self._seeds.integers(2**31 - 1)))
        self._returns[self._rows()[number]] = 0.0
        self.obs = self._observe()
        return self.obs

    def sample_actions(self, rng: np.random.Generator) -> np.ndarray:
        """Uniformly random actions, one for each player."""
        return rng.integers(self.single_action_space.n, size=self.num_envs)

    def render(self) -> list[np.ndarray]:
        """The newest picture of each game."""
        return [np.repeat(game.stack[-1][:, :, None], 3, axis=2) for game in self._games]

    def close(self) -> None:
        """Close every game."""
        if self._film is not None:
            self._film.close()
        if self._tap is not None:
            self._tap.close()
        for game in self._games:
            game.close()

    def state_dict(self) -> StateDict:
        """Everything needed to bring every game back to where it is."""
        return {
            "seeds": self._seeds.state_dict(),
            "game_seeds": [game.seed for game in self._games],
            "actions": [np.array(game.actions, np.uint8) for game in self._games],
            "returns": self._returns,
            "obs": self.obs,
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Bring every game back; `notes` says when a new one had to begin."""
        if len(state["game_seeds"]) != len(self._games):
            wanted = len(state["game_seeds"]) * self._players
            raise UsageError(
                f"The checkpoint has {wanted} environments, this run has {self.num_envs}; "
                f"use --num-envs {wanted}."
            )
        self._seeds.load_state_dict(state["seeds"])
        for game, seed, actions in zip(
            self._games, state["game_seeds"], state["actions"], strict=True
        ):
            game.begin(seed)
            for chosen in actions.tolist():
                game.step(chosen)
        self._returns = state["returns"].numpy().copy()
        self.obs = self._observe()
        if not np.array_equal(self.obs, state["obs"].numpy()):
            self.notes.append("the games could not be brought back, so new ones begin")
            for index in range(0, self.num_envs, self._players):
                self.restart(index)

    def _rows(self) -> list[slice]:
        return [
            slice(start, start + self._players) for start in range(0, self.num_envs, self._players)
        ]

    def _observe(self) -> np.ndarray:
        obs = np.zeros_like(self.obs)
        for game, rows in zip(self._games, self._rows(), strict=True):
            obs[rows, :_STACK] = game.stack
            for player in range(self._players):
                obs[rows.start + player, _STACK + player] = 255
        return obs

    def _finish(self, ended: np.ndarray) -> StepInfo:
        final_obs = self.obs
        episodes = []
        players: dict[str, float] = {}
        for number, rows in enumerate(self._rows()):
            if ended[rows.start]:
                length = len(self._games[number].actions)
                episodes += [(float(score), length) for score in self._returns[rows]]
                # The scores of a game add up to nothing; each player's says who won.
                for player, score in enumerate(self._returns[rows].tolist()):
                    players[f"charts/episodic_return-player{player}"] = score
                    players[f"charts/episodic_length-player{player}"] = float(length)
                if self._tap is not None:
                    self._tap.episode(float(self._returns[rows.start]))
                self.restart(rows.start)
                if number == 0 and self._film is not None:
                    self._film.episode_ended()
        return {
            "final_obs": final_obs,
            "episodes": episodes,
            "ended": ended,
            "players": players,
        }
