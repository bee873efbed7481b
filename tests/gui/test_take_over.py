"""Taking over from a policy in the live view, and handing back; real daemon, worker and window."""

import json
from collections.abc import Iterator

import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from support.trainer import Trainer

from gym_gui.tabs.live_tab import LiveTab
from gym_gui.tabs.replay_tab import ReplayTab
from gym_gui.tabs.session_view import SessionView
from gym_gui.tabs.telemetry_tab import TelemetryTab
from mosaic.presenting.actor import PERSON, POLICY, actor_of
from mosaic.records import RunRecord, StepRecord

from .conftest import Driver

LEFT_BUTTON = Qt.MouseButton.LeftButton


@pytest.fixture
def joined(driver: Driver, trained: list[str], shared_trainer: Trainer) -> Iterator[RunRecord]:
    """A session with a trained policy, started from the live view; it is gone after the test."""
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(trained[0])
    driver.window.run_panel.open_tab("live")
    live = driver.window.run_panel.tab("live")
    assert isinstance(live, LiveTab)
    driver.until(live.take_over.isEnabled, "the run can be joined")
    before = set(driver.services.store.runs)
    QTest.mouseClick(live.take_over, LEFT_BUTTON)
    runs = driver.services.store.runs
    found = driver.until(
        lambda: [run for run in runs.values() if run.run_id not in before and _is_session(run)],
        "a session",
    )
    yield found[0]
    client = shared_trainer.client
    client.cancel(found[0].run_id, grace_s=0.5)
    shared_trainer.ended(found[0].run_id)
    # Others count the runs that were made from the trained ones.
    client.delete(found[0].run_id, purge=True)


def _is_session(run: RunRecord) -> bool:
    return run.mode == "take_over" and not run.run_id.startswith("pending-")


def _session(driver: Driver) -> SessionView:
    tab = driver.window.run_panel.tab("telemetry")
    assert isinstance(tab, TelemetryTab)
    return tab.session


def _steps(trainer: Trainer, run_id: str) -> list[StepRecord]:
    return [step for batch in trainer.client.steps(run_id) for step in batch.steps]


def test_take_over_play_and_hand_back_in_the_live_view(
    driver: Driver, trained: list[str], shared_trainer: Trainer, joined: RunRecord
) -> None:
    """The policy plays, the person takes the keys in the middle, hands back; each step says who."""
    base = shared_trainer.client.get(trained[0])
    assert joined.parent_run_id == trained[0]
    session = _session(driver)
    driver.until(lambda: session.swap.isEnabled() and session.game.view.image, "the policy plays")
    assert driver.window.run_panel.tab("telemetry").isVisible()
    assert (session.control, session.swap.text()) == (POLICY, "Take over")

    def acted(actor: str) -> int:
        return sum(actor_of(s.info_json) == actor for s in _steps(shared_trainer, joined.run_id))

    def pressed_right() -> list[StepRecord]:
        steps = _steps(shared_trainer, joined.run_id)
        return [step for step in steps if "right" in json.loads(step.info_json).get("keys", ())]

    driver.until(lambda: acted(POLICY) >= 3, "steps of the policy")
    assert acted(PERSON) == 0
    QTest.mouseClick(session.swap, LEFT_BUTTON)
    driver.until(lambda: session.control == PERSON, "the person plays")
    assert session.swap.text() == "Hand back"
    assert session.game.captured
    QTest.keyPress(session.game, Qt.Key.Key_Right)
    driver.until(lambda: pressed_right(), "steps with the key")
    QTest.keyRelease(session.game, Qt.Key.Key_Right)
    before = acted(POLICY)
    QTest.mouseClick(session.swap, LEFT_BUTTON)
    driver.until(lambda: session.control == POLICY, "handed back")
    driver.until(lambda: acted(POLICY) > before, "the policy plays again")
    QTest.mouseClick(session.stop, LEFT_BUTTON)
    assert driver.reaches(joined.run_id, "TERM").completed

    steps = _steps(shared_trainer, joined.run_id)
    mine = [step for step in steps if actor_of(step.info_json) == PERSON]
    assert {step.action_json for step in pressed_right()} == {"1"}
    episodes = [e for b in shared_trainer.client.episodes(joined.run_id) for e in b.episodes]
    assert sum(json.loads(e.info_json)["person_steps"] for e in episodes) == len(mine)
    # What the person did is neither learned from nor counted by the run whose policy played.
    assert shared_trainer.client.get(trained[0]).version == base.version

    driver.window.run_panel.open_tab("replay")
    replay = driver.window.run_panel.tab("replay")
    assert isinstance(replay, ReplayTab)
    driver.until(lambda: replay.list.count() == len(episodes), "the recorded episodes")
    entries = [replay.list.item(place) for place in range(replay.list.count())]
    titles = [entry.text() for entry in entries if entry is not None]
    assert any("by a person" in title and ", 0 by a person" not in title for title in titles)
    place = next(n for n, e in enumerate(episodes) if e.episode == mine[0].episode)
    replay.list.setCurrentRow(place)
    driver.until(lambda: replay.player.length == episodes[place].length, "its pictures")
    replay.player.slider.setValue(mine[0].step)
    assert "by the person" in replay.player.caption


@pytest.mark.prove
def test_who_leaves_the_live_view_hands_back(
    driver: Driver, shared_trainer: Trainer, joined: RunRecord
) -> None:
    """Another tab in front: the controls are not left to no one, and the way back is open."""
    session = _session(driver)
    driver.until(lambda: session.swap.isEnabled() and session.game.view.image, "the policy plays")
    QTest.mouseClick(session.swap, LEFT_BUTTON)
    driver.until(lambda: session.control == PERSON, "the person plays")
    driver.window.run_panel.open_tab("logs")
    driver.until(lambda: not session.swap.isEnabled(), "the view is closed")
    driver.window.run_panel.open_tab("telemetry")
    driver.until(session.swap.isEnabled, "joined again")
    assert (session.control, session.swap.text()) == (POLICY, "Take over")
    assert driver.run(joined.run_id).live
