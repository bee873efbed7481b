"""One run at a table put together: players with their models, records, games, reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from pydantic import JsonValue

from llm_worker.asking import client_for, prompts_of, way_of
from llm_worker.play.actions import Json
from llm_worker.play.budget import Spent
from llm_worker.play.client import StoppedError
from llm_worker.play.game import EpisodeResult, limits_of
from llm_worker.play.models import find_model
from llm_worker.play.records import FOLDER, RunRecords, StepRecord, continued_run
from llm_worker.play.thinking import Purse, Thinker
from llm_worker.process import LlmProcess
from llm_worker.reporting import Reporter
from llm_worker.settings import Settings, players_of
from llm_worker.table.match import GameResult, TableMatch
from llm_worker.table.people import HumanPlayer, human_player
from llm_worker.table.policies import policy_player
from llm_worker.table.seats import (
    BOT,
    HUMAN,
    MODEL,
    RANDOM,
    RUN,
    BotPlayer,
    ModelPlayer,
    Player,
    RandomPlayer,
)
from llm_worker.table.world import TableWorld


class TableReporter:
    """Tells the daemon, and people at the table, about each move and each game."""

    def __init__(
        self,
        reporter: Reporter,
        settings: Settings,
        cooperative: bool,
        people: Sequence[HumanPlayer],
    ) -> None:
        self._reporter = reporter
        self._first = players_of(settings)[0]
        self._games = settings.episodes
        self._cooperative = cooperative
        self._people = people

    def stepped(self, record: StepRecord, picture: bytes, scores: Sequence[float]) -> None:
        """A move was made."""
        self._reporter.stepped(record, picture)
        for person in self._people:
            person.saw(record, picture, scores)

    def goes_on(self) -> bool:
        """Whether to make another move; waits while paused."""
        return self._reporter.goes_on()

    def played(self, game: GameResult) -> None:
        """A game is over; its return is that of the player who was named first.

        Raises:
            StoppedError: A person leaves, or the run is stopped.
        """
        won = None if self._cooperative or not game.whole else game.outcome == "won"
        episode = EpisodeResult(
            episode=game.episode,
            seed=game.seed,
            steps=game.steps,
            total=game.scores[game.seats.index(self._first)],
            outcome=game.outcome,
            success=won,
            tokens=game.tokens,
            cost=game.cost,
            seconds=game.seconds,
        )
        more: Json = {
            "seats": list(game.seats),
            "scores": list(game.scores),
            "cooperative": self._cooperative,
        }
        self._reporter.ended(episode, more)
        if game.whole:
            # After it is reported: however long a person looks at the end, the game counts.
            for person in self._people:
                person.finished(another=game.episode + 1 < self._games)


def play_table(process: LlmProcess, settings: Settings) -> None:
    """Play all games of a run.

    Raises:
        LlmError: A model, the game or the records do not allow it.
    """
    continued = continued_run(settings.checkpoint_path) if settings.checkpoint_path else None
    records = RunRecords(process.run_dir, continued)
    world = _world(settings)
    reporter = Reporter(process, records, settings)
    reporter.begin()
    purse = Purse(limits_of(settings))
    try:
        with _players(process, settings, records, purse, reporter) as players:
            people = [one for one in players.values() if isinstance(one, HumanPlayer)]
            told = TableReporter(reporter, settings, world.game.cooperative, people)
            match = TableMatch(settings, world, players, records, told, purse)
            results = match.play()
        summary = summarise(results, purse.spent, match.budget_reason)
        records.write_summary({"players": list[JsonValue](players_of(settings)), **summary})
        process.summary = {k: v for k, v in summary.items() if k != "games"}
    except StoppedError:
        return
    finally:
        records.close()
        world.close()


def preview_table(settings: Settings) -> str:
    """What a run would do: the players, and what the first of them reads.

    Raises:
        LlmError: A policy among them was trained for something else.
    """
    world = _world(settings)
    try:
        world.begin(settings.seed)
        for name, file in settings.policies.items():
            with policy_player(name, file, lambda: False) as player:
                player.begin(world, settings.seed, 0)
        return (
            f"{' against '.join(players_of(settings))}, {settings.episodes} games\n"
            f"{world.game.rules}\nfirst moment:\n{world.text()}\nmoves: {world.actions.listed()}"
        )
    finally:
        world.close()


def _world(settings: Settings) -> TableWorld:
    drawn = settings.frames or settings.pictures or HUMAN in players_of(settings)
    return TableWorld(settings.env_id, settings.max_steps, dict(settings.env_kwargs), drawn)


@contextmanager
def _players(
    process: LlmProcess,
    settings: Settings,
    records: RunRecords,
    purse: Purse,
    reporter: Reporter,
) -> Iterator[dict[str, Player]]:
    """Everyone at the table; servers and sessions live as long as the match."""
    simple: dict[str, Callable[[], Player]] = {RANDOM: RandomPlayer, BOT: BotPlayer}

    def seated(name: str, stack: ExitStack) -> Player:
        if name in simple:
            return simple[name]()
        if name.startswith(RUN):
            file = settings.policies[name]
            return stack.enter_context(policy_player(name, file, lambda: process.stopping))
        return stack.enter_context(_model_player(name, process, settings, records, purse))

    named = players_of(settings)
    with ExitStack() as stack:
        found: dict[str, Player] = {}
        if HUMAN in named:
            # First: the person's window connects while the others still load what they need.
            found[HUMAN] = stack.enter_context(human_player(process.run_dir, reporter.goes_on))
        yield {name: found.get(name) or seated(name, stack) for name in named}


@contextmanager
def _model_player(
    name: str, process: LlmProcess, settings: Settings, records: RunRecords, purse: Purse
) -> Iterator[Player]:
    model = find_model(name.removeprefix(MODEL), settings.price_in, settings.price_out)
    log = process.run_dir / FOLDER / "server.log"
    with client_for(settings, model, log, lambda: not process.stopping) as client:
        way, asked = way_of(settings, model, client, records)
        purse.spent = purse.spent.and_also(asked)
        yield ModelPlayer(
            Thinker(settings, model, way, records, client.ask, purse), prompts_of(settings)
        )


def summarise(results: list[GameResult], spent: Spent, budget_reason: str) -> Json:
    """What `summary.json` says of a match."""
    whole = [game for game in results if game.whole]
    stopped = any(game.outcome == "stopped" for game in results)
    return {
        "outcome": "budget" if budget_reason else "stopped" if stopped else "completed",
        "budget": budget_reason,
        "episodes": len(whole),
        "won": sum(game.outcome == "won" for game in whole),
        "drawn": sum(game.outcome == "drawn" for game in whole),
        "lost": sum(game.outcome == "lost" for game in whole),
        "steps": sum(game.steps for game in results),
        "requests": spent.requests,
        "tokens": {"in": spent.tokens_in, "out": spent.tokens_out, "cached": spent.tokens_cached},
        "cost": None if spent.cost is None else round(spent.cost, 6),
        "seconds": round(sum(game.seconds for game in results), 3),
        "games": [
            {
                "episode": game.episode,
                "seed": game.seed,
                "seats": list(game.seats),
                "scores": list(game.scores),
                "steps": game.steps,
                "outcome": game.outcome,
            }
            for game in results
        ],
    }
