"""Atari games in a batch, emulated natively by ale_py.

Frames are 84 x 84 grey, the last four stacked, each action held for four frames, as Mnih et
al. (2015) did it. For learning, the loss of a life ends an episode (`terminated`) although
the game goes on, and rewards are clipped to their sign; `info["episodes"]` always tells of
whole games with their true score.

Ids of both generations work: `BreakoutNoFrameskip-v4` (no sticky actions) and
`ALE/Breakout-v5` (an action is repeated with probability 0.25).

Games of our own (`mosaic/Catch-v0`, see `cleanrl_worker.games`) are played the same way.

Games are restored by repeating: each runs in a chain that begins with a seed of its own and goes
on through several games, and the actions since are remembered. To begin with a seed makes ale_py
load the ROM again (a tenth of a second), which is why not every game does.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from cleanrl_worker import games
from cleanrl_worker.games.emulator import Emulator
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.families import check_registered
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.types import StateDict, StepInfo, StepResult
from cleanrl_worker.running.atari_colour import NEW_GAME, Chain, ColourTwin, Spectators, Watched
from cleanrl_worker.running.live_frames import frame_tap
from cleanrl_worker.running.videos import Film
from mosaic.config.suggest import nearest

if TYPE_CHECKING:
    from ale_py.vector_env import AtariVectorEnv

_ID = re.compile(r"(?:ALE/)?(?P<game>[A-Za-z]+?)(?P<plain>NoFrameskip)?(?:-v\d+)?")
_FIRE = 1
# A game that ends after so many steps of its chain begins a new chain; repeating as many takes
# half a minute at most.
_LONG_CHAIN = 10_000


def game_of(env_id: str) -> tuple[str, float]:
    """The ROM that an environment id means, and how often actions stick.

    Raises:
        UsageError: when there is no such game, with the nearest one.
    """
    try:
        from ale_py import roms
    except ModuleNotFoundError:
        raise UsageError(
            "Atari games need the package ale_py; install it with: "
            "python -m cleanrl_worker.tools.install_extras --set atari"
        ) from None
    games = {name.replace("_", ""): name for name in roms.get_all_rom_ids()}
    match = _ID.fullmatch(env_id)
    wanted = match.group("game").lower() if match else env_id.lower()
    if wanted not in games:
        close = nearest(wanted, games)
        hint = f" Did you mean {_as_id(games[close])}?" if close else ""
        raise UsageError(
            f"There is no Atari game for {env_id!r}: use an id such as "
            f"BreakoutNoFrameskip-v4 or ALE/Breakout-v5.{hint}"
        )
    sticky = 0.25 if env_id.startswith("ALE/") else 0.0
    return games[wanted], sticky


def _as_id(rom: str) -> str:
    return "".join(part.capitalize() for part in rom.split("_")) + "NoFrameskip-v4"


def _make_games(env_id: str, num_envs: int, stack: int) -> tuple[Emulator | AtariVectorEnv, bool]:
    """The games that frames come from, and whether they have a FIRE button."""
    if env_id.startswith(games.PREFIX):
        check_registered(env_id)
        return Emulator(env_id, num_envs, stack), True
    game, sticky = game_of(env_id)
    from ale_py.vector_env import AtariVectorEnv

    roms = AtariVectorEnv(
        game,
        num_envs,
        num_threads=min(num_envs, len(os.sched_getaffinity(0))),
        repeat_action_probability=sticky,
        reward_clipping=False,
        stack_num=stack,
    )
    return roms, "FIRE" in str(roms.ale.get_action_set()[_FIRE])


class AtariEnvs:
    """A batch of one Atari game.

    Args:
        env_id: which game.
        num_envs: how many.
        learning: end episodes with lives and clip rewards. Off for evaluation, which plays
            whole games for their score.
        video_dir: where to film the first game, or `None`.
        stack: how many frames an observation holds.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        *,
        learning: bool = True,
        video_dir: str | None = None,
        stack: int = 4,
    ) -> None:
        self.env_id = env_id
        self.num_envs = num_envs
        self._learning = learning
        self._games, self._has_fire = _make_games(env_id, num_envs, stack)
        frames, buttons = self._games.single_observation_space, self._games.single_action_space
        assert isinstance(frames, spaces.Box)
        assert isinstance(buttons, spaces.Discrete)
        self.single_observation_space, self.single_action_space = frames, buttons
        self.obs = np.zeros((num_envs, *self.single_observation_space.shape), np.uint8)
        self.notes: list[str] = []
        self._film = None if video_dir is None else Film(video_dir)
        self._seeds = Random(0, "games")
        self._chains = [Chain(0) for _ in range(num_envs)]
        self._twins: dict[int, ColourTwin] = {}
        self._spectators = Spectators(self._make_twin, self._chains)
        self._tap = frame_tap([Watched(self._live, i) for i in range(num_envs)], num_envs)
        self._lives = np.zeros(num_envs, np.int64)
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, np.int64)
        # Where the last step lost a life but not the game; a recurrent policy forgets there.
        self.new_life = np.zeros(num_envs, np.bool_)

    def reset(self, seed: int) -> np.ndarray:
        """Start new games; all their seeds follow from this one."""
        self._seeds = Random(seed, "games")
        self._begin_chains(np.ones(self.num_envs, np.bool_))
        return self.obs

    def step(self, actions: np.ndarray) -> StepResult:
        """Step every game; see the module for what ends an episode."""
        if self._has_fire:
            # Many games wait for FIRE after a lost life; an agent that never pressed it would learn
            # from a picture that stands still.
            actions = np.where(self.new_life, _FIRE, actions)
        obs, rewards, over, cut, about = self._games.step(actions)
        for chain, action in zip(self._chains, actions.tolist(), strict=True):
            chain.append(action)
        self._returns += rewards
        self._lengths += 1
        lives = about["lives"].astype(np.int64)
        self.new_life = lives < self._lives
        terminated = over | self.new_life if self._learning else over
        self._lives = lives
        if self._learning:
            rewards = np.sign(rewards)
        self.obs = obs
        if self._film is not None:
            self._film.frame(self._colour(0))
        if self._tap is not None:
            self._tap.step(rewards)
        info: StepInfo = {}
        ended = over | cut
        if ended.any():
            games = [
                (float(self._returns[i]), int(self._lengths[i])) for i in np.flatnonzero(ended)
            ]
            info = {"final_obs": obs, "episodes": games, "ended": ended}
            if self._tap is not None:
                for score, _ in games:
                    self._tap.episode(score)
            if ended[0] and self._film is not None:
                self._film.episode_ended()
            self._begin_games(ended)
        return self.obs, rewards.astype(np.float32), terminated, cut, info

    def restart(self, index: int) -> np.ndarray:
        """End one game early and begin its next one."""
        self._begin_games(np.arange(self.num_envs) == index)
        return self.obs

    def sample_actions(self, rng: np.random.Generator) -> np.ndarray:
        """Uniformly random actions, one for each game."""
        return rng.integers(self.single_action_space.n, size=self.num_envs)

    def render(self) -> list[np.ndarray]:
        """What each game shows now, in colour."""
        return [self._colour(index) for index in range(self.num_envs)]

    def _colour(self, index: int) -> np.ndarray:
        if isinstance(self._games, Emulator):
            return self._games.pictures[index]
        if index not in self._twins:
            self._twins[index] = self._make_twin()
        self._twins[index].follow(self._chains[index])
        return self._twins[index].picture

    def _live(self, index: int) -> np.ndarray:
        """What a viewer sees; the agent's grey picture until the twin has caught up."""
        if isinstance(self._games, Emulator):
            return self._games.pictures[index]
        picture = self._spectators.picture(index)
        return np.repeat(self.obs[index, -1][:, :, None], 3, 2) if picture is None else picture

    def _make_twin(self) -> ColourTwin:
        return ColourTwin(*game_of(self.env_id))

    def close(self) -> None:
        """Finish the film and stop showing; the games hold nothing open."""
        self._spectators.close()
        if self._tap is not None:
            self._tap.close()
        if self._film is not None:
            self._film.close()

    def state_dict(self) -> StateDict:
        """Everything needed to bring every game back to where it is."""
        return {
            "seeds": self._seeds.state_dict(),
            "chain_seeds": np.array([chain.seed for chain in self._chains], np.int64),
            "chains": [np.array(chain, np.uint8) for chain in self._chains],
            "returns": self._returns,
            "lengths": self._lengths,
            "new_life": self.new_life,
            "obs": self.obs,
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Bring every game back; `notes` says where a new one had to begin."""
        if len(state["chains"]) != self.num_envs:
            raise UsageError(
                f"The checkpoint has {len(state['chains'])} environments, this run has "
                f"{self.num_envs}; use --num-envs {len(state['chains'])}."
            )
        seeds = state["chain_seeds"].numpy()
        chains = [chain.numpy() for chain in state["chains"]]
        self._repeat(chains, seeds)
        for index, (seed, chain) in enumerate(zip(seeds.tolist(), chains, strict=True)):
            self._chains[index] = Chain(seed, chain.tobytes())
        self._seeds.load_state_dict(state["seeds"])
        self._returns = state["returns"].numpy().copy()
        self._lengths = state["lengths"].numpy().copy()
        self.new_life = state["new_life"].numpy().copy()
        wrong = (self.obs != state["obs"].numpy()).any(axis=(1, 2, 3))
        if wrong.any():
            self.notes.append(
                f"{int(wrong.sum())} games could not be brought back to their saved state, "
                "so new ones begin there"
            )
            self._begin_chains(wrong)

    def _repeat(self, chains: list[np.ndarray], seeds: np.ndarray) -> None:
        """Repeat all chains in one batch: each begins so late that all end together."""
        steps = np.array([int((chain != NEW_GAME).sum()) for chain in chains])
        longest = int(steps.max())
        at = np.zeros(self.num_envs, np.int64)
        self._reset(np.ones(self.num_envs, np.bool_), seeds)
        for turn in range(longest + 1):
            begins = steps == longest - turn
            if begins.any() and turn:
                self._reset(begins, seeds[begins])
            begun = steps >= longest - turn
            while (new_games := begun & _at_new_game(chains, at)).any():
                self._reset(new_games, None)
                at[new_games] += 1
            if turn < longest:
                actions = np.zeros(self.num_envs, np.int64)
                for index in np.flatnonzero(begun):
                    actions[index] = chains[index][at[index]]
                self.obs, _, _, _, about = self._games.step(actions)
                self._lives = about["lives"].astype(np.int64)
                at[begun] += 1

    def _begin_games(self, which: np.ndarray) -> None:
        """Begin new games, in new chains where the old ones have become long."""
        long = which & np.array([len(chain) > _LONG_CHAIN for chain in self._chains])
        if long.any():
            self._begin_chains(long)
        goes_on = which & ~long
        if goes_on.any():
            self._reset(goes_on, None)
            for index in np.flatnonzero(goes_on):
                self._chains[index].append(NEW_GAME)

    def _begin_chains(self, which: np.ndarray) -> None:
        seeds = self._seeds.integers(2**31 - 1, size=int(which.sum()))
        self._reset(which, seeds)
        for index, seed in zip(np.flatnonzero(which), seeds.tolist(), strict=True):
            # Another object and not an empty one: who follows a chain sees where it ends.
            self._chains[index] = Chain(seed)

    def _reset(self, which: np.ndarray, seeds: np.ndarray | None) -> None:
        """Begin games, from a seed or as the games before left the generators."""
        obs, about = self._games.reset(
            seed=seeds, options=None if which.all() else {"reset_mask": which.copy()}
        )
        self.obs = obs if len(obs) == self.num_envs else self._merge(obs, which)
        lives = about["lives"].astype(np.int64)
        self._lives[which] = lives[which] if len(lives) == self.num_envs else lives
        self._returns[which] = 0.0
        self._lengths[which] = 0
        self.new_life[which] = False

    def _merge(self, obs: np.ndarray, which: np.ndarray) -> np.ndarray:
        merged = self.obs.copy()
        merged[which] = obs
        return merged


def _at_new_game(chains: list[np.ndarray], at: np.ndarray) -> np.ndarray:
    """Where repeating has come to the beginning of another game."""
    following = [chain[i : i + 1].tolist() for chain, i in zip(chains, at, strict=True)]
    return np.array([action == [NEW_GAME] for action in following])
