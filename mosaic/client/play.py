"""The player's end of a game: a terminal or a program presses keys and sees pictures."""

import base64
import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, NotRequired, TypedDict

from mosaic.errors import PlayConnectionError, RunFileError
from mosaic.presenting.actor import PERSON, POLICY

if TYPE_CHECKING:
    from mosaic.client.sdk import TrainerClient

_ADDRESS_FILE = "play.json"


class _Said(TypedDict):
    """A line of the game; the first also says what the world is like."""

    episode: int
    step: int
    total: float
    over: bool
    frame: str
    problem: NotRequired[str]
    control: NotRequired[str]
    keys: NotRequired[dict[str, str]]
    turn_based: NotRequired[bool]
    has_policy: NotRequired[bool]
    fps: NotRequired[float]
    waits: NotRequired[bool]
    starts_in: NotRequired[int]


@dataclass(frozen=True)
class Scene:
    """The state of the game after a step.

    Attributes:
        control: Who acts now: `person`, or `policy` where one plays too.
        waits: Nothing happens until a key is pressed.
        starts_in: Seconds of countdown before time runs.
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


class PlayClient:
    """A player's connection to a running game.

    Attributes:
        keys: What each key does, as text.
        turn_based: Whether the world waits for the player.
        has_policy: Whether a policy plays, from which the player can take over.
        fps: How often a real-time world steps.
    """

    def __init__(self, trainer: "TrainerClient", run_id: str, patience_s: float = 20.0) -> None:
        self._socket = _connect(trainer, run_id, patience_s)
        self._lines = self._socket.makefile("rb")
        hello = self._receive()
        self.keys: dict[str, str] = hello.get("keys", {})
        self.turn_based: bool = bool(hello.get("turn_based"))
        self.has_policy: bool = bool(hello.get("has_policy"))
        self.fps: float = float(hello.get("fps", 15))
        self.scene = _scene(hello)

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
        self.scene = _scene(self._receive())
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

    def _receive(self) -> _Said:
        try:
            line = self._lines.readline()
        except OSError as error:
            raise PlayConnectionError("the game has ended") from error
        if not line:
            raise PlayConnectionError("the game has ended")
        document: _Said = json.loads(line)
        return document


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


def _scene(document: _Said) -> Scene:
    return Scene(
        episode=document["episode"],
        step=document["step"],
        total=document["total"],
        over=document["over"],
        frame=base64.b64decode(document["frame"]),
        problem=document.get("problem", ""),
        control=document.get("control", PERSON),
        waits=document.get("waits", False),
        starts_in=document.get("starts_in", 0),
    )
