"""The arena's page: a table that fills as agents play, replays by a click, a row for a person."""

import json
from collections.abc import Callable

import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from support.trainer import Trainer

from gym_gui.models.arena_draft import FIRST, read_draft
from gym_gui.panels.arena_panel import ArenaPanel

from .conftest import Driver

ENV = "FrozenLake-v1"


def _cell(arena: ArenaPanel, agent: str, at: int) -> str:
    for place in range(arena.table.rowCount()):
        first, item = arena.table.item(place, 0), arena.table.item(place, at)
        if first is not None and item is not None and first.text() == agent:
            return item.text()
    return ""


def test_agents_play_the_same_seeds_and_a_person_fills_a_row(
    trainer: Trainer, open_window: Callable[..., Driver]
) -> None:
    """Start, a live table, a click on an episode, and the same seeds at the keys."""
    driver = open_window(trainer.home)
    driver.connected()
    window, arena = driver.window, driver.window.arena
    window.show_layout("arena")
    driver.until(lambda: ENV in arena.env.names, "environments")
    arena.env.set_text(ENV)
    arena.seeds.set_value(2)
    arena.first.set_value(7)
    arena.agents.set_agents({"random": True, "bot": True, "human": True})
    arena.agents.name.setText("rundom")
    arena.agents.add.click()
    assert "random" in arena.agents.error.text()
    arena.start.click()
    driver.until(lambda: _cell(arena, "random", 1) == "2 of 2", "random play has ended")
    # The bot knows BabyAI only: its row says so, and the others play on.
    driver.until(lambda: _cell(arena, "bot", 2) == "Failed", "bot")
    assert _cell(arena, "human", 1) == "0 of 2"
    assert arena.play.isVisible()
    _see_again(driver)
    _play_the_first_seed(driver)
    window.show_layout("arena")
    driver.until(lambda: _cell(arena, "human", 1) == "1 of 2", "the row of the person")
    standing = arena.standing
    assert standing is not None
    human = next(played for played in standing.played if played.agent == "human")
    assert [episode.seed for episode in human.episodes] == [7]
    lead = next(row.lead for row in standing.rows if row.agent == "human")
    assert lead is not None
    assert lead.seeds == 1
    assert standing.runs == read_draft(_stored(trainer)).runs


def _see_again(driver: Driver) -> None:
    """A click on the second seed of the first agent opens that episode."""
    window, table = driver.window, driver.window.arena.grid.table
    table.cellClicked.emit(0, 1)
    replay = window.run_panel.tab("replay")
    driver.until(lambda: replay.player.length > 0 and replay.list.currentRow() == 1, "the replay")
    assert driver.services.selection.current == window.arena.standing.runs["random"]
    window.show_layout("arena")


def _play_the_first_seed(driver: Driver) -> None:
    window = driver.window
    driver.until(lambda: ENV in window.play.env.names, "what can be played")
    window.arena.play.click()
    play = window.play
    driver.until(lambda: play.game.view.image is not None and play.stop.isEnabled(), "the game")
    assert play.seed.value() == 7
    while "over" not in play.score:
        seen = play.score
        QTest.keyClick(play.game, Qt.Key.Key_Right)
        driver.until(lambda seen=seen: play.score != seen, "a step")
    play.end()
    driver.reaches(play.run_id, "TERM")


def test_players_at_one_table_are_rated(
    trainer: Trainer, open_window: Callable[..., Driver]
) -> None:
    """A board game: every two meet in both orders, and the better one is above."""
    driver = open_window(trainer.home)
    driver.connected()
    arena = driver.window.arena
    driver.window.show_layout("arena")
    driver.until(lambda: "tictactoe_v3" in arena.env.names, "environments")
    arena.env.set_text("tictactoe_v3")
    arena.seeds.set_value(3)
    arena.agents.set_agents({"random": True, "bot": True, "human": False})
    arena.start.click()
    driver.until(lambda: _cell(arena, "bot", 3) == "6", "six games")
    first = arena.table.item(0, 0)
    assert first is not None
    assert first.text() == "bot"
    assert not arena.pareto.isVisible()
    assert arena.grid.table.rowCount() == 2
    arena.grid.table.cellClicked.emit(1, 2)
    replay = driver.window.run_panel.tab("replay")
    driver.until(lambda: replay.player.length > 0 and replay.list.currentRow() == 5, "the game")


@pytest.mark.prove
def test_a_person_sits_down_at_a_table(
    trainer: Trainer, open_window: Callable[..., Driver]
) -> None:
    """The page asks for the missing games, the person plays them, and the ratings have them."""
    driver = open_window(trainer.home)
    driver.connected()
    arena, play = driver.window.arena, driver.window.play
    driver.window.show_layout("arena")
    driver.until(lambda: "tictactoe_v3" in arena.env.names, "environments")
    arena.env.set_text("tictactoe_v3")
    arena.seeds.set_value(1)
    arena.agents.set_agents({"random": True, "human": True})
    arena.start.click()
    driver.until(lambda: arena.play.isVisible(), "what is missing")
    arena.play.click()
    driver.until(lambda: play.game.view.image is not None and play.stop.isEnabled(), "the table")
    for number in range(2):
        driver.until(lambda number=number: f"episode {number}" in play.score, "the game")
        assert "you are the" in play.score
        _fill_the_board(driver)
        QTest.keyClick(play.game, Qt.Key.Key_1)
    driver.reaches(play.run_id, "TERM")
    driver.window.show_layout("arena")
    driver.until(lambda: _cell(arena, "human", 3) == "2", "two rated games")
    driver.until(lambda: not arena.play.isVisible(), "nothing is missing")


def _fill_the_board(driver: Driver) -> None:
    play = driver.window.play
    keys = [getattr(Qt.Key, f"Key_{number}") for number in range(1, 10)]
    while " over" not in play.score and play.playing:
        for key in keys:
            seen = play.score
            QTest.keyClick(play.game, key)
            driver.until(lambda seen=seen: play.score != seen or not play.playing, "an answer")
            if " over" in play.score or not play.playing:
                return


def _stored(trainer: Trainer) -> object:
    return json.loads((trainer.home.root / "gui" / "arena.json").read_text())


def test_a_stored_page_that_makes_no_sense_is_not_used() -> None:
    """What was stored comes back as it was; anything else is the first draft."""
    assert read_draft(FIRST.to_json()) == FIRST
    for broken in (None, [], {"match": 1}, {"match": ["x"], "agents": {}, "runs": {}}):
        assert read_draft(broken) == FIRST
