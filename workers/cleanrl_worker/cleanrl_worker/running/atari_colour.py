"""Atari games as people know them: in colour, at the size of the console's screen.

Agents learn from small grey pictures, and the native emulator computes no others. For those who
watch, a game is emulated a second time: from the seed of its chain and the actions since, a twin
with other eyes plays the same game. The agent's own games are not touched by it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

HEIGHT, WIDTH = 210, 160
# Stands in the actions of a chain where a new game began.
NEW_GAME = 255
# Followed at a time, so that the picture of one game does not wait long for another's.
_SLICE = 200
# Without a viewer the second emulation would be for nothing. But frames are asked for by the
# training loop, which learns for many seconds between two rollouts on a small machine; a twin that
# had ended by then would have to catch up again. One that waits costs nothing.
_UNWATCHED_S = 60.0
_REST_S = 0.01


class Chain(bytearray):
    """The actions of one game, and of those after it, since they began with a seed."""

    def __init__(self, seed: int, actions: bytes = b"") -> None:
        super().__init__(actions)
        self.seed = seed


class ColourTwin:
    """One game that follows another, action by action.

    Args:
        game: The ROM.
        sticky: How often an action is repeated.
    """

    def __init__(self, game: str, sticky: float) -> None:
        from ale_py.vector_env import AtariVectorEnv

        self._game = AtariVectorEnv(
            game,
            1,
            num_threads=1,
            repeat_action_probability=sticky,
            grayscale=False,
            img_height=HEIGHT,
            img_width=WIDTH,
            stack_num=1,
        )
        self._chain: Chain | None = None
        self._at = 0
        self.picture = np.zeros((HEIGHT, WIDTH, 3), np.uint8)

    def follow(self, chain: Chain, most: int | None = None) -> bool:
        """Play what is new in a chain; whether there is nothing more to play.

        Args:
            chain: Another one than before begins with its own seed.
            most: How many actions to play at most.
        """
        obs = None
        if chain is not self._chain:
            obs, _ = self._game.reset(seed=np.array([chain.seed]))
            self._chain, self._at = chain, 0
        # Asked once: the chain may grow while it is followed.
        until = len(chain) if most is None else min(len(chain), self._at + most)
        for action in chain[self._at : until]:
            if action == NEW_GAME:
                obs, _ = self._game.reset()
            else:
                obs, *_ = self._game.step(np.array([action]))
        self._at = until
        if obs is not None:
            self.picture = obs[0, -1]
        return self._at == len(chain)


class Spectators:
    """Follows the games that are watched, in a thread of its own.

    Training does not wait for it.

    Args:
        twin: Makes a twin.
        chains: Those of all games; a game that begins a new chain replaces its entry.
    """

    def __init__(self, twin: Callable[[], ColourTwin], chains: Sequence[Chain]) -> None:
        self._twin, self._chains = twin, chains
        self._asked: dict[int, float] = {}
        self._newest: dict[int, np.ndarray] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def picture(self, index: int) -> np.ndarray | None:
        """The newest picture of a game; None until its twin has caught up with it."""
        with self._lock:
            self._asked[index] = time.monotonic()
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._follow, name="spectators", daemon=True)
                self._thread.start()
            return self._newest.get(index)

    def close(self) -> None:
        """Follow nothing more."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            thread.join()

    def _follow(self) -> None:
        twins: dict[int, ColourTwin] = {}
        while watched := self._watched():
            behind = False
            for index in watched:
                if index not in twins:
                    twins[index] = self._twin()
                chain = self._chains[index]
                if twins[index].follow(chain, _SLICE):
                    with self._lock:
                        self._newest[index] = twins[index].picture
                else:
                    behind = True
            if not behind:
                time.sleep(_REST_S)

    def _watched(self) -> list[int]:
        """The games that someone looks at; with the last of them the thread ends."""
        limit = time.monotonic() - _UNWATCHED_S
        with self._lock:
            watched = [index for index, asked in self._asked.items() if asked > limit]
            if self._closed or not watched:
                self._thread = None
                self._newest.clear()
                self._asked.clear()
                return []
            return watched


class Watched:
    """One game as the live view takes it."""

    render_mode = "rgb_array"

    def __init__(self, shoot: Callable[[int], np.ndarray], index: int) -> None:
        self._shoot, self._index = shoot, index

    @property
    def unwrapped(self) -> Watched:
        """Nothing is wrapped here."""
        return self

    def render(self) -> np.ndarray:
        """What the game shows now."""
        return self._shoot(self._index)
