"""TextArena's games for one player as Gymnasium environments: text comes out, text goes in."""

from __future__ import annotations

import contextlib
import importlib
import io
import random
import re
from collections.abc import Mapping
from typing import Protocol

import gymnasium
from gymnasium import spaces

from llm_worker.errors import WorldError
from llm_worker.play.world import TEXTARENA as PREFIX
from mosaic.workers import did_you_mean

_LONGEST = 100_000
_OFFERED = re.compile(r"available (?:actions|moves):(.*)", re.IGNORECASE)
_BRACKETS = re.compile(r"\[[^\[\]]+\]")


class _Game(Protocol):
    """What is used of TextArena's own environments, which have no types."""

    def reset(self, num_players: int, seed: int | None) -> object: ...
    def step(self, action: str) -> tuple[bool, Mapping[str, object] | None]: ...
    def get_observation(self) -> tuple[int, object]: ...
    def close(
        self,
    ) -> tuple[Mapping[int, float] | None, Mapping[int, Mapping[str, object]] | None]: ...


class TextArenaEnv(gymnasium.Env[str, str]):
    """One game.

    Attributes:
        offered: The moves that the game lists at this moment; empty when any text may be one.
    """

    observation_space = spaces.Text(_LONGEST)
    action_space = spaces.Text(_LONGEST)

    def __init__(self, name: str, **kwargs: object) -> None:
        """Make a game.

        Raises:
            WorldError: There is no such game, or it cannot be played here.
        """
        self._name, self._kwargs = name, kwargs
        self._game = _make(name, kwargs)
        self.offered: tuple[str, ...] = ()

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[str, dict[str, object]]:
        super().reset(seed=seed)
        # Made again: the wrappers of a game keep what it said before.
        self._game = _make(self._name, self._kwargs)
        # The games draw from Python's own chances, and not all of them set the seed.
        random.seed(seed)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                self._game.reset(num_players=1, seed=seed)
        except AssertionError as error:
            raise WorldError(f"{PREFIX}{self._name} is not for one player: {error}") from error
        return self._look(), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        with contextlib.redirect_stdout(io.StringIO()):
            done, info = self._game.step(action)
        if not done:
            return self._look(), 0.0, False, False, dict(info or {})
        rewards, ended = self._game.close()
        reward = float((rewards or {}).get(0, 0.0))
        about = (ended or {}).get(0, {})
        # An episode that ran out of turns was cut by the game, not lost to it.
        facts = {"is_success": reward >= 1, "reason": about.get("reason", "")}
        return str(about.get("reason", "")), reward, True, False, facts

    def render(self) -> None:
        """No picture: words are all that such a game has."""

    def _look(self) -> str:
        _, seen = self._game.get_observation()
        text = str(seen).strip()
        found = _OFFERED.findall(text)
        listed = _BRACKETS.findall(found[-1]) if found else []
        words = [word.strip() for word in found[-1].split(",")] if found and not listed else []
        # Moves are written in brackets, also where the list leaves them out.
        self.offered = tuple(listed or (f"[{word}]" for word in words if word))
        return text


def _make(name: str, kwargs: dict[str, object]) -> _Game:
    try:
        textarena = importlib.import_module("textarena")
        registry = importlib.import_module("textarena.envs.registration").ENV_REGISTRY
    except ImportError as error:
        raise WorldError(
            f"TextArena is not installed ({error.name} is missing)", "run: make setup-textarena"
        ) from error
    if name not in registry:
        raise WorldError(f"there is no game {PREFIX}{name}{did_you_mean(name, registry)}")
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            game: _Game = textarena.make(name, **kwargs)
            return game
    except (ImportError, LookupError, OSError, SyntaxError, TypeError) as error:
        # Some games fetch lists of words, some need a model of OpenAI, some a newer Python.
        first = str(error).strip(" \n*").partition("\n")[0]
        raise WorldError(f"{PREFIX}{name} cannot be made here: {first}") from error
