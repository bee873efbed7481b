"""The player's end of a game: a terminal or a program presses keys and sees pictures."""

import base64
import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from mosaic.errors import PlayConnectionError, RunFileError
from mosaic.presenting import formatting
from mosaic.presenting.actor import PERSON, POLICY

if TYPE_CHECKING:
    from mosaic.client.sdk import TrainerClient

_ADDRESS_FILE = "play.json"


@dataclass(frozen=True)
class Greeting:
    """What a game says about itself, in its first line.

    Attributes:
        keys: What each key does, in words.
        turn_based: Whether the world waits for the player.
        has_policy: Whether a policy plays, from which the player can take over.
        fps: How often a real-time world steps.
    """

    keys: Mapping[str, str]
    turn_based: bool
    has_policy: bool
    fps: float


@dataclass(frozen=True)
class Scene:
    """The state of the game after a step; episodes are counted from 0.

    Attributes:
        frame: The picture as a file, PNG or JPEG; empty where there is none.
        problem: Why the last key did nothing.
        control: Who acts now: `person`, or `policy` where one plays too.
        waits: Nothing happens until a key is pressed.
        starts_in: Seconds of countdown before time runs.
        note: What the player should know at this moment, such as the side that is theirs.
    """

    episode: int
    step: int
    total: float
    over: bool
    frame: bytes
    problem: str = ""
    control: str = PERSON
    waits: bool = False
    starts_in: int = 0
    note: str = ""

    @property
    def caption(self) -> str:
        """A line for below the picture; episodes are counted as replays count them."""
        total = formatting.number(self.total)
        note = f"   {self.note}" if self.note else ""
        return f"episode {self.episode}   step {self.step}   return {total}{note}"


class PlayClient:
    """A player's connection to a running game.

    Attributes:
        greeting: What the game has said about itself.
        scene: The newest state of the game.
    """

    def __init__(self, trainer: "TrainerClient", run_id: str, patience_s: float = 20.0) -> None:
        self._socket = _connect(trainer, run_id, patience_s)
        self._lines = self._socket.makefile("rb")
        said = self._receive()
        self.greeting = read_greeting(said)
        self.scene = read_scene(said)

    def hold(self, *keys: str) -> None:
        """Send the keys that are down now; in a turn-based world this is a move."""
        self._send({"keys": list(keys)})

    def take_over(self) -> None:
        """Play yourself from the next step on; for games in which a policy plays."""
        self._send({"control": PERSON})

    def hand_back(self) -> None:
        """Let the policy play from the next step on."""
        self._send({"control": POLICY})

    def set_pace(self, pace: float) -> None:
        """Slow motion below 1; with 0, time waits for each key."""
        self._send({"pace": pace})

    def hold_time(self, on: bool) -> None:
        """Let time stand still, or run again after a countdown; not where a policy plays too."""
        self._send({"hold": on})

    def next_scene(self) -> Scene:
        """Wait for the next step.

        Raises:
            PlayConnectionError: The game has ended.
        """
        self.scene = read_scene(self._receive())
        return self.scene

    def quit(self) -> None:
        """End the run properly."""
        self._send({"quit": True})

    def close(self) -> None:
        """Hang up; the game waits a while for the player to come back."""
        self._lines.close()
        self._socket.close()

    def __enter__(self) -> "PlayClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _send(self, message: Mapping[str, object]) -> None:
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise PlayConnectionError("the game has ended") from error

    def _receive(self) -> Mapping[str, object]:
        try:
            line = self._lines.readline()
        except OSError as error:
            raise PlayConnectionError("the game has ended") from error
        if not line:
            raise PlayConnectionError("the game has ended")
        return read_line(line)


def _connect(trainer: "TrainerClient", run_id: str, patience_s: float) -> socket.socket:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            # Through the daemon: the run's folder may be on another machine.
            address = str(trainer.read_file(run_id, _ADDRESS_FILE).document()["socket"])
            if trainer.elsewhere is not None:
                address = trainer.elsewhere.local_socket(address)
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(address)
        # The worker is still starting: no file yet, or no listener behind it.
        except (OSError, RunFileError, KeyError):
            if time.monotonic() > deadline:
                raise PlayConnectionError(
                    f"run {run_id} is not waiting for a player: see `mosaic show`"
                ) from None
            time.sleep(0.05)
        else:
            return connection


def read_line(line: bytes) -> Mapping[str, object]:
    """What the game said in one line.

    Raises:
        PlayConnectionError: It is not a line of a game.
    """
    try:
        said = json.loads(line)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise PlayConnectionError("what answers is not a game: its line is not a JSON object")
    return said


def is_greeting(said: Mapping[str, object]) -> bool:
    """Whether the line also says what the world is like: the first one after connecting."""
    return "turn_based" in said


def read_greeting(said: Mapping[str, object]) -> Greeting:
    """What the first line says about the game.

    Raises:
        PlayConnectionError: A field of it makes no sense.
    """
    keys = said.get("keys")
    return Greeting(
        keys={str(key): str(text) for key, text in keys.items()} if isinstance(keys, dict) else {},
        turn_based=bool(said.get("turn_based")),
        has_policy=bool(said.get("has_policy")),
        fps=_number(said, "fps", 15),
    )


def read_scene(said: Mapping[str, object]) -> Scene:
    """The state of the game that a line tells.

    Raises:
        PlayConnectionError: A field of it makes no sense.
    """
    try:
        frame = base64.b64decode(str(said.get("frame") or ""))
    except ValueError as error:
        raise PlayConnectionError(f"the game sent a broken picture: {error}") from None
    return Scene(
        episode=int(_number(said, "episode")),
        step=int(_number(said, "step")),
        total=_number(said, "total"),
        over=bool(said.get("over")),
        frame=frame,
        problem=str(said.get("problem") or ""),
        control=str(said.get("control") or PERSON),
        waits=bool(said.get("waits")),
        starts_in=int(_number(said, "starts_in")),
        note=str(said.get("note") or ""),
    )


def _number(said: Mapping[str, object], name: str, default: float = 0) -> float:
    value = said.get(name, default)
    if not isinstance(value, int | float):
        raise PlayConnectionError(f"the game sent {name} {value!r}, not a number")
    return value
