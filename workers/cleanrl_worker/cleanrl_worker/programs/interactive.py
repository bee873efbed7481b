"""A session with an environment over JSON lines: one command a line in, one answer a line out.

| command | answer |
|---|---|
| `{"cmd": "init", "env_id": …, "policy_path": …, "frames": "png"}` | `init` |
| `{"cmd": "reset", "seed": 1}` | `ready` |
| `{"cmd": "step", "action": 0}`, without `action` the policy acts | `step` or `episode_done` |
| `{"cmd": "choose", "observation": …, "allowed": [0, 2]}` | `choice`: what the policy would do |
| `{"cmd": "ping"}` | `pong` |
| `{"cmd": "stop"}` | `stopped`, and the session ends |

Whatever is wrong with a line is answered by `error`, and the session continues. Frames are pictures
in base64. Nothing but answers is ever written to stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeAlias

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.programs.encoding import FORMATS, decode_action, encode_frame, encode_value
from cleanrl_worker.programs.player import Action, Player
from mosaic.workers import did_you_mean

# A line of the session: whatever JSON the other side wrote, and what is answered.
Line: TypeAlias = dict[str, object]
PROTOCOL = 1
_LONGEST_LINE = 1 << 20


class CommandError(ValueError):
    """A line that cannot be obeyed; the text says what is allowed."""


class Session:
    """Obeys one command at a time."""

    def __init__(self, answer: Callable[[Line], None], seed: int) -> None:
        self._answer = answer
        self._seed = seed
        self._player: Player | None = None
        self._frames = "png"
        self._episode = self._step = 0
        self._return = 0.0
        self._over = True
        self._unseeded = True
        self._commands: dict[str, Callable[[Line], None]] = {
            "init": self.init,
            "reset": self._reset,
            "step": self._take_step,
            "choose": self._choose,
            "ping": lambda command: self._answer({"type": "pong"}),
        }

    def obey(self, line: bytes) -> bool:
        """Carry out one line; False when the session is to end."""
        name = ""
        try:
            command = _read(line)
            name = str(command.get("cmd"))
            if name == "stop":
                return False
            if name not in self._commands:
                known = (*self._commands, "stop")
                hint = did_you_mean(name, known)
                raise CommandError(f"unknown cmd {name!r}; allowed: {', '.join(known)}{hint}")
            self._commands[name](command)
        except (CommandError, UsageError) as error:
            self._answer({"type": "error", "cmd": name, "message": str(error)})
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            self._answer({"type": "error", "cmd": name, "message": text})
        return True

    def init(self, command: Line) -> None:
        """Choose environment, policy and frames; without any, say what the session is."""
        frames = command.get("frames", self._frames)
        if not isinstance(frames, str) or frames not in FORMATS:
            raise CommandError(f"frames must be one of {', '.join(FORMATS)}, not {frames!r}")
        self._frames = frames
        env_id, policy = _text(command, "env_id"), _text(command, "policy_path")
        if env_id or policy:
            player = Player(env_id, Path(policy) if policy else None, _text(command, "algo"))
            self.close()
            self._player, self._over, self._unseeded = player, True, True
        about = {} if self._player is None else self._player.about()
        self._answer({"type": "init", "protocol": PROTOCOL, "frames": frames, **about})

    def close(self) -> None:
        """Close the environment."""
        if self._player is not None:
            self._player.close()
            self._player = None

    def _reset(self, command: Line) -> None:
        env_id = _text(command, "env_id") or _text(command, "env")
        if env_id and (self._player is None or env_id != self._player.env_id):
            player = Player(env_id, None, None)
            self.close()
            self._player, self._unseeded = player, True
        seed = command.get("seed")
        if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool) or seed < 0):
            raise CommandError(f"seed must be a whole number from 0, not {seed!r}")
        player = self._need_player()
        first = self._seed if self._unseeded else None
        observation, info = player.reset(first if seed is None else seed)
        self._unseeded = False
        self._episode += 1
        self._step, self._return, self._over = 0, 0.0, False
        self._answer(
            {
                "type": "ready",
                "env_id": player.env_id,
                "observation": encode_value(observation),
                "info": encode_value(info),
                **self._place(),
            }
        )

    def _take_step(self, command: Line) -> None:
        player = self._need_player()
        if self._over:
            raise CommandError("there is no episode to step in; send a reset first")
        if command.get("action") is not None:
            action: Action = decode_action(player.action_space, command["action"])
        elif player.has_policy:
            action = player.choose(deterministic=bool(command.get("deterministic", True)))
        else:
            raise CommandError("this session has no policy: give 'action', or init a policy_path")
        observation, reward, terminated, truncated, info = player.step(action)
        self._step += 1
        self._return += reward
        self._over = terminated or truncated
        self._answer(
            {
                "type": "episode_done" if self._over else "step",
                "action": encode_value(action),
                "observation": encode_value(observation),
                "reward": encode_value(reward),
                "terminated": terminated,
                "truncated": truncated,
                "info": encode_value(info),
                **self._place(),
            }
        )

    def _choose(self, command: Line) -> None:
        """Ask the policy about an observation from elsewhere; the environment is not touched."""
        player = self._need_player()
        if not player.has_policy:
            raise CommandError("this session has no policy to ask: init a policy_path")
        allowed = command.get("allowed")
        if allowed is not None and (not isinstance(allowed, list) or not allowed):
            raise CommandError(f"allowed must be a list of actions, not {allowed!r}")
        action = player.advise(
            command.get("observation"),
            None if allowed is None else [_choice(player, one) for one in allowed],
            first=bool(command.get("first")),
        )
        self._answer({"type": "choice", "action": encode_value(action)})

    def _place(self) -> Line:
        assert self._player is not None
        place: Line = {
            "episode": self._episode,
            "step": self._step,
            "episode_return": encode_value(self._return),
            "frame": None,
        }
        if self._frames == "none":
            return place
        try:
            place["frame"] = encode_frame(self._player.picture(), self._frames)
        except Exception as error:
            # An environment that cannot be drawn can still be stepped.
            place["frame_problem"] = str(error)
        return place

    def _need_player(self) -> Player:
        if self._player is None:
            raise CommandError("there is no environment yet; send init or reset with env_id")
        return self._player


def _choice(player: Player, given: object) -> int:
    action = decode_action(player.action_space, given)
    if not isinstance(action, int):
        raise CommandError("allowed is for actions that are choices; leave it out")
    return action


def _text(command: Line, name: str) -> str | None:
    value = command.get(name)
    if value is not None and not isinstance(value, str):
        raise CommandError(f"{name} must be text, not {value!r}")
    return value


def _read(line: bytes) -> Line:
    if len(line) > _LONGEST_LINE:
        raise CommandError(f"the line is longer than {_LONGEST_LINE} bytes")
    try:
        command = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"not a line of JSON: {error}") from None
    if not isinstance(command, dict) or not isinstance(command.get("cmd"), str):
        raise CommandError('a command is an object with a text "cmd", such as {"cmd": "ping"}')
    return command


def _lines(source: BinaryIO) -> Iterator[bytes]:
    """Lines of the source; one that is too long comes in a piece that is refused."""
    while line := source.readline(_LONGEST_LINE + 2):
        if len(line) > _LONGEST_LINE:
            while not line.endswith(b"\n") and (rest := source.readline(_LONGEST_LINE)):
                line = line[: _LONGEST_LINE + 1] + rest[-1:]
        if line.strip():
            yield line


def main(arguments: Sequence[str] | None = None) -> int:
    """Talk until told to stop, or until the other side is gone."""
    parser = argparse.ArgumentParser(description="JSON lines on stdin and stdout")
    parser.add_argument("--env-id")
    parser.add_argument("--policy")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    # The real stdout is kept under another number, and 1 becomes stderr.
    # Libraries that print, in Python or in C, must not break the protocol.
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def answer(document: Line) -> None:
        channel.write(json.dumps(document, allow_nan=False).encode() + b"\n")
        channel.flush()

    session = Session(answer, options.seed)
    try:
        first = {"cmd": "init", "env_id": options.env_id, "policy_path": options.policy}
        session.obey(json.dumps(first).encode())
        for line in _lines(sys.stdin.buffer):
            if not session.obey(line):
                answer({"type": "stopped"})
                break
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), channel.fileno())
    finally:
        session.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
