"""A game played by a person at the keys, live over the private socket.

In a world that does not wait for its player, time begins after a countdown: whoever has to find the
keys first would lose several episodes of CartPole before the first move. It stands still while the
player says so, and runs at the pace that the player chose.
"""

import math
import time
from collections.abc import Callable

from human_worker.game import Game
from human_worker.keys import POLICY, UnknownKeyError
from human_worker.policy_world import PolicyWorld
from human_worker.world import World
from mosaic.errors import NoPlayerError, SessionEndedError
from mosaic.presenting.actor import PERSON
from mosaic.workers import WorkerProcess
from mosaic.workers.player_socket import RESET, PlayerSocket

# Long enough to move a hand from the mouse to the keys.
COUNTDOWN_S = 3.0
# While time stands still: short enough that the countdown is told within the second it changes.
_LOOK_S = 0.1


class Countdown:
    """The seconds before time runs.

    Args:
        clock: Tells seconds; only differences count.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = 0.0
        self.restart()

    def restart(self) -> None:
        """Begin to count again."""
        self._until = self._clock() + COUNTDOWN_S

    @property
    def left(self) -> int:
        """The number to say; 0 when time runs."""
        return max(0, math.ceil(self._until - self._clock()))


class LiveGame:
    """One game, its player, and when the next step is due."""

    def __init__(self, game: Game, host: World, player: PlayerSocket, fps: float) -> None:
        self._game, self._host, self._player, self._fps = game, host, player, fps
        # Where a policy plays too, time is the policy's: it neither waits nor counts down.
        self._shared = host if isinstance(host, PolicyWorld) else None
        self._countdown = Countdown()
        self._frame = game.begin()
        self._told: tuple[object, ...] = ()
        player.greeting = {
            "keys": dict(host.keys.meanings),
            "turn_based": host.keys.turn_based,
            "fps": fps,
            "has_policy": self._shared is not None,
        }
        self._tell()

    @property
    def waits(self) -> bool:
        """Whether nothing happens until the player presses a key."""
        if self._player.control != PERSON:
            return False
        by_turns = self._host.keys.turn_based or self._player.pace == 0
        # The picture of the end stays until the player has seen it.
        return by_turns or (self._shared is None and self._game.over)

    @property
    def starts_in(self) -> int:
        """Seconds of countdown that are left; 0 when time runs or waits for a key."""
        return 0 if self._shared is not None or self.waits else self._countdown.left

    def turn(self) -> None:
        """Wait for what comes next, and do it.

        Raises:
            NoPlayerError: No player has come, or come back.
            SessionEndedError: The process with the policy is gone.
        """
        # A key that makes time run or wait, a second of countdown: told without a step.
        if self._told != self._flags():
            self._tell()
        held_up = self._shared is None and (self._player.on_hold or self.starts_in > 0)
        keys = self._player.next_keys(self._due_s(held_up))
        if keys is None or (self._shared is None and self._player.on_hold):
            # Whoever comes back needs a moment to find the keys again.
            self._countdown.restart()
        if keys is None or (held_up and keys != (RESET,)):
            return
        self._act(keys)

    def _due_s(self, held_up: bool) -> float | None:
        # Where a key is a move each one counts, also the first after time was held up.
        if self.waits:
            return None
        return _LOOK_S if held_up else 1 / (self._fps * (self._player.pace or 1))

    def _act(self, keys: tuple[str, ...]) -> None:
        game = self._game
        try:
            if game.over or keys == (RESET,):
                self._frame = game.begin()
                self._countdown.restart()
            elif self._shared is not None and self._player.control == POLICY:
                self._frame = game.follow(self._shared)
            else:
                self._frame = game.press(keys)
        except UnknownKeyError as error:
            self._tell(problem=str(error))
        else:
            self._tell()

    def _flags(self) -> tuple[object, ...]:
        return self.waits, self.starts_in, self._player.control

    def _tell(self, **more: object) -> None:
        self._told = self._flags()
        standing = {"waits": self.waits, "starts_in": self.starts_in}
        self._player.tell({**self._game.report(), **standing, **more}, self._frame)


def play_live(worker: WorkerProcess, game: Game, host: World, fps: float) -> None:
    """Play by a client's keys until it quits or stays away."""
    shared = isinstance(host, PolicyWorld)
    with PlayerSocket(worker.run_dir, POLICY if shared else PERSON) as player:
        live = LiveGame(game, host, player, fps)
        while worker.safe_point() and not player.gone:
            try:
                live.turn()
            except NoPlayerError:
                # A player who has watched and left has ended the session.
                if not shared or not player.was_there:
                    raise
                break
            except SessionEndedError:
                # A run that is stopped takes the policy's process with it.
                if not worker.stopping:
                    raise
    game.leave()
