"""A person at a table, connected by the window or the terminal.

The run opens the same socket as a game for one player, so that `mosaic play` and the window show
it and press its keys. Nothing waits for the person but the person's own moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from llm_worker.errors import LlmError
from llm_worker.play.answers import Decision
from llm_worker.play.client import StoppedError
from llm_worker.play.records import StepRecord
from llm_worker.play.thinking import Thought, free
from llm_worker.table.world import TableWorld
from mosaic.errors import NoPlayerError
from mosaic.workers.player_socket import RESET, PlayerSocket

_NO_RESET = "a game at a table is played to its end"


class HumanPlayer:
    """Shows the table to a person and takes the moves that are pressed.

    Args:
        socket: Where the person's window or terminal connects.
        goes_on: Whether the match continues; waits while it is paused.
    """

    def __init__(self, socket: PlayerSocket, goes_on: Callable[[], bool]) -> None:
        self._socket = socket
        self._goes_on = goes_on
        self._seat = self._episode = self._step = 0
        self._total = 0.0
        self._picture = b""
        self._note = ""
        self._moved = False

    def begin(self, world: TableWorld, seed: int, seat: int) -> None:
        """Begin a game; the note says which side is the person's."""
        self._seat, self._step, self._total = seat, 0, 0.0
        self._moved = False
        self._picture = world.picture()
        game = world.game
        self._note = f"you are {game.sides[seat]}" if game.sides else ""
        self._socket.greeting = {
            "keys": dict(sorted(zip(game.keys, game.names, strict=True))),
            "turn_based": True,
            "has_policy": False,
        }

    def decide(self, world: TableWorld, text: str, episode: int, step: int) -> Thought:
        """Wait for a key that is a legal move.

        Raises:
            StoppedError: The person leaves, or the run is stopped.
            LlmError: No person came.
        """
        self._episode, self._step = episode, step
        if not world.game.sides:
            self._note = text.replace("\n", "; ")
        problem = ""
        while True:
            self._tell(waits=True, problem=problem)
            move = read_move(self._next_keys(), world)
            if isinstance(move, int):
                self._moved = True
                return free(Decision(move, "a person's move"))
            problem = move

    def replay(self, world: TableWorld, record: StepRecord) -> None:
        """A move that was made before the worker was started again."""

    def saw(self, record: StepRecord, picture: bytes, scores: Sequence[float]) -> None:
        """Show a move, one's own or another player's."""
        self._episode, self._step = record.episode, record.step + 1
        self._picture, self._total = picture, scores[self._seat]
        self._tell()

    def finished(self, *, another: bool) -> None:
        """Show the end of a game, and wait for a key before the next one begins.

        Raises:
            StoppedError: The person leaves, or the run is stopped.
            LlmError: The person does not come back.
        """
        # Games that were over before the worker was started again have been seen.
        waits = another and self._moved
        self._tell(over=True, waits=waits)
        if waits:
            self._next_keys()

    def _tell(self, *, over: bool = False, waits: bool = False, problem: str = "") -> None:
        state: dict[str, object] = {
            "episode": self._episode,
            "step": self._step,
            "total": self._total,
            "over": over,
            "waits": waits,
            "note": self._note,
            "problem": problem,
        }
        self._socket.tell(state, self._picture)

    def _next_keys(self) -> tuple[str, ...]:
        while self._goes_on() and not self._socket.gone:
            try:
                keys = self._socket.next_keys(None)
            except NoPlayerError as error:
                raise LlmError(
                    str(error), "play with: mosaic play ENV_ID --against NAME"
                ) from error
            if keys:
                return keys
        raise StoppedError


def read_move(keys: Sequence[str], world: TableWorld) -> int | str:
    """The move of a key, or why it is none."""
    game, key = world.game, keys[0]
    if key == RESET:
        return _NO_RESET
    if key not in game.keys:
        return f"{key} is no move; the keys are {', '.join(sorted(game.keys))}"
    action = list(game.keys).index(key)
    if action not in dict(world.actions.legal):
        return f"{game.names[action]} is taken"
    return action


@contextmanager
def human_player(run_dir: Path, goes_on: Callable[[], bool]) -> Iterator[HumanPlayer]:
    """A seat for a person, for as long as the match lasts."""
    with PlayerSocket(run_dir) as socket:
        yield HumanPlayer(socket, goes_on)
