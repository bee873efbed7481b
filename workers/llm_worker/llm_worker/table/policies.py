"""Trained policies at a table: each in a session of the worker that trained it.

A policy fits a game when it reads observations of the board's shape, or as one row of as many
numbers, and chooses among as many actions. That the numbers mean the same cannot be checked; the
board games of pgx have the boards and moves of PettingZoo's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llm_worker.errors import ModelError, WorldError
from llm_worker.play.answers import Decision
from llm_worker.play.client import StoppedError
from llm_worker.play.records import StepRecord
from llm_worker.play.thinking import Thought, free
from llm_worker.settings import PolicyFile
from llm_worker.table.world import TableWorld
from mosaic.errors import MosaicError, SessionEndedError
from mosaic.workers.sessions import Answer, PolicySession


class PolicyPlayer:
    """A policy that takes its best legal move.

    Args:
        name: As it was named among the players.
        session: The process that holds it.
        stopping: Whether the run is being stopped, which ends that process too.
    """

    def __init__(self, name: str, session: PolicySession, stopping: Callable[[], bool]) -> None:
        self._name = name
        self._session = session
        self._stopping = stopping
        self._first = True

    def begin(self, world: TableWorld, seed: int, seat: int) -> None:
        """Begin a game.

        Raises:
            WorldError: The policy was trained for something else.
        """
        text = misfit(self._name, self._session.about, world)
        if text:
            raise WorldError(f"{text}; {advice(world)}")
        self._first = True

    def decide(self, world: TableWorld, text: str, episode: int, step: int) -> Thought:
        """Its best legal move."""
        return free(Decision(self._choose(world), "the policy's best legal move"))

    def replay(self, world: TableWorld, record: StepRecord) -> None:
        """Let a policy with memory see what it saw before."""
        self._choose(world)

    def _choose(self, world: TableWorld) -> int:
        legal = [number for number, _ in world.actions.legal]
        try:
            chosen = self._session.choose(world.board.tolist(), legal, first=self._first)
        except SessionEndedError as error:
            # A run that is stopped takes the policy's process with it.
            if self._stopping():
                raise StoppedError from None
            raise ModelError(f"{self._name}: {error}", "see the run's log") from error
        self._first = False
        return chosen


@contextmanager
def policy_player(
    name: str, file: PolicyFile, stopping: Callable[[], bool]
) -> Iterator[PolicyPlayer]:
    """A policy at the table, for as long as the match lasts.

    Raises:
        ModelError: The policy cannot be opened.
    """
    try:
        session = PolicySession(file.worker, file.path, file.env_id)
    except MosaicError as error:
        raise ModelError(f"{name} cannot sit at the table: {error}") from error
    try:
        yield PolicyPlayer(name, session, stopping)
    finally:
        session.close()


def misfit(name: str, about: Answer, world: TableWorld) -> str:
    """Why a policy cannot play a game that has begun; empty when it can."""
    reads, actions = about.get("reads"), about.get("actions")
    shape = tuple(reads["shape"]) if reads else ()
    moves = (actions or {}).get("n")
    if shape in (world.board.shape, (world.board.size,)) and moves == len(world.game.names):
        return ""
    chooses = f"chooses among {moves} actions" if moves else "has no list of actions"
    return (
        f"{name} was trained in {about.get('env_id')}: it reads observations of shape {shape} and "
        f"{chooses}; {world.env_id} shows {world.board.shape} and has {len(world.game.names)} moves"
    )


def advice(world: TableWorld) -> str:
    """What to train to have a policy that fits."""
    if world.game.trained_in:
        return f"train one that fits: mosaic train ppo_ondevice --env-id {world.game.trained_in}"
    return "train one in an environment of your own with these observations and moves"
